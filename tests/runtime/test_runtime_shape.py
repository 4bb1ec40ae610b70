"""The one shape of the calls that begin a system, go on, go back and find it; nothing is begun in these tests."""

from pathlib import Path

import pytest

import rayshot
from rayshot import FailureConfig, SnapshotConfig
from rayshot.errors import ConfigError, SystemNotFound
from rayshot.protocol.identity import SnapshotId


def accounts(system):
    """Stands for what a program begins."""


OFTEN = SnapshotConfig(interval_s=2.0, num_to_keep=3)
OFTEN_SHOWN = "rayshot.SnapshotConfig(interval_s=2.0, num_to_keep=3)"
STOPS = FailureConfig(scope="stop")
FIRST = SnapshotId(1, "coordinator", 1)
OLD = [
    ("restore", ("./shots",), {}, "rayshot.restore(storage='./shots')"),
    ("restore", (Path("shots"),), {"config": OFTEN}, f"rayshot.restore(storage='shots', snapshots={OFTEN_SHOWN})"),
    ("restore", ("s3://b/shots",), {"system": "bank"}, "rayshot.restore('bank', storage='s3://b/shots')"),
    (
        "restore",
        ("shots",),
        {"snapshot": FIRST, "failure": STOPS, "system": "bank"},
        f"rayshot.restore('bank', storage='shots', snapshot='{FIRST}', failure=rayshot.FailureConfig(scope='stop'))",
    ),
    ("restore", (), {"storage": "shots", "system": "bank"}, "rayshot.restore('bank', storage='shots')"),
    ("restore", ("bank", "shots"), {}, "rayshot.restore('bank', storage='shots')"),
    ("restore", ("bank",), {}, "rayshot.restore('bank', storage=...)"),
    (
        "restore",
        ("bank",),
        {"storage": "shots", "snapshots": "1-coordinator-2"},
        "rayshot.restore('bank', storage='shots', snapshot='1-coordinator-2')",
    ),
    (
        "restore",
        ("bank",),
        {"storage": "shots", "snapshot": OFTEN},
        f"rayshot.restore('bank', storage='shots', snapshots={OFTEN_SHOWN})",
    ),
    (
        "init",
        ("bank",),
        {"storage": "shots", "snapshot": OFTEN},
        f"rayshot.init('bank', storage='shots', snapshots={OFTEN_SHOWN})",
    ),
    ("init", ("bank", Path("shots")), {"fresh": True}, "rayshot.init('bank', storage='shots', fresh=True)"),
    (
        "resume",
        ("bank",),
        {"snapshot": SnapshotConfig(), "begin": accounts, "storage": "shots", "takeover": True},
        "rayshot.resume('bank', storage='shots', begin=accounts, snapshots=rayshot.SnapshotConfig(), takeover=True)",
    ),
    ("attach", ("bank", "10.0.0.5:6379"), {}, "rayshot.attach('bank', address='10.0.0.5:6379')"),
    ("attach", ("bank",), {"storage": "shots"}, "rayshot.attach('bank')"),
    ("attach", ("bank", "./shots"), {}, "rayshot.attach('bank')"),
    ("attach", (None, "10.0.0.5:6379"), {}, "rayshot.attach(address='10.0.0.5:6379')"),
    (
        "restore",
        ("./shots", "1-coordinator-7"),
        {"system": "bank"},
        "rayshot.restore('bank', storage='./shots', snapshot='1-coordinator-7')",
    ),
    ("restore", ("./shots", FIRST), {}, f"rayshot.restore(storage='./shots', snapshot='{FIRST}')"),
    ("restore", ("./shots", OFTEN), {}, f"rayshot.restore(storage='./shots', snapshots={OFTEN_SHOWN})"),
    ("restore", ("./shots", "bank"), {}, "rayshot.restore('bank', storage='./shots')"),
    ("init", ("./shots", "bank", OFTEN), {}, f"rayshot.init('bank', storage='./shots', snapshots={OFTEN_SHOWN})"),
    (
        "init",
        ("bank", STOPS),
        {},
        "rayshot.init('bank', storage=..., failure=rayshot.FailureConfig(scope='stop'))",
    ),
    ("init", (Path("shots"), OFTEN), {}, f"rayshot.init(..., storage='shots', snapshots={OFTEN_SHOWN})"),
    ("resume", ("bank", "./shots", accounts), {}, "rayshot.resume('bank', storage='./shots', begin=accounts)"),
    ("resume", ("bank", accounts), {"storage": "shots"}, "rayshot.resume('bank', storage='shots', begin=accounts)"),
]


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch):
    for room in ("init", "resume", "from_snapshot"):
        monkeypatch.setattr(f"rayshot.runtime.opening.{room}.join_or_start", lambda: pytest.fail("Ray is started"))


@pytest.mark.parametrize(("verb", "args", "words", "line"), OLD, ids=[line for *_, line in OLD])
def test_a_call_of_another_shape_is_refused_with_the_line_to_write(verb, args, words, line):
    with pytest.raises(ConfigError) as raised:
        getattr(rayshot, verb)(*args, **words)
    assert raised.value.message.endswith(f"Write {line}")


def test_a_call_of_which_nobody_knows_what_is_meant_gets_no_line_to_write():
    with pytest.raises(TypeError, match="positional"):
        rayshot.init("bank", "./shots", "./others")


def test_a_restore_takes_the_name_first_as_all_others_do(tmp_path):
    with pytest.raises(SystemNotFound, match="'bank'"):
        rayshot.restore("bank", storage=tmp_path)
    with pytest.raises(SystemNotFound, match="holds no system"):
        rayshot.restore(storage=tmp_path)


def test_a_storage_that_is_a_file_is_refused_before_ray_is_started(tmp_path):
    (tmp_path / "file").write_text("")
    for begin in (
        lambda: rayshot.init("bank", storage=tmp_path / "file"),
        lambda: rayshot.resume("bank", storage=tmp_path / "file", begin=accounts),
        lambda: rayshot.restore("bank", storage=tmp_path / "file"),
        lambda: rayshot.open(tmp_path / "file"),
    ):
        with pytest.raises(ConfigError, match=r"/file is a file, and a storage is a folder"):
            begin()
