"""One class for one class: what rayshot unpickles and what Ray unpickles in a process is the same class.

Both pickle by value the classes that cannot be imported, rayshot with cloudpickle and Ray with its own copy of it. Each
of the two has tables of which class has which id, so a class in a message would be another one than the same class in a
result. From here on both use the same tables, and Ray's copy too writes qualified names: a vault, which stores the
values of ObjectRefs, has their classes from Ray.
"""

import os
from importlib.metadata import version
from types import ModuleType
from typing import Any

import ray.cloudpickle.cloudpickle

from rayshot.errors import UnsupportedVersion
from rayshot.format.by_value import CLOUDPICKLE_MODULE, add_qualified_name

_LOCK = "_DYNAMIC_CLASS_TRACKER_LOCK"
_BY_CLASS = "_DYNAMIC_CLASS_TRACKER_BY_CLASS"
_BY_ID = "_DYNAMIC_CLASS_TRACKER_BY_ID"


def share_class_tables(own: ModuleType = CLOUDPICKLE_MODULE, rays: ModuleType = ray.cloudpickle.cloudpickle) -> None:
    """Let Ray's copy of cloudpickle use the tables of `own`, with what it knows already. A second call changes nothing.

    Raises UnsupportedVersion where one of the two keeps its classes in another way.
    """
    try:
        if getattr(own, _LOCK) is not getattr(rays, _LOCK):
            _share(own, rays)
        _check(own, rays)
    except (AttributeError, NameError, TypeError, ValueError, LookupError) as error:
        raise UnsupportedVersion(
            f"Ray {ray.__version__} and cloudpickle {version('cloudpickle')} cannot share their tables of classes, so "
            f"that a class of a script would be two: {error}. Install versions that this rayshot knows: Ray 2.60, "
            "cloudpickle 3.1",
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
    arguments_of = rays._class_getnewargs  # noqa: SLF001
    rays._class_getnewargs = lambda cls: add_qualified_name(arguments_of(cls), cls)  # noqa: SLF001
    # Ray's threads hold it now and then, and no child that captures a state may find it held for ever.
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


def _check(own: Any, rays: Any) -> None:
    """Raise one of the errors above where one of the two does not use what it was given."""
    for writer, reader in ((own, rays), (rays, own)):
        probe = type("Probe", (), {"__qualname__": "Outer.Probe"})
        *_, keywords, class_id, _ = writer._class_reduce(probe)[1]  # noqa: SLF001
        if reader._lookup_class_or_track(class_id, type("Another", (), {})) is not probe:  # noqa: SLF001
            raise LookupError(f"{reader.__name__} does not find again a class that {writer.__name__} wrote")
    if keywords["__qualname__"] != probe.__qualname__:
        raise LookupError(f"{rays.__name__} wrote a class without its qualified name")
