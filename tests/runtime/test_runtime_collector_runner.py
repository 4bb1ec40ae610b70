"""The coordinator's runner without Ray: a storage that answers when the test says so, and no actors."""

import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from rayshot.errors import Fenced, NoAnswer, NotFound, SnapshotAborted, StoreError, StoreUnavailable, SystemRecovering
from rayshot.model.configuration import FailureConfig, SnapshotConfig
from rayshot.places.kinds import open_store
from rayshot.places.memory import MemoryStore
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.identity import CHANDY_LAMPORT, STOP_THE_WORLD, SnapshotId
from rayshot.protocol.recovery import Phase
from rayshot.runtime.coordinator import commit_queue, pending_snapshots
from rayshot.runtime.coordinator.collector_runner import EARLY, EARLY_S, CollectorRunner
from rayshot.runtime.coordinator.committer import Committer
from rayshot.runtime.coordinator.requests import PendingRequest, SnapshotRequest
from rayshot.runtime.coordinator.restoration import Restoration
from rayshot.runtime.coordinator.system_lock import SystemLock
from rayshot.runtime.wire.settings import SystemSettings
from tests.snapshots.read_only import disk
from tests.snapshots.snapshot_builder import Bank, make_snapshot, open_bank
from tests.snapshots.test_snapshots_full import filled
from tests.waiting import eventually


class NoMembers:
    """A system without actors and vaults."""

    def __init__(self):
        self.hosts = {}

    def shares(self, bodies):
        return []

    def why_missing(self, snapshot, names):
        return dict.fromkeys(names)

    def tell_all(self, *args):
        """Nobody is there."""

    tell = tell_vaults = tell_all


class SlowCommitter:
    """Writes a snapshot when `answer` is set; `refuses` is the error with which it does not."""

    incarnation, epoch, is_look = 1, SimpleNamespace(position=0), False

    def __init__(self):
        self.begun, self.answer = threading.Semaphore(0), threading.Event()
        self.refuses, self.aborted, self.stored = None, [], 0
        bank = open_bank(MemoryStore())
        self.record = make_snapshot(bank).record

    def store(self, cut, vaults, taken):
        self.begun.release()
        assert self.answer.wait(20)
        if self.refuses is not None:
            raise self.refuses
        self.stored += 1
        return self.record, {}

    def note_abort(self, pending, end, when):
        self.aborted.append(end.snapshot)

    def retain(self, config):
        """Nothing is deleted."""

    def write_aborts(self):
        """Nothing waits."""

    write_segments = write_aborts


class RunningLife:
    """What a runner asks and tells of its life; `over` is the error for who asks a life that is over."""

    phase, over = Phase.RUNNING, None

    def holds_of(self, record, cut):
        return None

    def stored(self, holds):
        """Nobody waits for it."""

    committed = savepoint_stored = fenced = stored


class Counts:
    """The metrics that a runner tells."""

    def __init__(self):
        self.committed_count = self.aborted_count = 0

    def committed(self, trigger, figures):
        self.committed_count += 1

    def aborted(self, trigger, reason):
        self.aborted_count += 1


def settings_for(storage="memory://none", **changes):
    config = SnapshotConfig(max_concurrent=2)
    given = {"loading": False, "beginning": False, "trace": False, "after": 0, "keys": (), "fresh": False, "pin": None}
    return SystemSettings(system="bank", storage=storage, snapshot=config, failure=FailureConfig(), **(given | changes))


@pytest.fixture
def runner_of():
    """Makes one with these settings."""
    all_made = []

    def make(config, failure):
        committer, counts = SlowCommitter(), Counts()
        made = CollectorRunner(
            replace(settings_for(), snapshot=config, failure=failure),
            committer,
            NoMembers(),
            counts,
            RunningLife(),
            SystemLock(),
        )
        made.start()
        all_made.append((made, committer))
        return made, committer, counts

    yield make
    for made, committer in all_made:
        committer.answer.set()
        made.close()


@pytest.fixture
def runner(runner_of):
    return runner_of(SnapshotConfig(max_concurrent=2), FailureConfig())


def test_two_requests_of_a_system_without_actors_are_both_answered(runner):
    runner, committer, _ = runner
    requests = [PendingRequest(CHANDY_LAMPORT), PendingRequest(CHANDY_LAMPORT, SnapshotRequest(label="night"))]
    for request in requests:
        runner.ask(request)
    assert len(runner.pending) == 2
    committer.answer.set()
    eventually(lambda: all(request.done.is_set() for request in requests) or None)
    assert [request.error for request in requests] == [None, None]
    assert committer.stored == 2


def test_a_stop_that_was_wanted_within_some_seconds_does_not_come_later(runner):
    runner, _, _ = runner
    runner.join("alice")  # and she never records
    request = PendingRequest(STOP_THE_WORLD, SnapshotRequest(final=True, within_s=5.0))
    runner.ask(request)
    with runner.lock:
        runner.tick(runner._last_began + 4.0)
        assert not request.done.is_set()
        runner.tick(runner._last_began + 6.0)
    assert request.done.wait(10.0)
    assert request.error.evidence["reason"] == AbortReason.TIMEOUT.value
    assert "not durable after 5 s" in request.error.message


def test_a_snapshot_that_is_being_stored_when_another_life_is_seen_ends_as_the_storage_says(runner):
    runner, committer, counts = runner
    request = PendingRequest(CHANDY_LAMPORT)
    runner.ask(request)
    assert committer.begun.acquire(timeout=20)
    runner.abort_all(AbortReason.FENCED, "life 2 has begun")
    assert not request.done.is_set()
    committer.answer.set()
    assert request.wait().record == committer.record
    eventually(lambda: counts.committed_count or None)
    assert (counts.committed_count, counts.aborted_count, committer.aborted) == (1, 0, [])


def test_a_snapshot_that_the_storage_refuses_because_of_another_life_is_aborted(runner):
    runner, committer, counts = runner
    request = PendingRequest(CHANDY_LAMPORT)
    runner.ask(request)
    assert committer.begun.acquire(timeout=20)
    committer.refuses = Fenced("life 2 has begun")
    committer.answer.set()
    eventually(lambda: request.done.is_set() or None)
    assert request.error.evidence["reason"] == AbortReason.FENCED.value
    assert counts.committed_count == 0


def test_a_snapshot_that_is_being_stored_when_an_actor_dies_says_so_and_is_noted_although_the_life_is_closed(runner):
    runner, committer, _ = runner
    request = PendingRequest(CHANDY_LAMPORT)
    runner.ask(request)
    assert committer.begun.acquire(timeout=20)
    runner._life.over = SystemRecovering("bob was lost")
    runner.end(runner._life.over)
    closing = threading.Thread(target=runner.close)
    closing.start()
    committer.refuses = StoreUnavailable("life 1 is over")
    committer.answer.set()
    with pytest.raises(SnapshotAborted, match="bob was lost") as caught:
        request.wait()
    closing.join(20)
    assert caught.value.evidence["reason"] == AbortReason.ACTOR_DIED.value
    assert [str(snapshot) for snapshot in committer.aborted] == ["1-coordinator-1"]


def test_a_restored_life_does_not_take_who_ended_from_the_life_that_it_went_back_behind(tmp_path):
    address = str(tmp_path / "shots")
    bank = open_bank(open_store(address))
    first = make_snapshot(bank, Bank(ended=("carol",)), 1)
    make_snapshot(bank, Bank(states={"alice": {}}, flows={}, ended=("bob", "carol")), 2)
    committer = Committer.begin(settings_for(address, loading=True), "a")
    assert committer.ended_before(1) == {"bob", "carol"}
    assert committer.ended_before(2) == set()
    committer.restored(Restoration(first.id, None, claimed=False, ended=(), plans={}, fitted=None, patience_s=1.0))
    assert committer.ended_before(2) == {"carol"}, "as it was at the snapshot that the life was restored from"
    again = Committer.begin(settings_for(address, fresh=True), "b")
    assert again.ended_before(again.incarnation) == set()
    assert SnapshotId(1, "coordinator", 1) == first.id


def test_a_coordinator_that_is_started_again_awaits_its_storage_and_makes_no_new_life_in_an_empty_one(tmp_path):
    with disk(tmp_path / "disk") as shots:
        settings = settings_for(str(shots))
        with pytest.raises(NotFound):
            Committer.begin(settings, "a", again=True)
        assert not any(shots.iterdir()), "it wrote nothing where its volume may be mounted later"
        first = Committer.begin(settings, "a")
        with filled(shots, 0), pytest.raises(StoreError):
            Committer.begin(settings, "a", again=True)
        again = Committer.begin(settings, "a", again=True)
        assert (again.had_begun, again.incarnation) == (True, first.incarnation)
        with pytest.raises(StoreUnavailable, match="does not hold the life of 'bank' that runs"):
            Committer.begin(settings, "b", again=True)


def test_who_waits_for_a_storage_that_hangs_goes_on_also_when_the_system_went_back(runner, monkeypatch):
    runner, committer, _ = runner
    monkeypatch.setattr(commit_queue, "CLOSE_S", 0.1)
    monkeypatch.setattr(pending_snapshots, "STORE_S", 0.1)
    runner.config = SnapshotConfig(timeout_s=0.1)
    request = PendingRequest(CHANDY_LAMPORT)
    runner.ask(request)
    assert committer.begun.acquire(timeout=20)
    runner.end(SystemRecovering("it goes back"))
    runner.leave()
    with pytest.raises(NoAnswer, match="the storage has not answered"):
        request.wait()


def test_who_waits_for_a_slow_storage_is_answered_also_when_the_system_went_back(runner, monkeypatch):
    runner, committer, _ = runner
    monkeypatch.setattr(commit_queue, "CLOSE_S", 0.0)
    request = PendingRequest(CHANDY_LAMPORT)
    runner.ask(request)
    assert committer.begun.acquire(timeout=20)
    runner.end(SystemRecovering("it goes back"))
    threading.Timer(0.2, committer.answer.set).start()
    runner.leave()
    assert request.wait().record == committer.record


def test_snapshots_that_failed_count_until_one_advances(runner):
    runner, committer, counts = runner
    committer.refuses = StoreUnavailable("the disk is full")
    committer.answer.set()
    for failed in (1, 2):
        runner.ask(PendingRequest(CHANDY_LAMPORT))
        eventually(lambda failed=failed: counts.aborted_count == failed)
        with runner.lock:
            assert runner.fruitless(0.0) == failed
    committer.refuses = None
    request = PendingRequest(CHANDY_LAMPORT)
    runner.ask(request)
    request.wait()
    with runner.lock:
        assert runner.fruitless(0.0) == 0


@pytest.mark.acceptance("P3")
def test_behind_a_death_snapshots_that_fail_are_tried_again_at_the_interval(runner_of):
    runner, committer, counts = runner_of(SnapshotConfig(interval_s=3600.0), FailureConfig())
    committer.refuses = StoreUnavailable("the disk is full")
    committer.answer.set()
    runner._members.hosts["alice"] = None  # a system without actors takes no snapshots by itself
    for _ in range(10):
        with runner.lock:
            runner.tick(runner._last_began + EARLY_S)
        eventually(lambda: not runner.pending)
    assert counts.aborted_count == EARLY
    with runner.lock:
        runner.tick(runner._last_began + 3600.0)
    eventually(lambda: counts.aborted_count == EARLY + 1)
