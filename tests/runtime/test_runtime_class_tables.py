"""Ray's copy of cloudpickle and cloudpickle itself know the same classes, or say at once that they cannot."""

import importlib.util
import os
import threading

import cloudpickle
import pytest
import ray.cloudpickle.cloudpickle

import rayshot.runtime  # noqa: F401 - shares the tables
from rayshot.errors import UnsupportedVersion
from rayshot.runtime.door.class_tables import share_class_tables

pytestmark = pytest.mark.acceptance("X2")

TABLES = ["_DYNAMIC_CLASS_TRACKER_BY_CLASS", "_DYNAMIC_CLASS_TRACKER_BY_ID", "_DYNAMIC_CLASS_TRACKER_LOCK"]
USED = [*TABLES, "_get_or_create_tracker_id", "_lookup_class_or_track", "_class_getnewargs", "_class_reduce"]


def copy_of_cloudpickle():
    """A module of its own, with tables of its own."""
    spec = importlib.util.find_spec("cloudpickle.cloudpickle")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_rays_copy_uses_the_tables_of_cloudpickle():
    for table in TABLES:
        assert getattr(ray.cloudpickle.cloudpickle, table) is getattr(cloudpickle.cloudpickle, table)
    share_class_tables()  # a second time changes nothing
    cls = type("Stamp", (), {"__module__": "__main__"})
    assert ray.cloudpickle.loads(cloudpickle.dumps(cls)) is cls
    assert cloudpickle.loads(ray.cloudpickle.dumps(cls)) is cls


def test_what_both_knew_before_is_known_afterwards():
    own, rays = copy_of_cloudpickle(), copy_of_cloudpickle()
    first, second, both = (type(name, (), {}) for name in ("First", "Second", "Both"))
    ids = own._get_or_create_tracker_id(first), rays._get_or_create_tracker_id(second)
    known_twice = own._get_or_create_tracker_id(both), rays._get_or_create_tracker_id(both)
    share_class_tables(own, rays)
    for module in (own, rays):
        assert [module._lookup_class_or_track(one, type("Another", (), {})) for one in ids] == [first, second]
        assert [module._lookup_class_or_track(one, type("Another", (), {})) for one in known_twice] == [both, both]
        assert (module._get_or_create_tracker_id(first), module._get_or_create_tracker_id(second)) == ids


@pytest.mark.parametrize("name", USED)
@pytest.mark.parametrize("side", [0, 1], ids=["cloudpickle", "ray"])
def test_a_copy_that_keeps_its_classes_otherwise_is_refused_by_name(name, side):
    copies = copy_of_cloudpickle(), copy_of_cloudpickle()
    delattr(copies[side], name)
    with pytest.raises(UnsupportedVersion, match=name) as caught:
        share_class_tables(*copies)
    assert "Install" in str(caught.value)
    assert caught.value.evidence.keys() == {"ray", "cloudpickle"}


def test_a_copy_that_does_not_use_its_tables_is_refused():
    own, rays = copy_of_cloudpickle(), copy_of_cloudpickle()
    rays._get_or_create_tracker_id = lambda cls: f"id of {cls.__name__}"
    with pytest.raises(UnsupportedVersion, match="does not find again a class"):
        share_class_tables(own, rays)


def test_a_fork_takes_no_lock_along_that_is_held():
    own = copy_of_cloudpickle()
    lock = own._DYNAMIC_CLASS_TRACKER_LOCK
    share_class_tables(own, copy_of_cloudpickle())
    held = threading.Event()

    def hold():
        with lock:
            held.set()
            forking.wait(0.5)  # the fork waits for this, and cannot say that it does

    forking = threading.Event()
    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if lock.acquire(timeout=10) else 1)
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
