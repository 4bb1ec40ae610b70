"""What is taken of a program with a name: only what its present process sends. How it is let in, and forgotten."""

from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from rayshot.format.codec import Frame
from rayshot.model.configuration import SnapshotConfig
from rayshot.protocol.events import DriverDied
from rayshot.protocol.identity import COORDINATOR, SnapshotId, is_driver, is_guest, label_of
from rayshot.runtime.actor.dead_drivers import DeadDrivers
from rayshot.runtime.actor.mailbox import Mailbox
from rayshot.runtime.coordinator.driver_watch import DriverWatch
from rayshot.runtime.coordinator.enrolment import Enrolment
from rayshot.runtime.coordinator.notifications import DurableNumbers
from rayshot.runtime.door import here, naming
from rayshot.runtime.wire.states import RUNNING

OLD, NEW, OTHER, NAMELESS = "driver:1.ingest", "driver:2.ingest", "driver:3.other", "driver:4"


@pytest.fixture
def mailbox():
    return Mailbox()


@pytest.fixture
def drivers(mailbox):
    return DeadDrivers(Mock(), mailbox, Mock(), Mock())


def closed(drivers):
    """The drivers whose channels were closed."""
    events = [call.args[0] for call in drivers._runner.handle.call_args_list]
    return {event.driver for event in events if isinstance(event, DriverDied)}


def test_the_earlier_processes_of_a_program_are_closed_wherever_their_messages_are(drivers, mailbox):
    mailbox.put(OLD, Frame(1, 1, b"x"))
    mailbox.processed["driver:0.ingest"] = 3
    mailbox.hold("driver:00.ingest", Frame(2, 1, b"x"))
    for sender in (NEW, OTHER, NAMELESS, "alice"):
        mailbox.put(sender, Frame(1, 1, b"x"))
    drivers.supersede({"ingest": NEW})
    assert closed(drivers) == {OLD, "driver:0.ingest", "driver:00.ingest"}


def test_a_process_of_which_nothing_has_come_yet_is_refused_when_it_comes(drivers):
    assert OLD not in drivers
    drivers.supersede({"ingest": NEW})
    assert OLD in drivers
    assert [one for one in (NEW, OTHER, NAMELESS, "alice") if one in drivers] == []


def test_each_next_process_supersedes_the_one_before(drivers, mailbox):
    drivers.supersede({"ingest": OLD, "other": OTHER})
    mailbox.put(OLD, Frame(1, 1, b"x"))
    drivers.supersede({"ingest": NEW})
    drivers.supersede({"ingest": NEW})
    assert closed(drivers) == {OLD}
    assert drivers._runner.handle.call_count == 1, "a channel is closed once"


def test_late_news_of_a_process_that_died_close_nothing(drivers, mailbox):
    mailbox.put(NEW, Frame(1, 1, b"x"))
    drivers.supersede({"ingest": NEW})
    drivers.close(OLD)
    drivers.supersede({"ingest": OLD})
    assert closed(drivers) == {OLD}
    assert NEW not in drivers


def test_a_loaded_actor_knows_the_present_process_of_a_program_also_if_it_died(drivers, mailbox):
    drivers.close(NEW)
    drivers.supersede({"ingest": NEW})
    assert OLD in drivers


def test_names_of_drivers_say_under_which_name_their_program_attached(monkeypatch):
    context = Mock()
    monkeypatch.setattr(here.ray, "get_runtime_context", lambda: context)
    first, second = naming.new_driver_name("a.b-7"), naming.new_driver_name()
    assert (label_of(first), label_of(second), label_of("alice.x")) == ("a.b-7", "", "")
    context.worker.mode = here.ray.WORKER_MODE
    guest = naming.new_driver_name("task-7")
    assert is_guest(guest)
    assert label_of(guest) == "task-7"
    assert is_driver(first)
    assert not is_guest(first)


def test_drivers_of_one_name_are_sorted_by_their_time(monkeypatch):
    monkeypatch.setattr(here.ray, "get_runtime_context", Mock())
    times = iter([5_000_000, 1_700_000_000_000_000_000, 1_800_000_000_000_000_000])
    monkeypatch.setattr(naming.time, "time_ns", lambda: next(times))
    names = [naming.new_driver_name("ingest") for _ in range(3)]
    assert names == sorted(names)


# The coordinator --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("advances", "told"), [(True, {}), (False, "no snapshot that advances was taken")])
def test_a_program_is_let_in_by_a_snapshot_behind_which_its_system_never_goes_back(advances, told):
    def ask(request):
        request.cut = SimpleNamespace(channels=(), records={})
        return SimpleNamespace(record=SimpleNamespace(advances=advances))

    runner = SimpleNamespace(config=SnapshotConfig())
    life = SimpleNamespace(stopped=None, state=RUNNING, rolls_back=False, ask=ask, runner=runner)
    enrolment = SimpleNamespace(_close_earlier=lambda *_: ({}, []), _life=lambda: life)
    assert Enrolment._told(enrolment, life, NEW) == told


def test_a_driver_that_died_is_forgotten_when_a_snapshot_holds_all_that_came_from_it():
    was_open, later = (SnapshotId(1, COORDINATOR, counter) for counter in (1, 2))

    def is_past(position, snapshot, sent=()):
        life = SimpleNamespace(
            heals=True,
            notifications=SimpleNamespace(newest=DurableNumbers(position, snapshot, dict(sent), frozenset())),
        )
        return DriverWatch._is_past(SimpleNamespace(_life=lambda: life, _deaths={OLD: (3, frozenset({was_open}))}), OLD)

    assert not is_past(4, was_open), "actors recorded it before they heard of the death"
    assert not is_past(3, later)
    assert not is_past(4, later, {OLD: {"alice": 1}}.items())
    assert is_past(4, later)
