"""The roster: which actors of one life of a system should live, so that no death is missed.

A coordinator that is started again asks the living actors. If an actor died while no coordinator ran, only the roster
shows this. The roster is in the key-value store of Ray's control service, so it lives as long as the actors can.
"""

from ray.experimental.internal_kv import _internal_kv_del, _internal_kv_list, _internal_kv_put

from rayshot.runtime.ray.naming import NAMESPACE, actor_name


class Roster:
    """The names of all actors that joined and did not end."""

    def __init__(self, system: str, incarnation: int) -> None:
        self._before = actor_name(system, incarnation, "")

    def add(self, name: str) -> None:
        """An actor joined."""
        _internal_kv_put(self._before + name, b"", namespace=NAMESPACE)

    def remove(self, name: str) -> None:
        """An actor ended."""
        _internal_kv_del(self._before + name, namespace=NAMESPACE)

    def names(self) -> set[str]:
        """The names of the actors that should live."""
        keys = _internal_kv_list(self._before, namespace=NAMESPACE)
        return {key.decode().removeprefix(self._before) for key in keys}


def clear_rosters(before: str) -> None:
    """Forget the actors whose Ray names begin with `before`: these lives of the system are over."""
    _internal_kv_del(before, del_by_prefix=True, namespace=NAMESPACE)
