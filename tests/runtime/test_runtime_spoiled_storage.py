"""Storages that are spoiled, before a system begins or while it runs: damage is no emptiness, and no defect."""

import shutil

import pytest
import ray

import rayshot
from rayshot.errors import LogLost, SnapshotAborted
from tests.runtime.workloads import Account

pytestmark = pytest.mark.ray


def files_of(folder):
    return {path for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def shots(tmp_path):
    return tmp_path / "shots"


@pytest.mark.acceptance("X6")
def test_nobody_begins_resumes_or_restores_a_system_whose_log_is_gone(new_system, shots):
    system = new_system("bank")
    Account.options(name="alice").remote(1)
    system.snapshot()
    system.shutdown()
    shutil.rmtree(shots / "bank/log")
    there = files_of(shots)
    for door in (
        lambda: rayshot.init("bank", storage=shots),
        lambda: rayshot.init("bank", storage=shots, fresh=True),
        lambda: rayshot.resume("bank", storage=shots, begin=print),
        lambda: rayshot.resume("bank", storage=shots, begin=print, takeover=True),
        lambda: rayshot.restore(shots),
    ):
        with pytest.raises(LogLost, match="the newest backup of bank/log/"):
            door()
    assert files_of(shots) == there
    assert not [
        one for one in ray.util.list_named_actors(all_namespaces=True) if one["name"].startswith("rayshot/bank")
    ]


@pytest.mark.acceptance("X6")
def test_a_snapshot_behind_a_log_that_is_gone_is_no_defect_and_nothing_is_written_to_the_log(new_system, shots):
    system = new_system("bank")
    Account.options(name="alice").remote(1)
    system.snapshot()
    shutil.rmtree(shots / "bank/log")
    with pytest.raises(SnapshotAborted, match="the newest backup of bank/log/") as caught:
        system.snapshot()
    assert caught.value.evidence["reason"] == "store_unavailable"
    assert not (shots / "bank/log").exists()
