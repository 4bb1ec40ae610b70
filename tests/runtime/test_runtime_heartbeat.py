"""The beats of a life that its coordinator leaves, because the system goes back to a snapshot."""

from rayshot.log.heartbeat import last_heartbeat
from rayshot.log.log import CommitLog
from rayshot.log.system import make_system
from rayshot.places.kinds import open_store
from rayshot.runtime.coordinator import heartbeat
from rayshot.runtime.coordinator.heartbeat import HeartbeatThread
from tests.waiting import eventually


def test_it_beats_for_the_life_that_is_left_and_takes_the_next_one_for_no_rival(tmp_path, monkeypatch):
    monkeypatch.setattr(heartbeat, "LOOK_S", 0.02)
    store = open_store(str(tmp_path))
    make_system(store, "bank")
    epoch = CommitLog(store, "bank").begin_epoch(1, "before")
    fenced, rivals = [], []
    left = HeartbeatThread(str(tmp_path), "bank", epoch, fenced.append)
    other = HeartbeatThread(str(tmp_path), "bank", epoch, rivals.append)
    left.keep_beating()
    left.start()
    try:
        eventually(lambda: (beat := last_heartbeat(store, "bank")) is not None and beat.alive)
        after = CommitLog(store, "bank")
        after.refresh()
        after.begin_epoch(2, "after")
        other.start()
        eventually(lambda: rivals)
        assert left._thread.is_alive()
        assert not fenced
    finally:
        left.close()
        other.close()
    assert not left._thread.is_alive()
