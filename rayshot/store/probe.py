"""Tries whether a store can be read, and whether `create` refuses an existing key, as commits need."""

import uuid
from contextlib import suppress

from rayshot.errors import AlreadyExists, ConfigError, StoreError
from rayshot.store.store import PROBE_PREFIX, Store

_FIRST, _SECOND = b"first", b"second"


def prove_create_only(store: Store) -> None:
    """Raise ConfigError unless the store refuses a second `create` of a key and keeps the first bytes."""
    key = f"{PROBE_PREFIX}{uuid.uuid4().hex}"
    try:
        with suppress(AlreadyExists):  # an answer may have been lost on the way; the bytes are compared below
            store.create(key, _FIRST)
        kept = _keeps_the_first(store, key)
        store.delete(key)
    except StoreError as error:
        with suppress(StoreError):  # the place itself failed, so this may fail too; that is nothing new
            store.delete(key)
        raise ConfigError(f"{store.url} cannot be written: {error}", url=store.url) from error
    if not kept:
        raise ConfigError(
            f"{store.url} overwrites objects that exist, so two coordinators could commit over each other; use "
            "another storage, or read about allow_unfenced in docs/storage.md",
            url=store.url,
        )


def prove_readable(store: Store) -> None:
    """Raise ConfigError unless the store exists and the given credentials can list it."""
    try:
        next(store.list(shallow=True), None)
    except StoreError as error:
        raise ConfigError(f"{store.url} cannot be read: {error}", url=store.url) from error


def _keeps_the_first(store: Store, key: str) -> bool:
    try:
        store.create(key, _SECOND)
    except AlreadyExists:
        return store.read(key) == _FIRST
    return False
