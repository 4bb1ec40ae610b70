"""The marks of drivers that let go of messages: a coordinator that is started again must not go back without these.

They are in the key-value store of Ray's control service, beside the roster of their life, and go with it.
"""

from ray.experimental.internal_kv import _internal_kv_del, _internal_kv_get, _internal_kv_list, _internal_kv_put

from rayshot.runtime.ray.naming import NAMESPACE, prefix


class LetGoMarks:
    """The marks of one life, by driver."""

    def __init__(self, system: str, incarnation: int) -> None:
        self._before = f"{prefix(system, incarnation)}let-go/"

    def put(self, driver: str, packed: bytes) -> None:
        """Write a driver's mark, or a new one in its place."""
        _internal_kv_put(self._before + driver, packed, namespace=NAMESPACE)

    def remove(self, driver: str) -> None:
        """A durable snapshot holds what this driver let go of, or the driver is dead."""
        _internal_kv_del(self._before + driver, namespace=NAMESPACE)

    def all(self) -> dict[str, bytes]:
        """The marks that stand."""
        keys = [key.decode() for key in _internal_kv_list(self._before, namespace=NAMESPACE)]
        found = {key.removeprefix(self._before): _internal_kv_get(key, namespace=NAMESPACE) for key in keys}
        return {driver: packed for driver, packed in found.items() if packed is not None}
