"""Nobody asks Ray's control service while he holds the lock of a coordinator: others would wait for it."""

import threading

import pytest
import ray

from rayshot.runtime.coordinator.system_lock import SystemLock
from tests.runtime.healed import kill, ring, until_it_runs
from tests.runtime.traced import Leaver
from tests.waiting import eventually

pytestmark = pytest.mark.ray


def told(system, what):
    return ray.get(system._identity.coordinator.__ray_call__.remote(lambda self: getattr(self, what)))


def test_joins_ends_snapshots_and_the_way_back_ask_without_the_lock(system):
    def watch(coordinator):
        import traceback

        from rayshot.runtime.door import door

        def watched(name, ask):
            def asks(*args, **options):
                coordinator.asked.add(name)
                if coordinator._healer.lock.is_held:
                    coordinator.wrong.append("".join(traceback.format_stack(limit=6)))
                return ask(*args, **options)

            return asks

        coordinator.asked, coordinator.wrong = set(), []
        for name in ("write_note", "read_note", "note_keys", "remove_note", "remove_notes", "names", "find", "make"):
            setattr(door, name, watched(name, getattr(door, name)))

    ray.get(system._identity.coordinator.__ray_call__.remote(watch))
    ring()
    Leaver.options(name="leaver").remote(None, 0).leave.tell()
    eventually(lambda: "remove_note" in told(system, "asked"))
    system.snapshot()
    kill(system, "post1")
    until_it_runs(system)
    system.wait_until_running(30)
    eventually(lambda: "remove_notes" in told(system, "asked"))
    assert {"write_note", "make"} <= told(system, "asked")
    assert told(system, "wrong") == []


def test_a_thread_that_holds_the_lock_may_take_it_again_and_knows_that_it_holds_it():
    lock, others = SystemLock(), []
    with lock:
        with lock:
            assert lock.is_held
        assert lock.is_held, "it was taken twice"
        other = threading.Thread(target=lambda: others.append(lock.is_held))
        other.start()
        other.join()
    assert others == [False]
    assert not lock.is_held
