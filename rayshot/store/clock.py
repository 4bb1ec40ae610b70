"""The store's own clock: the only one that ages are measured by.

Machines disagree about the time by minutes, sometimes by hours. What decides whether an object is old is
therefore when the store says that it was written, against when the same store says that something was
written just now.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from rayshot.errors import StoreUnavailable
from rayshot.store.layout import gc_folder
from rayshot.store.once import create_once
from rayshot.store.store import Store

CLOCK_SUFFIX = ".clock"
CLOCK_AGE_MAX_S = 3600.0
"""What is older was left by a process that was killed while it looked."""


def store_now(store: Store, system: str) -> float:
    """The time by the store's clock, in Unix seconds. An object is written, listed, removed; raises StoreError."""
    with _probe(store, system) as key:
        for entry in store.list(gc_folder(system)):
            if entry.key == key:
                return entry.modified
    raise StoreUnavailable(f"{key} was written and is not listed: the store's clock cannot be read", key=key)


@contextmanager
def _probe(store: Store, system: str) -> Iterator[str]:
    key = f"{gc_folder(system)}/{uuid.uuid4().hex}{CLOCK_SUFFIX}"
    try:
        create_once(store, key, b"what time is it?")
        yield key
    finally:
        store.delete(key)
