"""The reader that knows nothing but the documented layout reads real snapshots, and is not fooled."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from rayshot.keys.encryption import EncryptionKey
from rayshot.log.layout import log_key
from rayshot.log.log import CommitLog
from rayshot.log.records import DeleteRecord, ExpireRecord, Record, encode_record
from rayshot.places.local import LocalStore
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.snapshot import Snapshot
from rayshot.snapshots.upkeep.copying import copy_snapshot
from tests.snapshots.snapshot_builder import Bank, Flow, delete, large, make_snapshot, open_bank

READER = Path(__file__).parents[2] / "examples" / "read_snapshot.py"
STATES = {"alice": {"text": large("a long state ")}, "bob": {"balance": 1}}
FLOWS = {("alice", "bob"): Flow(sent=5, arrived=4, received=2), ("driver:main", "alice"): Flow(sent=3, received=3)}


def read(folder: Path, system: str = "bank") -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, READER, folder, system]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env={})


@pytest.fixture
def stored(tmp_path: Path) -> tuple[Path, Snapshot]:
    """A folder with three snapshots, of which the last one is deleted."""
    repository = open_bank(LocalStore(tmp_path))
    made = [make_snapshot(repository, Bank(states=STATES, flows=FLOWS), counter) for counter in (1, 2, 3)]
    delete(repository, made[-1].id)
    return tmp_path, made[1]


def test_it_fits_on_a_page_and_needs_nothing_of_rayshot() -> None:
    lines = READER.read_text().splitlines()
    assert len(lines) <= 72
    imported = {line.split()[1].split(".")[0] for line in lines if line.startswith(("import ", "from "))}
    assert imported - sys.stdlib_module_names == {"msgpack", "zstandard", "blake3"}


def test_without_arguments_it_says_in_one_line_which_it_takes() -> None:
    done = subprocess.run([sys.executable, READER], capture_output=True, text=True, check=False, timeout=60, env={})
    assert (done.returncode, done.stderr) == (1, "usage: read_snapshot.py FOLDER SYSTEM\n")


def test_it_proves_the_newest_snapshot_and_prints_what_is_in_flight(stored: tuple[Path, Snapshot]) -> None:
    folder, snapshot = stored
    done = read(folder)
    assert done.returncode == 0, done.stderr
    key = snapshot.envelope.key_id
    assert done.stdout.splitlines() == [
        f"1-coordinator-2: {len(snapshot.manifest.chunks)} chunks intact, signed: hmac-sha256 {key}",
        "  alice -> bob  3: deposit(30)",
        "  alice -> bob  4: deposit(40)",
        "  alice -> bob  5: deposit(50)",
        "proved: a consistent cut of 2 actors and 2 channels",
    ]


@pytest.mark.parametrize("what", ["manifest", "chunk", "record", "log"])
def test_it_sees_a_flipped_byte_and_a_missing_record(stored: tuple[Path, Snapshot], what: str) -> None:
    folder, snapshot = stored
    paths = {
        "manifest": folder / "bank" / snapshot.record.manifest_key,
        "chunk": folder / "bank" / snapshot.manifest.chunks[0].key,
        "record": folder / "bank" / "log" / f"{0:020}",
        "log": folder / "bank" / "log" / f"{1:020}",
    }
    path = paths[what]
    path.chmod(0o600)
    data = path.read_bytes()
    path.unlink()
    if what != "log":
        path.write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])
    assert read(folder).returncode != 0


def proved(folder: Path) -> str:
    done = read(folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.split(":")[0]


def test_it_finds_the_newest_snapshot_whatever_else_the_log_says(tmp_path: Path) -> None:
    repository = open_bank(LocalStore(tmp_path))
    made = [make_snapshot(repository, Bank(states=STATES, flows=FLOWS), counter) for counter in (1, 2, 3)]
    (tmp_path / "bank" / "log" / ".rayshot-left-by-a-kill").write_bytes(b"half")
    assert proved(tmp_path) == "1-coordinator-3"
    repository.log.delete("a person", made[2].id)
    assert proved(tmp_path) == "1-coordinator-2"
    lost = SnapshotId(1, "coordinator", 9)
    repository.log.append_next(lambda _, position: ExpireRecord(position, "gc", lost))
    assert proved(tmp_path) == "1-coordinator-2"
    successor = open_bank(LocalStore(tmp_path), "w2")
    successor.note_restore(SnapshotId(7, "coordinator", 7), "s3://elsewhere", claimed=False)
    assert proved(tmp_path) == "1-coordinator-2"
    position = successor.log.next_position
    append_blindly(tmp_path, DeleteRecord(position, "w1", made[1].id))  # of a coordinator that was taken over
    append_blindly(tmp_path, replace(made[2].record, position=position + 1))  # the same, and deleted
    assert proved(tmp_path) == "1-coordinator-2"


def test_it_knows_a_life_that_the_system_began_by_itself(tmp_path: Path) -> None:
    repository = open_bank(LocalStore(tmp_path), "w1")
    make_snapshot(repository, Bank(), 1)
    epoch = repository.log.epoch
    assert epoch is not None
    repository.log.roll_back(epoch, "w2", began_at=3.5, actor="bob", detail="bob died")
    assert proved(tmp_path) == "1-coordinator-1"
    make_snapshot(repository, Bank(), 1)
    assert proved(tmp_path) == "2-coordinator-1"


def append_blindly(folder: Path, record: Record) -> None:
    LocalStore(folder).create(log_key("bank", record.position), encode_record(record))


def test_it_reads_a_copy_and_one_that_was_copied_again_after_it_was_deleted(
    stored: tuple[Path, Snapshot], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, snapshot = stored
    there = tmp_path_factory.mktemp("there")
    for _ in range(2):
        copy = copy_snapshot(LocalStore(folder), LocalStore(there), snapshot)
        assert proved(there) == "1-coordinator-2"
        CommitLog(LocalStore(there), "bank").delete("a person", copy.id)


def test_it_says_of_an_encrypted_snapshot_that_it_is_one(tmp_path: Path) -> None:
    make_snapshot(open_bank(LocalStore(tmp_path), keys=[EncryptionKey(b"e" * 32)]))
    assert read(tmp_path).stderr.endswith("AssertionError: the snapshot is encrypted\n")
