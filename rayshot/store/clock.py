"""The store's own clock, which measures all ages.

The clocks of machines differ by minutes, sometimes by hours. So the age of an object is the difference of two times of
the same store: when it wrote the object, and when it wrote another object just now.
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
"""Older clock objects were left by processes that were killed before they could remove them."""


def store_now(store: Store, system: str) -> float:
    """The store's time in Unix seconds. It writes, lists and removes an object. Raises StoreError."""
    with _probe(store, system) as key:
        for entry in store.list(gc_folder(system)):
            if entry.key == key:
                return entry.modified
    raise StoreUnavailable(
        f"{key} was written, but the listing does not show it, so the store's clock cannot be read; try again", key=key
    )


@contextmanager
def _probe(store: Store, system: str) -> Iterator[str]:
    key = f"{gc_folder(system)}/{uuid.uuid4().hex}{CLOCK_SUFFIX}"
    try:
        create_once(store, key, b"what time is it?")
        yield key
    finally:
        store.delete(key)
