"""What every backend of a sink must do: its test subclasses `BackendConformance` and says where the rows go."""

import random
import threading
from collections import Counter
from functools import partial
from typing import Any, ClassVar, Protocol

import pyarrow as pa
import pytest

from rayshot.errors import SinkBehind, SinkFenced, SinkTaken
from rayshot.sinks import Backend, Held
from tests.sinks.tables import numbers, token

A, B = "a line", "b line"


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
    """Subclasses define the fixture `place`.

    The race has `rounds`, of some milliseconds each, or `rounds_quick` where that is slow and not asked for in full.
    """

    rounds: ClassVar[int] = 200
    rounds_quick: ClassVar[int] = 200

    def test_an_empty_resource_is_at_zero_and_may_be_taken_again(self, place: Place) -> None:
        assert made(place).look() == Held()
        assert [made(place).take(token(life)) for life in (1, 1, 2)] == [Held(), Held(), Held()]
        assert place.seen() == []

    def test_batches_are_visible_once_however_often_they_come(self, place: Place) -> None:
        backend = made(place)
        backend.take(token(1))
        for sequence, start in ((1, 0), (1, 0), (2, 3), (1, 0), (2, 3)):
            backend.publish(token(1), sequence, A, numbers(3, start))
        assert sorted(place.seen()) == [0, 1, 2, 3, 4, 5]
        assert made(place).look() == Held(2, A)
        assert made(place).take(token(2)) == Held(2, A)

    def test_arrow_tables_are_rows_too(self, place: Place) -> None:
        backend = made(place)
        backend.take(token(1))
        chunks = [pa.array([1, 2], pa.int64()), pa.array([3], pa.int64())]
        backend.publish(token(1), 1, A, pa.table({"n": pa.chunked_array(chunks)}))
        assert sorted(place.seen()) == [1, 2, 3]

    def test_a_gap_is_refused(self, place: Place) -> None:
        backend = made(place)
        backend.take(token(1))
        with pytest.raises(SinkBehind, match="shop/sink has batches up to 0, so batch 2 would leave a gap"):
            backend.publish(token(1), 2, A, numbers(1))
        assert place.seen() == []

    def test_an_earlier_life_does_nothing_more(self, place: Place) -> None:
        early, late = made(place), made(place)
        early.take(token(1))
        early.publish(token(1), 1, A, numbers(1))
        assert late.take(token(2)) == Held(1, A)
        for step in (
            lambda: early.publish(token(1), 2, A, numbers(1, 9)),
            lambda: early.publish(token(1), 1, A, numbers(1, 9)),
            lambda: early.reset(token(1), 0, B),
            lambda: early.take(token(1)),
        ):
            with pytest.raises(SinkFenced, match="life 2 has shop/sink, so life 1 may not write there"):
                step()
        late.publish(token(2), 2, A, numbers(1, 1))
        assert sorted(place.seen()) == [0, 1]

    def test_another_run_or_a_copy_does_nothing_but_by_takeover(self, place: Place) -> None:
        first, second = made(place), made(place)
        first.take(token(7))
        first.publish(token(7), 1, A, numbers(1))
        for other, words in (
            (token(8, "other"), "another run, run"),
            (token(7, owner="owner of a copy"), "a copy of this storage, in life 7"),
        ):
            for step in (
                partial(second.take, other),
                partial(second.publish, other, 2, A, numbers(1, 9)),
                partial(second.publish, other, 1, A, numbers(1, 9)),
                partial(second.reset, other, 0, B),
            ):
                with pytest.raises(SinkTaken, match=f"shop/sink belongs to {words}: end that system"):
                    step()
        assert second.take(token(2, "other"), takeover=True) == Held(1, A)
        with pytest.raises(SinkTaken, match="shop/sink belongs to another run, other"):
            first.publish(token(7), 2, A, numbers(1, 9))
        assert first.take(token(3), takeover=True) == Held(1, A)
        first.publish(token(3), 2, B, numbers(1, 1))
        assert sorted(place.seen()) == [0, 1]

    def test_who_has_not_taken_it_does_nothing(self, place: Place) -> None:
        made(place).take(token(1))
        for step in (
            lambda: made(place).publish(token(2), 1, A, numbers(1)),
            lambda: made(place).reset(token(2), 0, B),
        ):
            with pytest.raises(SinkBehind, match="as life 1 had it, and life 2 took it: it came from a backup"):
                step()
        assert place.seen() == []

    def test_numbers_move_back_in_another_line_and_nothing_visible_goes(self, place: Place) -> None:
        backend = made(place)
        backend.take(token(1))
        for sequence in (1, 2, 3):
            backend.publish(token(1), sequence, A, numbers(1, sequence))
        later = made(place)
        later.take(token(5))
        for _ in range(2):
            later.reset(token(5), 1, B)
        assert made(place).look() == Held(1, B)
        later.publish(token(5), 2, B, numbers(1, 2))
        later.reset(token(5), 1, B)  # an answer was lost, and the step comes again: it happened already
        assert made(place).take(token(6)) == Held(2, B)
        assert sorted(place.seen()) == [1, 2, 2, 3]

    @pytest.mark.acceptance("W6")
    def test_of_two_runs_that_begin_at_once_one_has_it(self, place: Place) -> None:
        runs = {run: made(place) for run in ("one", "two", "three")}
        outcomes = at_once({run: partial(backend.take, token(1, run)) for run, backend in runs.items()})
        assert Counter(map(type, outcomes.values())) == {Held: 1, SinkTaken: 2}, outcomes

    @pytest.mark.acceptance("W6")
    @pytest.mark.parametrize("seed", range(2))
    def test_the_present_life_publishes_each_row_once_beside_zombies_and_a_rival(
        self, place: Place, seed: int, in_full: bool
    ) -> None:
        """In each round three write the next batch at once.

        The present life. A zombie: an earlier life with rows that were undone, or the present one's own
        thread that tries again; it may have looked at the resource before the present life took it. Another run, or
        a copy of this one.
        """
        rounds = self.rounds if in_full else min(self.rounds, self.rounds_quick)
        dice = random.Random(seed)
        me, life, start, fenced = made(place), 1, 0, 0
        me.take(token(1))
        rival = made(place)
        zombie = made(place)
        for sequence in range(1, rounds + 1):
            rows = numbers(3, start)
            undone = dice.random() < 0.5
            zombie_life = life
            if dice.random() < 0.5:
                zombie = made(place)
            if dice.random() < 0.5:
                zombie.take(token(zombie_life))
            if undone:
                life += 1
                me.take(token(life))
            rivals = token(10**6, "other"), token(life, owner="of a copy")
            steps = {
                "me": partial(me.publish, token(life), sequence, A, rows),
                "zombie": partial(zombie.publish, token(zombie_life), sequence, A, numbers(1, -1) if undone else rows),
                "rival": partial(rival.publish, dice.choice(rivals), sequence, A, numbers(1, -2)),
            }
            outcomes = at_once(dict(dice.sample([*steps.items()], 3)))
            assert outcomes["me"] is None, outcomes
            assert isinstance(outcomes["rival"], SinkTaken), outcomes
            assert isinstance(outcomes["zombie"], SinkFenced) if undone else outcomes["zombie"] is None, outcomes
            fenced += undone
            start += 3
        assert sorted(place.seen()) == list(range(start))
        assert rounds // 4 < fenced < rounds


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
