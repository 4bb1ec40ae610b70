"""An actor's share of snapshots, where it ends in an awkward moment."""

import os
import subprocess
import threading
from types import SimpleNamespace

import pytest

from rayshot.protocol.cut import Record
from rayshot.protocol.effects import ForgetSnapshot
from rayshot.protocol.events import Begun, DeadlinePassed
from rayshot.protocol.identity import COORDINATOR, SnapshotId
from rayshot.protocol.participant import Participant
from rayshot.runtime.capture import CaptureChild, Captured
from rayshot.runtime.recording import Recording
from rayshot.runtime.reports import RecordBody, RecordReport

SNAPSHOT = SnapshotId(1, COORDINATOR, 1)


def test_what_a_child_spooled_just_before_its_snapshot_was_given_up_is_removed(tmp_path):
    lock = threading.Lock()
    process = SimpleNamespace(
        name="actor",
        lock=lock,
        wake=threading.Condition(lock),
        participant=Participant("actor"),
        identity=SimpleNamespace(recorder_timeout_s=60.0),
        captures={},
        channels={},
        down=None,
    )
    recording = Recording(process)
    spool = tmp_path / "spool"
    spool.write_bytes(b"state")
    child = SimpleNamespace(wait=lambda _: Captured("pickle", (5,), spool=str(spool)), age_s=0.0, cancel=lambda: None)
    process.participant.handle(Begun(SNAPSHOT))
    recording.learned(SNAPSHOT)
    recording._children[SNAPSHOT] = child
    with lock:  # the child has ended, and its thread waits for the lock
        assert process.participant.handle(DeadlinePassed(SNAPSHOT)) == (ForgetSnapshot(SNAPSHOT),)
        recording.carry_out(ForgetSnapshot(SNAPSHOT))
    body = RecordBody("actor", None, None, {}, {}, None)
    recording._report_from_child(child, RecordReport(Record(SNAPSHOT, "actor"), 0.0, body))
    assert not spool.exists()
    assert recording.fetch(SNAPSHOT) == (None, None)


def test_a_spool_that_a_hanging_child_makes_when_its_time_is_up_is_removed(tmp_path, monkeypatch):
    spool = tmp_path / "spool"
    read_end, write_end = os.pipe()
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        child = CaptureChild(sleeper.pid, read_end, spool)
        kill = child._kill
        monkeypatch.setattr(child, "_kill", lambda: (spool.write_bytes(b"late"), kill()))
        with pytest.raises(TimeoutError):
            child.wait(0.0)
    os.close(write_end)
    assert not spool.exists()
