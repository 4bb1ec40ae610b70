"""Systems that share a table: no row is lost or too often visible, and none stands still for no reason."""

from dataclasses import replace
from typing import Any

import pytest

from rayshot.model.outside import FencingToken
from rayshot.sinks import Held
from rayshot.sinks.backend import Claim
from rayshot.sinks.publisher import Publisher
from rayshot.sinks.sink import Sink
from tests.sinks.worlds import Wrong, play


@pytest.mark.parametrize("first", range(0, 500, 100))
def test_whatever_happens_each_row_is_visible_as_often_as_a_person_said(first: int) -> None:
    for seed in range(first, first + 100):
        play(seed)


@pytest.mark.wide("more cases of one kind")
def test_so_it_is_in_ten_thousand_schedules() -> None:
    for seed in range(500, 10_500):
        play(seed)


def lines_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    compare = Sink._compare

    def blind(sink: Sink, there: Held, back: Any) -> bool:
        return compare(sink, Held(there.sequence, sink.lines.get(there.sequence, "")), back)

    patch.setattr(Sink, "_compare", blind)


def owners_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    admit, may_take = Claim.admit, FencingToken.may_take
    patch.setattr(Claim, "admit", lambda claim, sink, token: admit(claim, sink, token._replace(owner=claim.owner)))
    patch.setattr(FencingToken, "may_take", lambda token, held: may_take(token._replace(owner=held.owner), held))


def nobody_is_kept_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Claim, "admit", lambda *_: None)


def a_batch_counts_as_visible_when_it_is_handed_over(patch: pytest.MonkeyPatch) -> None:
    due = Publisher.due

    def forgetful(publisher: Publisher, batches: Any) -> Any:
        work = due(publisher, batches)
        lines = {**batches}
        publisher.published = max(publisher.published, *lines) if lines else publisher.published
        return work

    patch.setattr(Publisher, "due", forgetful)


def only_the_newest_batch_is_published(patch: pytest.MonkeyPatch) -> None:
    due = Publisher.due
    patch.setattr(Publisher, "due", lambda one, batches: due(one, dict([*batches.items()][-1:])))


def a_table_is_not_moved_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Publisher, "move_back", lambda one, to: setattr(one, "published", to.sequence))


def a_snapshot_does_not_wait_until_the_table_has_moved_back(patch: pytest.MonkeyPatch) -> None:
    prepare = Publisher.prepare

    def hasty(publisher: Publisher, payload: Any, start: Held, *, again: bool) -> Any:
        return payload if publisher.is_taken else prepare(publisher, payload, start, again=again)

    patch.setattr(Publisher, "prepare", hasty)


def each_life_of_a_restore_takes_itself_for_the_first(patch: pytest.MonkeyPatch) -> None:
    restore = Sink.on_restore

    def forgetful(sink: Sink, back: Any) -> None:
        restore(sink, replace(back, again=back.again and f"{back.again} in life {back.token.life}"))

    patch.setattr(Sink, "on_restore", forgetful)


def a_new_actor_takes_what_is_there_for_its_own(patch: pytest.MonkeyPatch) -> None:
    prepare = Publisher.prepare

    def blind(publisher: Publisher, payload: Any, start: Held, *, again: bool) -> Any:
        if not publisher.is_taken:
            publisher.take(takeover=False)
        return prepare(publisher, payload, start, again=again)

    patch.setattr(Publisher, "prepare", blind)


def births_have_not_heard_of_again(patch: pytest.MonkeyPatch) -> None:
    prepare = Publisher.prepare
    patch.setattr(Publisher, "prepare", lambda one, payload, start, **_: prepare(one, payload, start, again=False))


@pytest.mark.parametrize(
    "mistake",
    [
        lines_are_not_compared,
        owners_are_not_compared,
        nobody_is_kept_out,
        a_batch_counts_as_visible_when_it_is_handed_over,
        only_the_newest_batch_is_published,
        a_table_is_not_moved_back,
        a_snapshot_does_not_wait_until_the_table_has_moved_back,
        each_life_of_a_restore_takes_itself_for_the_first,
        a_new_actor_takes_what_is_there_for_its_own,
        births_have_not_heard_of_again,
    ],
)
def test_a_mistake_is_noticed(mistake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake(monkeypatch)
    with pytest.raises(Wrong):
        for seed in range(3_000):
            play(seed)
