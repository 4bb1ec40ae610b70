"""What is done about nodes that are drained; one that really is stands in test_runtime_nodes.py."""

import pytest
import ray

from rayshot.errors import SnapshotAborted
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.coordinator.drain_watch import DrainWatch


class Takes:
    """Takes snapshots, or fails as often as it is told."""

    def __init__(self, failures=0, error=SnapshotAborted):
        self.count = 0
        self._failures = failures
        self._error = error

    def __call__(self):
        self.count += 1
        if self.count <= self._failures:
            raise self._error("not now")
        return SnapshotId(1, "coordinator", self.count)


def test_one_snapshot_for_a_node_of_ours_and_none_for_others():
    take = Takes()
    watch = DrainWatch(lambda: {"ours", "also"}, take)
    watch.look({"theirs": 0})
    assert take.count == 0
    for _ in range(3):
        watch.look({"theirs": 0, "ours": 1_800_000_000_000})
    assert take.count == 1
    watch.look({"ours": 1_800_000_000_000, "also": 0})
    assert take.count == 2


@pytest.mark.parametrize("error", [SnapshotAborted, ray.exceptions.RaySystemError])
def test_a_snapshot_that_fails_is_taken_again_until_one_is_committed(error):
    take = Takes(failures=2, error=error)
    watch = DrainWatch(lambda: {"ours"}, take)
    for _ in range(5):
        watch.look({"ours": 0})
    assert take.count == 3


def test_a_node_that_stayed_and_is_drained_again_has_another_snapshot():
    take = Takes()
    watch = DrainWatch(lambda: {"ours"}, take)
    for draining in ({"ours": 0}, {}, {"ours": 0}):
        watch.look(draining)
    assert take.count == 2


def test_two_nodes_that_go_together_share_a_snapshot(caplog):
    take = Takes()
    DrainWatch(lambda: {"one", "two"}, take).look({"one": 0, "two": 0})
    assert take.count == 1
    assert "1-coordinator-1 is committed" in caplog.text
