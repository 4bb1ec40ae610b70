"""References in messages and states are Ray's ObjectRefs."""

from typing import Any

import ray

from rayshot.errors import MessageTooLarge
from rayshot.format.references import provide_references
from rayshot.runtime.door.plain_handles import know_plain_handles


def know_references() -> None:
    """Let states and messages of this process hold ObjectRefs, and handles of plain Ray actors."""
    provide_references(ray.ObjectRef, ray.get, _put)
    know_plain_handles()


def _put(value: Any) -> Any:
    try:
        return ray.put(value)
    except (ray.exceptions.ObjectStoreFullError, ray.exceptions.OutOfDiskError) as error:
        raise MessageTooLarge(
            "Ray's object store has no room for a large value, neither in memory nor on disk. Let handlers finish with "
            "what they were sent, or give Ray more: ray.init(object_store_memory=...)"
        ) from error
