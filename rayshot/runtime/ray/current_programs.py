"""Which process is the present one of each program that attached under a name.

A coordinator that is started again must let in no second one. So this is in the key-value store of Ray's control
service, beside the rosters. It outlives the lives of a system.
"""

from ray.experimental.internal_kv import _internal_kv_del, _internal_kv_get, _internal_kv_list, _internal_kv_put

from rayshot.runtime.ray.naming import NAMESPACE


class CurrentPrograms:
    """The present driver of each label of one system."""

    def __init__(self, system: str) -> None:
        self._before = f"rayshot-programs/{system}/"

    def put(self, label: str, driver: str) -> None:
        """From now on this driver is the program `label`."""
        _internal_kv_put(self._before + label, driver.encode(), namespace=NAMESPACE)

    def all(self) -> dict[str, str]:
        """The drivers by label. Most of them may be dead."""
        keys = [key.decode() for key in _internal_kv_list(self._before, namespace=NAMESPACE)]
        found = {key.removeprefix(self._before): _internal_kv_get(key, namespace=NAMESPACE) for key in keys}
        return {label: driver.decode() for label, driver in found.items() if driver is not None}

    def clear(self) -> None:
        """The system is over."""
        _internal_kv_del(self._before, del_by_prefix=True, namespace=NAMESPACE)
