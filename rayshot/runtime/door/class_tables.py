"""Shared class tables: in one process, rayshot and Ray unpickle a class as the same class.

Both pickle classes by value if these cannot be imported: rayshot with cloudpickle, Ray with its own copy of it. Each of
the two has tables with the ids of classes. So a class in a message would differ from the same class in a result. Here
both get the same tables. Ray's copy also learns to write qualified names: a vault stores the values of ObjectRefs, and
gets their classes from Ray.
"""

import os
from importlib.metadata import version
from types import ModuleType
from typing import Any

import ray.cloudpickle.cloudpickle

from rayshot.errors import UnsupportedVersion
from rayshot.format.classes_by_value import CLOUDPICKLE_MODULE, add_qualified_name
from rayshot.runtime.door.private_names import ARGUMENTS, HOW, LOOK_UP, REDUCE, TABLES

_BY_ID, _BY_CLASS, _LOCK = TABLES


def share_class_tables(own: ModuleType = CLOUDPICKLE_MODULE, rays: ModuleType = ray.cloudpickle.cloudpickle) -> None:
    """Let Ray's copy of cloudpickle use the tables of `own`, and add its own entries. A second call changes nothing.

    Raises UnsupportedVersion if one of the two keeps its classes in another way.
    """
    try:
        if getattr(own, _LOCK) is not getattr(rays, _LOCK):
            _share(own, rays)
        _check(own, rays)
    except (AttributeError, NameError, TypeError, ValueError, LookupError) as error:
        raise UnsupportedVersion(
            f"Ray {ray.__version__} and cloudpickle {version('cloudpickle')} cannot share their tables of classes, so "
            f"that a class of a script would be two: {error}. Install versions that this rayshot knows: {HOW} "
            "'cloudpickle~=3.1'",
            ray=ray.__version__,
            cloudpickle=version("cloudpickle"),
        ) from error


def _share(own: Any, rays: Any) -> None:
    lock = getattr(own, _LOCK)
    with lock, getattr(rays, _LOCK):
        by_id, by_class = getattr(own, _BY_ID), getattr(own, _BY_CLASS)
        for class_id, cls in getattr(rays, _BY_ID).items():
            by_id.setdefault(class_id, cls)
        by_class.update(getattr(rays, _BY_CLASS))  # the ids that other processes of the cluster know
        for name in (_BY_ID, _BY_CLASS, _LOCK):
            setattr(rays, name, getattr(own, name))
    arguments_of = getattr(rays, ARGUMENTS)
    setattr(rays, ARGUMENTS, lambda cls: add_qualified_name(arguments_of(cls), cls))
    # Ray's threads hold the lock at times. A child that captures a state must not find it held for ever.
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


def _check(own: Any, rays: Any) -> None:
    """Raise one of the errors that `share_class_tables` catches, if one of the two does not use the shared tables."""
    for writer, reader in ((own, rays), (rays, own)):
        probe = type("Probe", (), {"__qualname__": "Outer.Probe"})
        *_, keywords, class_id, _ = getattr(writer, REDUCE)(probe)[1]
        if getattr(reader, LOOK_UP)(class_id, type("Another", (), {})) is not probe:
            raise LookupError(f"{reader.__name__} does not find again a class that {writer.__name__} wrote")
    if keywords["__qualname__"] != probe.__qualname__:
        raise LookupError(f"{rays.__name__} wrote a class without its qualified name")
