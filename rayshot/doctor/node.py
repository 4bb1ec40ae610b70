"""What is seen on one node. `examine` runs there, as a task of Ray."""

import os
import platform
import resource
import time
from dataclasses import dataclass

import rayshot
from rayshot.errors import ConfigError, RayshotError
from rayshot.keys.finder import find_encryption_keys, find_key
from rayshot.places.kinds import open_store
from rayshot.runtime.door.private_names import asks_for_token, lacking

_STORES = ("RAY_REDIS_ADDRESS", "RAY_gcs_storage")
STOP_WAIT_S = 3.0
"""What Ray gives a job that is stopped, where nobody says otherwise."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node, or the driver.

    `lacks` says what users lose on its Ray. `clock` is Unix time; `asked_at` and `answered_at` are those of who
    asked. `open_files` is the limit. `shm_bytes` is the size of /dev/shm, None where there is none. `keys` are
    fingerprints of the keys in its environment, and `key_error` says why they are not usable. `storage_error` says
    why it does not read and write the storage, is "" where it does, and None where none was given. `control_store` is
    where Ray's control service keeps what must outlive it, "memory" if nowhere. `asks_for_token`: Ray asks programs
    for one there. `stop_wait_s` is how long `ray job stop` gives a job there. `hash_seed` is the seed of `hash()` of
    texts in its environment, "" if each process has its own.
    """

    ray: str
    lacks: tuple[str, ...]
    rayshot: str
    python: str
    clock: float
    open_files: int
    shm_bytes: int | None
    keys: tuple[str, ...]
    key_error: str
    storage_error: str | None
    control_store: str
    asks_for_token: bool
    stop_wait_s: float
    hash_seed: str
    asked_at: float = 0.0
    answered_at: float = 0.0

    @property
    def skew_s(self) -> float:
        """How far its clock is from that of who asked, at least: what the answer took is given to it."""
        if self.clock < self.asked_at:
            return self.clock - self.asked_at
        return max(0.0, self.clock - self.answered_at)


def examine(storage: str | None, key: str, own: str) -> NodeFacts:
    """Look at this node.

    Args:
        storage: its address; the same as that of who asks.
        key: an object there that holds PROBE, if this is the same storage.
        own: an object to create there, for who asks.
    """
    import ray  # noqa: PLC0415 - the name of this module is used without

    keys, key_error = _keys()
    return NodeFacts(
        ray.__version__,
        tuple(lacking()),
        rayshot.__version__,
        platform.python_version(),
        time.time(),
        resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        _shm_bytes(),
        keys,
        key_error,
        None if storage is None else _storage_error(storage, key, own),
        next((f"{name}={os.environ[name]}" for name in _STORES if os.environ.get(name)), "memory"),
        asks_for_token(),
        _stop_wait_s(),
        os.environ.get("PYTHONHASHSEED", "").replace("random", ""),
    )


PROBE = b"rayshot doctor"
"""What an object holds that shows a storage to be the same one everywhere."""


def _storage_error(storage: str, key: str, own: str) -> str:
    try:
        store = open_store(storage)
        if store.read(key) != PROBE:
            return f"{key} holds something else there"
        store.create(own, PROBE)
    except RayshotError as error:
        return error.message
    return ""


def _keys() -> tuple[tuple[str, ...], str]:
    try:
        signing, encryption = find_key(), find_encryption_keys()
    except ConfigError as error:
        return (), error.message
    return (*(() if signing is None else (signing.key_id,)), *(key.key_id for key in encryption)), ""


def _stop_wait_s() -> float:
    try:
        return float(os.environ.get("RAY_JOB_STOP_WAIT_TIME_S", STOP_WAIT_S))
    except ValueError:  # nor does Ray take it
        return STOP_WAIT_S


def _shm_bytes() -> int | None:
    try:
        found = os.statvfs("/dev/shm")  # noqa: S108 - it is looked at
    except OSError:
        return None
    return found.f_blocks * found.f_frsize
