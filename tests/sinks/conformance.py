"""What every backend of a sink must do: its test subclasses `BackendConformance` and says where the rows go."""

import random
import threading
from collections import Counter
from functools import partial
from typing import Any, Protocol

import pyarrow as pa
import pytest

from rayshot.errors import SinkBehind, SinkFenced, SinkTaken
from rayshot.sinks import Backend, Held
from tests.sinks.tables import numbers

SCHEMA = pa.schema([("n", pa.int64())])


class Place(Protocol):
    """An empty resource for rows with the one column `n`, a number of 64 bits."""

    def backend(self) -> Backend:
        """A new backend on the resource, as of another process."""

    def seen(self) -> list[int]:
        """The visible numbers, in any order."""


def made(place: Place, sink: str = "sink") -> Backend:
    backend = place.backend()
    backend.system, backend.sink = "shop", sink
    return backend


class BackendConformance:
    """Subclasses define the fixture `place`; `rounds` of the race take some milliseconds each."""

    rounds = 200

    def test_an_empty_resource_is_at_zero_and_may_be_taken_again(self, place: Place) -> None:
        assert [made(place).take("run", life) for life in (1, 1, 2)] == [Held(), Held(), Held()]
        assert place.seen() == []

    def test_batches_are_visible_once_however_often_they_come(self, place: Place) -> None:
        backend = made(place)
        backend.take("run", 1)
        for sequence, start in ((1, 0), (1, 0), (2, 3), (1, 0), (2, 3)):
            backend.publish("run", 1, sequence, numbers(3, start))
        assert sorted(place.seen()) == [0, 1, 2, 3, 4, 5]
        assert made(place).take("run", 2) == Held(2)

    def test_arrow_tables_are_rows_too(self, place: Place) -> None:
        backend = made(place)
        backend.take("run", 1)
        chunks = [pa.array([1, 2], pa.int64()), pa.array([3], pa.int64())]
        backend.publish("run", 1, 1, pa.table({"n": pa.chunked_array(chunks)}))
        assert sorted(place.seen()) == [1, 2, 3]

    def test_a_gap_is_refused(self, place: Place) -> None:
        backend = made(place)
        backend.take("run", 1)
        with pytest.raises(SinkBehind, match="shop/sink has batches up to 0, so batch 2 would leave a gap"):
            backend.publish("run", 1, 2, numbers(1))
        assert place.seen() == []

    def test_an_earlier_life_does_nothing_more(self, place: Place) -> None:
        early, late = made(place), made(place)
        early.take("run", 1)
        early.publish("run", 1, 1, numbers(1))
        assert late.take("run", 2) == Held(1)
        for step in (
            lambda: early.publish("run", 1, 2, numbers(1, 9)),
            lambda: early.publish("run", 1, 1, numbers(1, 9)),
            lambda: early.reset("run", 1, 0),
            lambda: early.take("run", 1),
            lambda: made(place).take("run", 1, takeover=True),
        ):
            with pytest.raises(SinkFenced, match="life 2 has shop/sink, so life 1 may not write there"):
                step()
        late.publish("run", 2, 2, numbers(1, 1))
        assert sorted(place.seen()) == [0, 1]

    def test_another_run_does_nothing_but_by_takeover(self, place: Place) -> None:
        first, second = made(place), made(place)
        first.take("run", 7)
        first.publish("run", 7, 1, numbers(1))
        for step in (
            lambda: second.take("copy", 8),
            lambda: second.publish("copy", 8, 2, numbers(1, 9)),
            lambda: second.reset("copy", 8, 0),
        ):
            with pytest.raises(SinkTaken, match="shop/sink belongs to another run, run"):
                step()
        assert second.take("copy", 2, takeover=True) == Held(1)
        with pytest.raises(SinkTaken, match="shop/sink belongs to another run, copy"):
            first.publish("run", 7, 2, numbers(1, 9))
        second.publish("copy", 2, 2, numbers(1, 1))
        assert sorted(place.seen()) == [0, 1]

    def test_numbers_move_back_in_a_branch_and_nothing_visible_goes(self, place: Place) -> None:
        backend = made(place)
        backend.take("run", 1)
        for sequence in (1, 2, 3):
            backend.publish("run", 1, sequence, numbers(1, sequence))
        later = made(place)
        later.take("run", 5)
        for _ in range(2):
            later.reset("run", 5, 1)
        assert made(place).take("run", 5) == Held(1, 5)
        later.publish("run", 5, 2, numbers(1, 2))
        later.reset("run", 5, 1)  # an answer was lost, and the step comes again: it happened already
        assert made(place).take("run", 6) == Held(2, 5)
        assert sorted(place.seen()) == [1, 2, 2, 3]

    def test_of_two_runs_that_begin_at_once_one_has_it(self, place: Place) -> None:
        runs = {run: made(place) for run in ("one", "two", "three")}
        outcomes = at_once({run: partial(backend.take, run, 1) for run, backend in runs.items()})
        assert Counter(map(type, outcomes.values())) == {Held: 1, SinkTaken: 2}, outcomes

    @pytest.mark.parametrize("seed", range(2))
    def test_the_present_life_publishes_each_row_once_beside_zombies_and_a_rival(self, place: Place, seed: int) -> None:
        """In each round three write the next batch at once.

        The present life. A zombie: an earlier life with rows of a branch that was undone, or the present one's own
        thread that tries again; it may have looked at the resource before the present life took it. Another run.
        """
        dice = random.Random(seed)
        me, life, start, fenced = made(place), 1, 0, 0
        me.take("run", 1)
        rival = made(place)
        zombie = made(place)
        for sequence in range(1, self.rounds + 1):
            rows = numbers(3, start)
            undone = dice.random() < 0.5
            zombie_life = life
            if dice.random() < 0.5:
                zombie = made(place)
            if dice.random() < 0.5:
                zombie.take("run", zombie_life)
            if undone:
                life += 1
                me.take("run", life)
            steps = {
                "me": partial(me.publish, "run", life, sequence, rows),
                "zombie": partial(zombie.publish, "run", zombie_life, sequence, numbers(1, -1) if undone else rows),
                "rival": partial(rival.publish, "copy", 10**6, sequence, numbers(1, -2)),
            }
            outcomes = at_once(dict(dice.sample([*steps.items()], 3)))
            assert outcomes["me"] is None, outcomes
            assert isinstance(outcomes["rival"], SinkTaken), outcomes
            assert isinstance(outcomes["zombie"], SinkFenced) if undone else outcomes["zombie"] is None, outcomes
            fenced += undone
            start += 3
        assert sorted(place.seen()) == list(range(start))
        assert self.rounds // 4 < fenced < self.rounds


def at_once(steps: dict[str, Any]) -> dict[str, Any]:
    """What each step returned or raised, all begun at once."""
    barrier, outcomes = threading.Barrier(len(steps)), {}

    def go(name: str, step: Any) -> None:
        barrier.wait()
        try:
            outcomes[name] = step()
        except Exception as error:  # noqa: BLE001 - the outcome is looked at
            outcomes[name] = error

    threads = [threading.Thread(target=go, args=item) for item in steps.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes
