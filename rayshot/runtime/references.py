"""What a reference is: Ray's ObjectRef."""

import ray

from rayshot.format.pickling import provide_references


def know_references() -> None:
    """Let states and messages of this process hold ObjectRefs."""
    provide_references(ray.ObjectRef, ray.get, ray.put)
