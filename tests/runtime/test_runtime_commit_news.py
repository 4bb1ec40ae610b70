"""Who hears of a durable snapshot at once, and what the coordinator knows of what follows from it outside."""

import threading
from types import SimpleNamespace

import pytest

from rayshot.errors import NotReady
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.coordinator import commit_news
from rayshot.runtime.coordinator.commit_news import CommitNews
from rayshot.runtime.coordinator.system_lock import SystemLock

FIRST, SECOND, THIRD = (SnapshotId(1, "coordinator", number) for number in (1, 2, 3))


class Members:
    """Writes down what actors are told."""

    def __init__(self):
        self.told = []

    def tell(self, name, order, about):
        self.told.append((name, order, about))


@pytest.fixture
def members():
    return Members()


@pytest.fixture
def committer():
    return SimpleNamespace(is_look=False)


@pytest.fixture
def news(members, committer):
    return CommitNews(members, committer, SystemLock())


def behind(news):
    return {name: figures.snapshot for name, figures in news.figures().items()}


def test_who_follows_hears_of_the_last_commit_at_once_and_of_each_that_comes(news, members):
    news.follow("alice", taken_by_itself=True)
    assert members.told == []
    news.committed(FIRST, set())
    news.follow("bob", taken_by_itself=True)
    news.committed(SECOND, set())
    heard = [("alice", FIRST), ("bob", FIRST), ("alice", SECOND), ("bob", SECOND)]
    assert members.told == [(name, "advanced", snapshot) for name, snapshot in heard]


def test_who_has_something_to_do_hears_of_the_commit_though_it_did_not_ask(news, members):
    news.follow("alice", taken_by_itself=True)
    news.committed(FIRST, {"alice", "sink"})
    news.committed(SECOND, set())
    assert members.told == [
        (name, "advanced", of) for name, of in (("alice", FIRST), ("sink", FIRST), ("alice", SECOND))
    ]
    assert behind(news) == {"alice": FIRST, "sink": FIRST}


@pytest.mark.parametrize(("asked_for", "warns"), [(True, False), (False, True)])
def test_who_waits_for_a_snapshot_that_somebody_must_ask_for_is_named_once(news, caplog, asked_for, warns):
    for name in ("alice", "bob"):
        news.follow(name, taken_by_itself=asked_for)
    assert [record.args for record in caplog.records] == [("alice",)] * warns


def test_a_settled_snapshot_settles_the_earlier_ones_and_not_the_later_ones(news):
    for snapshot in (FIRST, SECOND, THIRD):
        news.committed(snapshot, {"sink"})
    news.settled("sink", SECOND, "")
    assert behind(news) == {"sink": THIRD}
    news.settled("sink", FIRST, "")  # notices come in any order, and more than once
    assert behind(news) == {"sink": THIRD}
    news.settled("sink", THIRD, "")
    news.settled("sink", THIRD, "the table was away")
    assert behind(news) == {}


def test_trouble_is_known_and_counted_until_all_is_done(news):
    news.committed(FIRST, {"sink"})
    for _ in range(2):
        news.settled("sink", FIRST, "the table is away")
    assert (news.figures()["sink"].trouble, news.failures) == ("the table is away", 2)
    news.settled("sink", FIRST, "")
    news.committed(SECOND, {"sink"})
    assert (news.figures()["sink"].trouble, news.failures) == ("", 2)


def test_figures_count_from_the_oldest_snapshot_that_is_not_settled(news, monkeypatch):
    clock = iter((10.0, 13.0, 20.0, 21.0))
    monkeypatch.setattr(commit_news, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    news.committed(FIRST, {"sink"})
    news.committed(SECOND, {"sink"})
    assert news.figures()["sink"][:2] == (FIRST, 10.0)
    news.settled("sink", FIRST, "")
    assert news.figures()["sink"][:2] == (SECOND, 8.0)


def test_of_an_actor_that_ended_nothing_is_awaited_and_it_hears_nothing(news, members):
    news.follow("sink", taken_by_itself=True)
    news.owe(FIRST, ["sink"])
    news.forget("sink")
    assert behind(news) == {}
    news.committed(SECOND, set())
    assert members.told == []


def test_a_look_owes_nothing(news, committer):
    committer.is_look = True
    news.owe(FIRST, ["sink"])
    assert behind(news) == {}


def test_who_waits_for_a_durable_answer_hears_that_no_snapshot_can_be_taken(news, members):
    news.follow("alice", taken_by_itself=True)
    news.give_up_durable(error := NotReady("handlers wait"))
    assert members.told == [("alice", "give_up_durable", error)]


def test_a_stop_waits_until_all_have_settled(news):
    news.committed(FIRST, {"one", "two"})
    late = []
    waiting = threading.Thread(target=lambda: late.append(news.await_settled()))
    waiting.start()
    news.settled("one", FIRST, "")
    news.settled("two", FIRST, "the table is away")
    assert late == []
    news.settled("two", FIRST, "")
    waiting.join(20)
    assert late == [()]


def test_a_stop_waits_no_longer_than_its_time_or_its_life(news, monkeypatch):
    news.committed(FIRST, {"two", "one"})
    monkeypatch.setattr(commit_news, "SETTLE_S", 0.01)
    assert news.await_settled() == ("one", "two")
    monkeypatch.setattr(commit_news, "SETTLE_S", 600.0)
    news.end()
    assert news.await_settled() == ("one", "two")
