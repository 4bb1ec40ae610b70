"""A program that ends looks often whether snapshots hold what it told, though it asks for one ever more rarely."""

from types import SimpleNamespace

import pytest

from rayshot.runtime.coordinator.requests import Committed
from rayshot.runtime.door import door
from rayshot.runtime.driver import exit as driver_exit
from tests.runtime.going_back import going_back

pytestmark = pytest.mark.acceptance("P3")


class Clock:
    """Time passes only where somebody sleeps."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Taken:
    """A session all of whose messages have arrived."""

    def await_taken(self, told, timeout_s):
        assert timeout_s > 0
        return []


@pytest.mark.parametrize("covered_at", [100.0, 106.5, 129.9])
def test_it_ends_as_soon_as_any_snapshot_holds_what_it_told(monkeypatch, covered_at):
    clock, asked = Clock(), []
    monkeypatch.setattr(driver_exit, "time", clock)
    monkeypatch.setattr(driver_exit, "is_covered", lambda session, told: clock.now >= covered_at)
    monkeypatch.setattr(driver_exit, "_is_in_snapshot", lambda *_: asked.append(clock.now))  # the storage refuses
    assert driver_exit.await_covered(Taken(), {}, 30.0)
    assert clock.now < covered_at + 1.01 * driver_exit.LOOK_S
    assert len(asked) <= 8


def test_it_gives_up_at_its_limit(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(driver_exit, "time", clock)
    monkeypatch.setattr(driver_exit, "is_covered", lambda session, told: False)
    monkeypatch.setattr(driver_exit, "_is_in_snapshot", lambda *_: False)
    assert not driver_exit.await_covered(Taken(), {}, 30.0)
    assert clock.now == pytest.approx(130.0)


@pytest.mark.parametrize("advances", [True, False])
def test_a_snapshot_that_holds_all_is_enough_only_if_the_system_never_goes_back_behind_it(monkeypatch, advances):
    with going_back("alice") as world:
        committed = door.put(Committed(SimpleNamespace(advances=advances), {"alice": 1}, frozenset(), {}))
        snapshot = SimpleNamespace(remote=lambda order: committed)
        monkeypatch.setattr(world.coordinator, "snapshot", snapshot, raising=False)
        world.handle("alice").take.tell(1)
        world.settle()
        assert driver_exit.await_covered(world.session, world.session.told(), 0.5) == advances


class Ending:
    """The session of a program that ends: notes how long it may wait."""

    def __init__(self):
        self.waits = []

    def told(self):
        return {}

    def await_taken(self, told, timeout_s):
        self.waits.append(timeout_s)
        return []


def test_a_program_that_was_told_to_end_waits_no_longer_than_until_then(monkeypatch):
    clock, session = Clock(), Ending()
    monkeypatch.setattr(driver_exit, "time", clock)
    monkeypatch.setattr(
        driver_exit, "await_covered", lambda _session, _told, timeout_s: session.waits.append(timeout_s) or True
    )
    monkeypatch.setattr(driver_exit, "_sessions", {session})
    monkeypatch.setattr(driver_exit, "_until", [])
    driver_exit._wait()
    driver_exit.end_by(clock.now + 5.0)
    driver_exit._wait()
    clock.sleep(6.0)
    driver_exit._wait()
    assert session.waits == [1.0, 30.0, 1.0, 5.0, 0.0, 0.0]
