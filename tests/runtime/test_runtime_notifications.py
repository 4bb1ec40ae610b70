"""What drivers hear of a system that goes back: their calls wait until there is something to hear. No Ray."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from rayshot.protocol.identity import COORDINATOR, SnapshotId
from rayshot.runtime.coordinator.coordinator import Coordinator
from rayshot.runtime.coordinator.notifications import (
    CALLS_MAX,
    HOLD_S,
    ROUND_S,
    DriverNumbers,
    DurableNumbers,
    Notifications,
    hold_s,
)
from rayshot.runtime.driver import subscription
from rayshot.runtime.wire.host_identity import Stop
from rayshot.runtime.wire.notifications import WentBack
from tests.runtime.one_process import identity_of
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance("P4")
DRIVER, IDENTITY = "driver:1", identity_of()
NUMBERS = DriverNumbers({"alice": 3}, {"alice": 2}, frozenset())
HOLDS = DurableNumbers(7, SnapshotId(1, COORDINATOR, 1), {DRIVER: NUMBERS}, frozenset())


def notifications_of(life):
    return Notifications(life, lambda: IDENTITY)


def test_a_driver_that_asks_while_its_system_goes_back_waits_until_the_next_life_runs():
    over, following_life = notifications_of(1), notifications_of(2)
    with ThreadPoolExecutor(1) as driver:
        news = driver.submit(over.wait, DRIVER, 1, 0, 60.0)
        eventually(lambda: over._changed._waiters)
        over.pass_on(following_life)
        eventually(lambda: following_life._changed._waiters)
        following_life.runs(HOLDS)
        assert news.result(10) == WentBack(IDENTITY, 7, {"alice": 3}, {"alice": 2}, frozenset())


def test_a_driver_that_asks_for_news_of_a_life_that_is_over_hears_of_the_next_one():
    over, following_life = notifications_of(1), notifications_of(2)
    over.pass_on(following_life)
    following_life.runs(HOLDS)
    assert over.wait(DRIVER, 1, 0, 60.0).position == 7


def test_a_driver_whose_system_stops_on_its_way_back_hears_that():
    over, following_life = notifications_of(1), notifications_of(2)
    over.pass_on(following_life)
    stop = Stop("system", "", None, "it was shut down")
    following_life.stop(stop)
    assert over.wait(DRIVER, 1, 0, 60.0) is stop


def test_without_news_the_answer_comes_when_the_call_was_held_long_enough():
    assert notifications_of(1).wait(DRIVER, 1, 0, 0.0) is None


@pytest.mark.parametrize("drivers", [0, 1, 64, 300, 10_000])
def test_each_of_many_drivers_has_its_turn_before_it_takes_its_call_for_lost(drivers):
    queued = max(0, drivers - CALLS_MAX)
    rounds = queued / CALLS_MAX + 1
    assert rounds * hold_s(drivers) <= ROUND_S + HOLD_S < subscription.SILENT_S


def test_what_drivers_ask_for_besides_does_not_wait_behind_their_calls_for_news():
    groups = {method.__ray_concurrency_group__ for method in (Coordinator.evict, Coordinator.followed)}
    assert Coordinator.news.__ray_concurrency_group__ not in groups
