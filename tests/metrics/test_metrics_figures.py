"""What is told of actors, and when: sums by class, growth, and what stands still."""

import re
from pathlib import Path

from rayshot.protocol.abort import AbortReason
from rayshot.runtime.coordinator.metrics import METRICS, ActorFigures, ActorSums, Metrics, SystemFigures
from rayshot.runtime.wire.states import STATES


def one(handled=0, letters=0, mailbox=0, outbox=0, *, busy=False, full=False, of="Account"):
    return tuple(ActorFigures(of, handled, letters, mailbox, outbox, busy, full))


def told(samples):
    return {(name, *labels.values()): value for name, value, labels in samples}


def test_counters_grow_by_what_is_new_and_gauges_are_the_most_of_a_class():
    sums = ActorSums()
    first = told(sums.add(0.0, {"a": one(10, 1, mailbox=3), "b": one(5, mailbox=7)}))
    assert first["rayshot_messages_total", "Account"] == 15
    assert first["rayshot_mailbox_messages", "Account"] == 7
    second = told(sums.add(5.0, {"a": one(12, 1), "b": one(5), "c": one(1, of="Till")}))
    assert second["rayshot_messages_total", "Account"] == 2
    assert second["rayshot_dead_letters_total", "Account"] == 0
    assert second["rayshot_messages_total", "Till"] == 1
    assert second["rayshot_actors", "Account"] == 2


def test_who_does_not_answer_is_left_out_and_counts_what_it_missed_when_it_does():
    sums = ActorSums()
    list(sums.add(0.0, {"a": one(10)}))
    assert told(sums.add(5.0, {"a": None})) == {}
    found = told(sums.add(15.0, {"a": one(40, busy=True)}))
    assert found["rayshot_messages_total", "Account"] == 30
    assert found["rayshot_busy_seconds_total", "Account"] == 15


def test_an_actor_that_ended_and_counts_that_go_back_are_no_growth():
    sums = ActorSums()
    list(sums.add(0.0, {"a": one(10), "b": one(10)}))
    found = told(sums.add(5.0, {"b": one(4)}))
    assert found["rayshot_messages_total", "Account"] == 0
    assert found["rayshot_actors", "Account"] == 1


def test_a_sample_of_a_busy_actor_counts_since_the_one_before():
    sums = ActorSums()
    first = told(sums.add(100.0, {"a": one(busy=True, full=True)}))
    assert first["rayshot_busy_seconds_total", "Account"] == 0
    second = told(sums.add(105.0, {"a": one(busy=True), "b": one(full=True)}))
    assert second["rayshot_busy_seconds_total", "Account"] == 5
    assert second["rayshot_backpressured_seconds_total", "Account"] == 0


def test_aborts_are_counted_where_ray_takes_no_metrics_too():
    metrics = Metrics("bank", 1, lambda: SystemFigures("running", 0, 0.0, 0.0, 0), dict)
    metrics.aborted("interval", AbortReason.TIMEOUT)
    assert metrics.aborted_count == 1


def test_gauges_are_set_each_time_and_what_grew_is_told_once_until_actors_are_asked_again():
    asked = []

    def ask():
        asked.append(None)
        return {f"a{number}": one(10) for number in range(1000)}

    metrics = Metrics("bank", 4, lambda: SystemFigures("running", 2, 0.0, 0.0, 0), ask)
    first, second = (told(metrics.samples(now)) for now in (100.0, 105.0))
    assert first["rayshot_messages_total", "Account"] == 10_000
    assert ("rayshot_messages_total", "Account") not in second
    assert second["rayshot_actors", "Account"] == 1000
    assert len(asked) == 1  # a thousand are not asked each five seconds
    assert told(metrics.samples(120.0))["rayshot_messages_total", "Account"] == 0
    assert len(asked) == 2


def test_the_state_is_one_of_all_and_a_life_without_a_snapshot_counts_from_its_beginning(monkeypatch):
    monkeypatch.setattr("rayshot.runtime.coordinator.metrics.time.time", lambda: 1000.0)
    metrics = Metrics("bank", 4, lambda: SystemFigures("stopped", 2, taken_at, 0.0, 0), dict)
    taken_at = 0.0
    found = told(metrics.samples(0.0))
    assert {state: found["rayshot_system_state", state] for state in STATES} == {
        state: state == "stopped" for state in STATES
    }
    assert (found["rayshot_life",], found["rayshot_snapshots_in_progress",]) == (4, 2)
    assert found["rayshot_last_snapshot_timestamp_seconds",] == 1000
    taken_at = 1234.0
    assert told(metrics.samples(0.0))["rayshot_last_snapshot_timestamp_seconds",] == 1234


def test_no_metric_has_a_label_for_each_actor():
    assert {label for metric in METRICS for label in metric.labels} == {
        "outcome",
        "reason",
        "trigger",
        "phase",
        "cause",
        "state",
        "actor_class",
    }


def test_the_page_has_each_metric_and_says_what_it_is():
    page = Path(__file__).parents[2].joinpath("docs", "metrics.md").read_text()
    rows = re.findall(r"^\| `(rayshot_\w+)` \| (\w+) \| (.*?) \| (.*) \|$", page, re.MULTILINE)
    assert rows == [
        (one.name, one.kind.lower(), ", ".join(f"`{label}`" for label in one.labels), one.about) for one in METRICS
    ]
