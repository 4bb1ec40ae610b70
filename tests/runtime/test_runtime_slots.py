"""ObjectRefs and large values in messages: they lie beside the bytes, and block nobody."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import ray
from ray._private.worker import global_worker

import rayshot
from rayshot.audit import prove
from rayshot.errors import CodeMismatch, SnapshotAborted
from rayshot.format.slots import LARGE_BYTES
from rayshot.keys.finder import find_key
from rayshot.runtime.door.private_names import tells_of_owners_at_once
from rayshot.simulation import SimulatedSystem
from tests.runtime.objects_restored import SIZE
from tests.runtime.reader import Adder, Gate, Maker, Reader, fail, late
from tests.runtime.test_runtime_references import restore
from tests.waiting import eventually

pytestmark = [pytest.mark.ray, pytest.mark.acceptance("O1")]


@pytest.fixture
def reader(system):
    return Reader.options(name="reader").remote()


def test_a_reference_that_is_not_ready_blocks_nobody_also_where_the_driver_makes_it_ready_later(reader):
    gate = Gate.remote()
    reader.note.tell(gate.passed.remote("opened"))
    reader.note.tell("behind")
    answer = reader.notes.remote()
    gate.open.remote()
    assert ray.get(answer) == ["opened", "behind"]


def test_a_call_with_a_reference_that_is_not_ready_returns_at_once(reader):
    gate = Gate.remote()
    answer = reader.total.remote(gate.passed.remote(np.ones(10)))
    assert not ray.wait([answer], timeout=0)[0]
    gate.open.remote()
    assert ray.get(answer) == 10


def test_what_an_actor_sends_behind_a_reference_that_is_not_ready_arrives_in_order(system, reader):
    other = Reader.options(name="other").remote()
    reader.forward_ordered.tell(other, 0.5)
    assert ray.get(reader.notes.remote()) == []  # it goes on meanwhile
    while len(found := ray.get(other.notes.remote())) < 2:
        pass
    assert found == ["late", "behind"]


def test_nested_references_stay_references_and_arrive_alive_after_the_driver_dropped_them(reader):
    reader.keep.tell([ray.put("x"), late.remote("y", 0.1)])
    assert ray.get(reader.kept.remote()) == ["x", "y"]


def test_a_method_may_return_a_reference_or_one_inside_of_a_value(system, reader):
    assert ray.get(ray.get(reader.give.remote("mine"))) == "mine"
    assert ray.get(ray.get(reader.give_inside.remote("mine"))["at"]) == "mine"
    other = Reader.options(name="other").remote()
    reader.ask.tell(other, "yours")
    while not (found := ray.get(reader.kept.remote())):
        pass
    assert found == ["yours"]


def test_constructors_timers_and_tells_to_oneself_take_references(system, reader):
    made = Reader.remote(late.remote("first", 0.2))
    assert ray.get(made.notes.remote()) == ["first"]
    made.later.tell(0.1, [ray.put("timed")])
    made.tell_oneself.tell(made, [late.remote("told", 0.3)])
    while len(found := ray.get(made.notes.remote())) < 3:
        pass
    assert sorted(found) == ["first", "timed", "told"]


def test_two_handlers_get_values_of_their_own_of_one_reference(reader):
    ref = ray.put({"a": 1})
    reader.note.tell(ref)
    reader.note.tell(ref)
    first, second = ray.get(reader.notes.remote())
    assert first == second == {"a": 1}


def test_a_failed_reference_answers_the_caller_and_is_a_dead_letter_of_a_tell_and_leaves_no_gap(system, reader):
    with pytest.raises(ValueError, match="no ink"):
        ray.get(reader.total.remote(fail.remote()))
    reader.note.tell(fail.remote())
    reader.note.tell("behind")
    assert ray.get(reader.notes.remote()) == ["behind"]
    (letter,) = system.dead_letters()
    assert "no ink" in letter.error


@pytest.mark.acceptance("O2")
@pytest.mark.parametrize("size", [10, 3 * LARGE_BYTES])
def test_a_handler_may_write_to_what_it_was_given_by_value_and_not_to_a_reference_s_value(reader, size):
    array = np.zeros(size, np.uint8)
    assert ray.get(reader.write.remote(array)) == 1
    assert array[0] == 0
    if size > LARGE_BYTES:
        assert ray.get(reader.is_read_only.remote(ray.put(array)))


@pytest.mark.wide("slow")
def test_messages_with_references_are_in_the_snapshot_and_their_values_are_restored_in_order_and_once(
    system, new_system, reader
):
    other = Reader.options(name="other").remote()
    array = np.arange(LARGE_BYTES)
    ref = ray.put(array)
    ray.get([reader.notes.remote(), other.notes.remote()])
    reader.pause.tell(2.0)
    reader.note.tell(ref)
    reader.note.tell(ref)
    reader.keep.tell([ray.put("nested"), array])
    reader.note.tell(np.ones(LARGE_BYTES, np.uint8))
    reader.note.tell(ray.put("last"))
    other.forward_ordered.tell(reader, 1.0)
    snapshot = system.snapshot()
    assert snapshot.verify().sound
    (channel,) = [
        state for (sender, _), state in snapshot.channels.items() if sender.startswith("driver") and state.count
    ]
    shown = [message for message in channel.messages if message.method != "pause"]
    assert [message.method for message in shown] == ["note", "note", "keep", "note", "note"]
    np.testing.assert_array_equal(shown[0].args[0], array)
    assert shown[2].args[0][0] == "nested"
    assert shown[4].args == ("last",)
    (actors,) = [state for (sender, _), state in snapshot.channels.items() if sender == "other"]
    assert [message.args for message in actors.messages] == [("late",), ("behind",)]
    assert snapshot.stats["written_bytes"] < 8 * LARGE_BYTES + LARGE_BYTES * 2
    restored = restore(new_system, system)
    reader = restored.get_actor("reader")
    again = restored.snapshot()
    while len(found := ray.get(reader.notes.remote())) < 6:
        pass
    total = float(array.sum())
    assert found[:4] == [total, total, float(LARGE_BYTES), "last"]
    assert found[4:] == ["late", "behind"]
    nested, large = ray.get(reader.kept_as_they_are.remote())
    assert ray.get(nested) == "nested"
    np.testing.assert_array_equal(large, array)
    assert again.verify().sound


def test_a_snapshot_that_an_actor_begins_holds_the_values_of_messages_that_wait(system, reader):
    other = Reader.options(name="other").remote()
    ray.get([reader.notes.remote(), other.notes.remote()])
    reader.pause.tell(2.0)
    reader.note.tell(ray.put(np.ones(LARGE_BYTES)))
    reader.note.tell(np.ones(2 * LARGE_BYTES, np.uint8))
    reader.keep.tell([ray.put("inside")])
    snapshot = system.snapshot(initiator="other")
    assert snapshot.verify().sound
    (channel,) = [state for state in snapshot.channels.values() if state.count]
    assert [np.sum(message.args[0]) for message in channel.messages[-3:-1]] == [1.0 * LARGE_BYTES, 2.0 * LARGE_BYTES]
    assert channel.messages[-1].args == (["inside"],)


@pytest.mark.wide("slow")
def test_objects_beside_messages_are_restored_in_a_cluster_that_never_had_them(tmp_path):
    for step, expected in (("first", "stored 5"), ("second", f"{SIZE} beside 0")):
        command = [sys.executable, "-m", "tests.runtime.objects_restored", step, str(tmp_path / "shots")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip().splitlines()[-1].endswith(expected)
    assert all(done.stdout.count(noted) == 1 for noted in ("'late'", "'behind'"))
    assert done.stdout.count(f"{SIZE}.0") == 2


def test_a_reference_in_an_outbox_that_is_not_ready_at_the_deadline_aborts_naming_its_message(new_system):
    system = new_system(snapshots=rayshot.SnapshotConfig(timeout_s=3.0))
    reader, other = Reader.options(name="reader").remote(), Reader.options(name="other").remote()
    reader.forward_ordered.tell(other, 30.0)
    ray.get(reader.notes.remote())
    why = r"reader -> other, message 1 \(\.note\): argument 1 was not ready"
    with pytest.raises(SnapshotAborted, match=why) as caught:
        system.snapshot()
    assert caught.value.evidence["reason"] == "object_missing"


def test_what_an_actor_told_itself_and_is_not_ready_is_in_the_snapshot_and_holds_nothing_else(
    system, new_system, reader
):
    gate = Gate.remote()
    reader.tell_oneself.tell(reader, [gate.passed.remote("opened")])
    reader.tell_oneself.tell(reader, ["behind"])
    reader.note.tell("from outside")
    assert ray.get(reader.notes.remote()) == ["from outside"]
    gate.open_soon.remote()
    snapshot = system.snapshot()
    waiting = snapshot.channel("reader", "reader").messages
    assert [message.args for message in waiting] in ([("opened",), ("behind",)], [])
    while len(found := ray.get(reader.notes.remote())) < 3:
        pass
    assert found == ["from outside", "opened", "behind"]


def test_an_object_that_failed_is_recorded_as_that_and_aborts_no_snapshot(system, new_system, reader):
    ray.get(reader.notes.remote())
    reader.pause.tell(2.0)
    failed = fail.remote()
    ray.wait([failed])
    reader.note.tell("before")
    reader.note.tell([failed])
    reader.note.tell(failed)
    reader.note.tell("behind")
    snapshot = system.snapshot()
    (channel,) = [state for state in snapshot.channels.values() if state.count]
    assert len(channel.messages) >= 3
    reader = restore(new_system, system).get_actor("reader")
    while len(found := ray.get(reader.notes.remote())) < 2:
        pass
    assert found == ["before", "behind"]


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize("mode", ["stop-the-world", "aligned"])
def test_other_kinds_of_snapshots_are_taken_while_an_actor_waits_for_an_object(new_system, mode):
    system = new_system(
        snapshots=rayshot.SnapshotConfig(mode=mode, alignment_timeout_s=1.0 if mode == "aligned" else None)
    )
    reader, other = Reader.options(name="reader").remote(), Reader.options(name="other").remote()
    gate = Gate.remote()
    reader.forward.tell(other, [gate.passed.remote("opened")])
    ray.get(reader.notes.remote())
    gate.open_soon.remote()
    assert system.snapshot().verify().sound
    while ray.get(other.notes.remote()) != ["opened"]:
        pass


@pytest.mark.skipif(not tells_of_owners_at_once(), reason="this Ray keeps what it has of the object")
def test_an_object_whose_owner_was_killed_is_the_failure_of_its_messages_alone(system, reader):
    (ref,), pid = ray.get(Maker.remote().make.remote(np.ones(LARGE_BYTES)))
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: is_lost(ref))
    answer = reader.total.remote(ref)
    reader.note.tell(ref)
    reader.note.tell("behind")
    assert ray.get(reader.notes.remote()) == ["behind"]
    with pytest.raises(Exception, match="owner"):
        ray.get(answer)
    assert len(system.dead_letters()) >= 1


def test_a_class_that_cannot_be_unpickled_at_the_receiver_is_the_failure_of_its_message_alone(system, reader):
    reader.note.tell(ray.put(Unreadable()))
    reader.note.tell(ray.put("beside"))
    reader.note.tell("behind")
    assert ray.get(reader.notes.remote()) == ["beside", "behind"]
    (letter,) = system.dead_letters()
    assert "not here" in letter.error


def test_a_large_array_for_four_actors_is_one_copy_in_the_object_store(system):
    readers = [Reader.options(name=f"reader-{index}").remote() for index in range(4)]
    ref = ray.put(np.ones(LARGE_BYTES, np.uint8))
    for reader in readers:
        reader.hold.tell(ref)
    places = ray.get([reader.place_of_held.remote() for reader in readers])
    assert len(set(places)) == 1, places


@pytest.mark.wide("slow")
def test_the_status_names_a_message_that_waits_for_an_object_for_seconds(system, reader):
    gate = Gate.remote()
    other = Reader.options(name="other").remote()
    reader.forward.tell(other, [gate.passed.remote("opened")])
    reader.tell_oneself.tell(reader, [gate.passed.remote("opened")])
    other.note.tell(gate.passed.remote("opened"))
    eventually(lambda: len(system.status().waiting) == 3, seconds=30.0)
    found = {(one.sender.partition(":")[0], one.receiver, one.number, one.method) for one in system.status().waiting}
    assert found == {("driver", "other", 2, "note"), ("reader", "other", 1, "note"), ("reader", "reader", 1, "note")}
    gate.open.remote()
    eventually(lambda: not system.status().waiting)


@pytest.mark.acceptance("O2")
def test_the_status_shows_what_a_state_without_a_copy_keeps_in_the_object_store(system, reader):
    reader.hold.tell(ray.put(np.ones(3 * LARGE_BYTES, np.uint8)))
    ray.get(reader.notes.remote())
    assert system.status().actors["reader"].pinned_bytes >= 3 * LARGE_BYTES
    reader.hold.tell(None)
    ray.get(reader.notes.remote())
    eventually(lambda: system.status().actors["reader"].pinned_bytes < LARGE_BYTES)


def test_a_trace_in_full_holds_the_values_so_that_actors_run_again_without_ray(new_system):
    system = new_system(trace="full")
    adder = Adder.options(name="adder").remote()
    adder.add.tell(ray.put(np.ones(LARGE_BYTES)), np.ones(3 * LARGE_BYTES, np.uint8))
    adder.add.tell(1, second=late.remote(2, 0.1))
    assert ray.get(adder.read.remote()) == [4.0 * LARGE_BYTES, 3.0]
    snapshot = system.snapshot()
    assert prove(snapshot, [snapshot], replay=True, keys=[find_key()]).finding("replay").holds


@pytest.mark.wide("slow")
def test_the_simulator_takes_the_values_of_messages_in_flight_and_refuses_references(system, reader):
    ray.get(reader.notes.remote())
    reader.pause.tell(2.0)
    reader.note.tell(ray.put(np.ones(LARGE_BYTES)))
    reader.note.tell(np.ones(2 * LARGE_BYTES, np.uint8))
    world = SimulatedSystem.from_snapshot(system.snapshot())
    world.run(seconds=1)
    assert world.actors["reader"].seen == [1.0 * LARGE_BYTES, 2.0 * LARGE_BYTES]
    reader.pause.tell(2.0)
    reader.keep.tell([ray.put(1)])
    with pytest.raises(CodeMismatch, match="ObjectRefs, which exist on Ray only"):
        SimulatedSystem.from_snapshot(system.snapshot())


@pytest.mark.acceptance("O2")
def test_no_reference_is_left_behind_a_thousand_messages(system, reader):
    other = Reader.options(name="other").remote()
    refs = [ray.put(index) for index in range(10)]
    ids = [ref.hex() for ref in refs]
    for index in range(1000):
        reader.drop.tell(refs[index % 10], [refs[index % 7]])
        if index % 100 == 0:
            reader.pass_on.tell(other, [refs[index % 10]])
            reader.drop.tell(np.zeros(2 * LARGE_BYTES, np.uint8), [])
    ray.get(reader.notes.remote())
    ray.get(other.notes.remote())
    system.snapshot()
    del refs
    eventually(lambda: not counted(ids))


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.acceptance("O2")
@pytest.mark.parametrize(
    ("what", "noted"), [("put", 2 << 20), ("large", 2 << 20), ("late", "late"), ("call", "called")]
)
def test_a_driver_that_exits_right_after_it_told_something_large_has_told_it(system, reader, what, noted):
    ray.get(reader.notes.remote())
    reader.pause.tell(1.0)
    command = [sys.executable, "-m", "tests.runtime.objects_of_drivers", ray.get_runtime_context().gcs_address]
    done = subprocess.run([*command, system.storage, system.name, what], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    eventually(lambda: ray.get(reader.notes.remote()) == [noted])


@pytest.mark.acceptance("O2")
def test_an_actor_that_told_something_large_and_ended_has_told_it(system, reader):
    other = Reader.options(name="other").remote()
    ray.get(other.notes.remote())
    other.pause.tell(1.0)
    reader.forward_large.tell(other, 3 * LARGE_BYTES)
    eventually(lambda: ray.get(other.notes.remote()) == [3.0 * LARGE_BYTES])


@pytest.mark.acceptance("O2")
def test_more_than_256_mib_are_sent_by_value_and_come_back(system, reader):
    array = np.ones(260 << 20, np.uint8)
    assert ray.get(reader.total.remote(array)) == array.size
    assert ray.get(reader.echo.remote(array)).nbytes == array.nbytes


def is_lost(ref):
    """Whether Ray knows by now that an object is gone."""
    try:
        ray.get(ref, timeout=1.0)
    except ray.exceptions.GetTimeoutError:
        return False
    except ray.exceptions.RayError:
        return True
    return False


def counted(ids):
    """Those objects that are still referred to, as this process counts."""
    return set(ids) & set(global_worker.core_worker.get_all_reference_counts())


class Unreadable:
    def __reduce__(self):
        return _read, ()


def _read():
    raise RuntimeError("not here")
