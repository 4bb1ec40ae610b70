"""An actor's share of snapshots, where it ends in an awkward moment."""

import errno
import fcntl
import os
import resource
import signal
import subprocess
from types import SimpleNamespace
from unittest.mock import Mock

import msgpack
import pytest

from rayshot.errors import StateNotSerializable, StoreUnavailable
from rayshot.protocol.events import Begun, DeadlinePassed
from rayshot.protocol.identity import COORDINATOR, SnapshotId
from rayshot.protocol.participant import Participant
from rayshot.protocol.record import Record
from rayshot.runtime.actor.outcomes import Outcomes
from rayshot.runtime.actor.recording import Recording
from rayshot.runtime.actor.worker import Worker
from rayshot.runtime.node import capture
from rayshot.runtime.node.capture import CaptureChild, Captured, Capturer, read_spill
from rayshot.runtime.node.vault import _parts_of
from rayshot.runtime.wire.reports import RecordBody, RecordReport
from tests.runtime.one_process import Process
from tests.waiting import eventually

SNAPSHOT = SnapshotId(1, COORDINATOR, 1)


def test_what_a_child_spilled_just_before_its_snapshot_was_given_up_is_removed(tmp_path):
    process = Process()
    recording = Recording(process.runner, process, Mock(), Outcomes(process.lock), Mock(), Mock(), Mock())
    process.runner.employ(process, recording)
    spill = tmp_path / "spill"
    spill.write_bytes(b"state")
    child = SimpleNamespace(wait=lambda _: Captured("pickle", (5,), spill=str(spill)), age_s=0.0, cancel=lambda: None)
    body = RecordBody("alice", None, None, {}, {}, None)
    with process.lock:  # the child has ended, and its thread waits for the lock
        process.runner.handle(Begun(SNAPSHOT))
        recording.deliveries.put_when_pickled(child, RecordReport(Record(SNAPSHOT, "alice"), 0.0, body))
        process.runner.handle(DeadlinePassed(SNAPSHOT))
    eventually(lambda: not spill.exists())
    assert recording.deliveries.fetch(SNAPSHOT) == (None, None)


def test_a_spill_that_a_hanging_child_makes_when_its_time_is_up_is_removed(tmp_path, monkeypatch):
    spill = tmp_path / "spill"
    read_end, write_end = os.pipe()
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        child = CaptureChild(sleeper.pid, read_end, spill)
        kill = child._kill
        monkeypatch.setattr(child, "_kill", lambda: (spill.write_bytes(b"late"), kill()))
        with pytest.raises(TimeoutError):
            child.wait(0.0)
    os.close(write_end)
    assert not spill.exists()


def test_a_child_is_heard_through_a_descriptor_of_any_number(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    read_end, write_end = os.pipe()
    high = fcntl.fcntl(read_end, fcntl.F_DUPFD, 1024)
    os.close(read_end)
    try:
        with subprocess.Popen(["sleep", "60"]) as sleeper:
            os.write(write_end, msgpack.packb([True, "pickle", [5], False, b""]))
            os.close(write_end)
            captured = CaptureChild(sleeper.pid, high, tmp_path / "spill").wait(10.0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert captured == Captured("pickle", (5,), spill=str(tmp_path / "spill"))


def test_a_child_that_does_not_begin_is_replaced(tmp_path, monkeypatch):
    """As its fork may have met a thread of Ray that held the lock which each child takes first."""
    pids = []
    monkeypatch.setattr("rayshot.runtime.node.capture.BEGIN_S", 0.2)
    fork, die_with = os.fork, capture._die_with

    def forked():
        pids.append(fork())
        return pids[-1]

    monkeypatch.setattr(os, "fork", forked)
    monkeypatch.setattr(capture, "_die_with", lambda parent: (die_with(parent), len(pids) > 1 or signal.pause()))
    capturer = Capturer("actor", str(tmp_path))
    capturer.method = "fork"
    child = capturer.capture(SimpleNamespace(state=lambda: {"text": b"x"}, instance=object()))
    assert len(pids) == 2
    assert child.wait(20.0).size > 0
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize("maps", [False, True])
def test_children_that_fail_again_and_again_are_tried_less_and_less_often(tmp_path, monkeypatch, maps):
    monkeypatch.setattr("rayshot.runtime.node.capture._write_spill", find_no_room)
    monkeypatch.setattr("rayshot.runtime.node.capture.maps_data", lambda: maps)  # the first child is waited for then
    capturer = Capturer("actor", str(tmp_path))
    capturer.method = "fork"
    cell = SimpleNamespace(state=lambda: {"text": b"x" * 10_000}, instance=object())
    ways = []
    for _ in range(20):
        found = capturer.capture(cell)
        ways.append("fork" if isinstance(found, CaptureChild) else "inline")
        if ways[-1] == "fork":
            with pytest.raises(StateNotSerializable) as caught:
                found.wait(10.0)
            capturer.child_failed(caught.value)
    assert "".join(way[0] for way in ways) == "fi" + "fii" + "fiiii" + "fiiiiiiii" + "f"
    monkeypatch.undo()
    for _ in range(17):
        found = capturer.capture(cell)
    capturer.learn(found.wait(10.0))
    assert capturer._inline_again == 1


def test_where_spills_have_no_room_one_snapshot_is_aborted_and_the_others_are_captured_inline(tmp_path, monkeypatch):
    monkeypatch.setattr("rayshot.runtime.node.capture._write_spill", find_no_room)
    monkeypatch.setattr("os.statvfs", lambda _folder: SimpleNamespace(f_bavail=1, f_frsize=4096))
    capturer = Capturer("actor", str(tmp_path))
    capturer.method = "fork"
    cell = SimpleNamespace(state=lambda: {"text": b"x" * 10_000}, instance=object())
    child = capturer.capture(cell)
    with pytest.raises(StateNotSerializable, match="cannot be spilled") as caught:
        child.wait(10.0)
    capturer.child_failed(caught.value)
    for _ in range(3):
        assert isinstance(capturer.capture(cell), Captured)
    monkeypatch.undo()
    with_room = capturer.capture(cell)
    assert isinstance(with_room, CaptureChild)
    assert with_room.wait(10.0).size > 10_000


def test_a_spill_that_is_not_as_it_was_written_is_no_state(tmp_path):
    spill = tmp_path / "spill"
    spill.write_bytes(b"stat")
    body = RecordBody("actor", None, Captured("pickle", (5,), spill=str(spill)), {}, {}, None)
    with pytest.raises(StoreUnavailable, match="has 4 bytes instead of 5"):
        _parts_of(body)
    assert not spill.exists()


def test_a_spill_that_lost_all_its_bytes_is_no_state(tmp_path):
    spill = tmp_path / "spill"
    spill.touch()
    with pytest.raises(OSError, match="has 0 bytes instead of 5"):
        read_spill(Captured("pickle", (5,), spill=str(spill)))
    assert not spill.exists()


def test_the_worker_asks_whether_it_must_stand_still_while_nobody_changes_it():
    """Other threads bring snapshots: a participant that grows while it is read would end the actor."""
    process = Process()

    class Watched(Participant):
        @property
        def paused(self):
            assert process.lock.locked()
            return super().paused

    process.runner.participant = Watched("alice")
    recording = SimpleNamespace(requested=[], captures={}, is_suspended=False)
    parts = {
        "runner": process.runner,
        "channels": process,
        "recording": recording,
        "is_there": None,
        "concluding": None,
        "tracing": None,
        "outside": SimpleNamespace(is_due=False),
    }
    parts |= {"name": "alice", "identity": SimpleNamespace(cautions={}, loops="kept")}
    parts["cell"] = SimpleNamespace(open_calls=[], parking=SimpleNamespace())
    Worker(SimpleNamespace(**parts))._do_what_waits()
    assert not process.lock.locked()


def find_no_room(_spill, _parts):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
