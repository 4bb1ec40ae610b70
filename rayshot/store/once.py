"""Creating an object exactly once over a store whose answers can get lost.

"Already exists" and time-outs are no proof of loss: the object that is there may be the one this call has
written. So the bytes are compared; and where nothing is there, trying again is safe, because only one
creation can succeed.
"""

from rayshot.errors import AlreadyExists, KeyNotFound, StoreError, StoreFull, StoreUnavailable
from rayshot.store.store import Data, Store, buffers

ATTEMPTS_MAX = 4


def create_once(store: Store, key: str, data: Data) -> None:
    """Return when exactly `data` is there under `key`, durably, whoever wrote it.

    Raises:
        AlreadyExists: other bytes are there.
        StoreFull: no room; nothing was written.
        StoreUnavailable: whether it was written, or will yet be, is not known.
    """
    unknown: StoreError | None = None
    for _ in range(ATTEMPTS_MAX):
        try:
            store.create(key, data)
        except AlreadyExists as error:
            try:
                if _holds(store, key, data):
                    return
            except KeyNotFound:
                unknown = error  # some stores answer so to a conflict that nobody won: try again
                continue
            except StoreError as failure:
                unknown = failure
                continue
            raise
        except StoreFull:
            if unknown is None:
                raise
        except StoreError as error:
            unknown = error
        else:
            return
    raise StoreUnavailable(
        f"whether {key} was written is not known after {ATTEMPTS_MAX} attempts: {unknown}", key=key
    ) from unknown


def _holds(store: Store, key: str, data: Data) -> bool:
    """Whether exactly `data` is there; reads no more than it needs."""
    expected = b"".join(buffers(data))
    found = store.read_range(key, 0, len(expected) + 1)
    if len(found) < len(expected) and expected.startswith(found):
        raise StoreUnavailable(f"{key} was answered short: objects are never there in part", key=key)
    return found == expected
