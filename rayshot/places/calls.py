"""Calls of a store: many at once, and a creation that is certain although answers can get lost.

"Already exists" and a time-out do not prove that the call failed: it may have written the existing object. So the bytes
are compared. If there is no object, another try is safe, because only one creation can succeed.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from rayshot.errors import AlreadyExists, KeyNotFound, StoreError, StoreFull, StoreUnavailable
from rayshot.places.store import Data, Store, buffers

ATTEMPTS_MAX = 4
AT_ONCE = 8
"""Threads for chunks. While some wait for the disk or the network, others hash, compress and expand."""

SMALL_AT_ONCE = 32
"""Threads for small objects, which mostly wait."""


@contextmanager
def several_at_once(count: int, name: str, at_once: int = AT_ONCE) -> Iterator[Callable[..., Any]]:
    """A `map` for about `count` calls. For several calls it uses up to `at_once` threads, which it ends."""
    if count > 1:
        with ThreadPoolExecutor(min(count, at_once), name) as pool:
            yield pool.map
    else:
        yield map


def create_once(store: Store, key: str, data: Data) -> None:
    """Return when the object `key` durably holds exactly `data`. Another program may have written it.

    Raises:
        AlreadyExists: the object has other bytes.
        StoreFull: the store is full; nothing was written.
        StoreUnavailable: the object may or may not have been written, or may be written later.
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
                unknown = error  # some stores answer like this to a conflict that no writer won: try again
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
        f"it is not known whether {key} was written, after {ATTEMPTS_MAX} attempts: {unknown}", key=key
    ) from unknown


def _holds(store: Store, key: str, data: Data) -> bool:
    """Whether the object holds exactly `data`. It reads no more than it needs."""
    expected = b"".join(buffers(data))
    found = store.read_range(key, 0, len(expected) + 1)
    if len(found) < len(expected) and expected.startswith(found):
        raise StoreUnavailable(f"the storage returned only a part of {key}", key=key)
    return found == expected
