"""The folder of an actor's files for one snapshot: sealed, compared, and read in parts, on a disk and on S3."""

import os
import socket
import uuid
from pathlib import Path

import pytest
from blake3 import blake3

from rayshot.errors import BadManifest, CorruptFile, LimitExceeded, MissingFile, UnsafePath
from rayshot.format.entries import OutsideFile
from rayshot.places.kinds import below, open_store
from rayshot.places.local import LocalStore
from rayshot.places.memory import MemoryStore
from rayshot.places.store import Store
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots import outside
from rayshot.snapshots.outside import ActorFolder

SNAPSHOT = SnapshotId(1, "coordinator", 3)
CONTENTS = {".metadata": b"", "rank 0/shard.pt": b"zero" * 1000, "rank 1/shard.pt": b"one"}


@pytest.fixture(params=["disk", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "disk":
        return LocalStore(tmp_path / "shots")
    return open_store(request.getfixturevalue("s3").address(f"outside/{uuid.uuid4().hex}"))


def put(folder: ActorFolder, contents: dict[str, bytes]) -> None:
    for path, content in contents.items():
        folder.store.write(f"{folder.key}/{path}", [content], len(content))


def sealed(store: Store, contents: dict[str, bytes] = CONTENTS) -> ActorFolder:
    folder = ActorFolder(store, "bank", SNAPSHOT, "alice")
    put(folder, contents)
    folder.seal()
    return folder


def test_a_sealed_folder_has_size_and_digest_of_each_file_and_fits_them(store, monkeypatch):
    monkeypatch.setattr(outside, "PART_BYTES", 7)
    folder = sealed(store)
    assert folder.files == tuple(OutsideFile(p, len(c), blake3(c).hexdigest()) for p, c in sorted(CONTENTS.items()))
    told = []
    again = ActorFolder(store.url, "bank", SNAPSHOT, "alice", folder.files)
    again.verify(progress=told.append)
    assert sum(told) == folder.size_bytes == 4003
    assert again.is_seen


def test_another_snapshot_and_another_actor_have_other_folders(store):
    sealed(store)
    for other in (
        ActorFolder(store, "bank", SNAPSHOT, "bob"),
        ActorFolder(store, "bank", SNAPSHOT._replace(counter=30), "alice"),
    ):
        assert other.seal() == ()


@pytest.mark.parametrize(("content", "error"), [(None, MissingFile), (b"on", CorruptFile), (b"one.", CorruptFile)])
def test_a_missing_file_and_one_of_another_size_are_found_without_reading(store, content, error):
    folder = sealed(store)
    key = f"{folder.key}/rank 1/shard.pt"
    store.delete(key) if content is None else store.write(key, [content], len(content))
    for compare in (folder.check, folder.verify):
        with pytest.raises(error, match=r"rank 1/shard\.pt") as raised:
            compare()
        assert raised.value.evidence == {"actor": "alice", "path": "rank 1/shard.pt"}


def test_changed_bytes_are_found_by_reading_and_by_who_takes_the_file(store):
    folder = sealed(store)
    store.write(f"{folder.key}/rank 1/shard.pt", [b"eno"], 3)
    folder.check()
    with pytest.raises(CorruptFile, match="digest"):
        folder.verify()
    folder.verify(folder.files[:2])
    with pytest.raises(CorruptFile, match="digest"):
        b"".join(folder.proved(folder.files[2]))


def test_a_file_that_changes_while_it_is_read_is_refused():
    class Restless(MemoryStore):
        def read_range(self, key: str, start: int, length: int) -> bytes:
            content = super().read_range(key, start, length)
            self.write(key, [b"zwei"], 4)
            return content

    with pytest.raises(CorruptFile, match="changed while rayshot read it"):
        sealed(Restless(), {"a": b"eins"})


def test_a_file_that_comes_while_others_are_read_is_refused():
    class Growing(MemoryStore):
        def read_range(self, key: str, start: int, length: int) -> bytes:
            self.write(f"{key}.more", [b"x"], 1)
            return super().read_range(key, start, length)

    with pytest.raises(CorruptFile, match=r"a\.more changed while"):
        sealed(Growing(), {"a": b"eins"})


def test_a_file_that_is_a_folder_too_and_too_many_files_are_refused(monkeypatch):
    with pytest.raises(BadManifest, match="as a folder"):
        sealed(MemoryStore(), {"a": b"x", "a/b": b"x"})
    monkeypatch.setattr("rayshot.format.entry_checks.OUTSIDE_FILES_MAX", 1)
    with pytest.raises(LimitExceeded):
        sealed(MemoryStore())


def link(path: Path) -> None:
    path.symlink_to("a")


def link_out(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def link_of_folder(path: Path) -> None:
    path.symlink_to("..", target_is_directory=True)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(path))


def strange(path: Path) -> None:
    path.with_name("new\nline").touch()


def temporary(path: Path) -> None:
    path.with_name(".rayshot-1").touch()


@pytest.mark.parametrize("make", [link, link_out, link_of_folder, pipe, bind, strange, temporary])
def test_what_is_not_a_regular_file_or_has_an_unfit_name_is_refused_and_yet_cleared(tmp_path, monkeypatch, make):
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    folder = ActorFolder(LocalStore("s"), "bank", SNAPSHOT, "alice")
    there = Path(folder.open())
    (there / "a").write_bytes(b"x")
    make(Path(os.path.relpath(there / "odd")))
    with pytest.raises(UnsafePath):
        folder.seal()
    assert [entry.key for entry in folder.store.list("bank")] == [f"{folder.key}/a"]
    folder.store.clear("bank/outside/1-coordinator-3")
    assert not there.parent.exists()
    assert there.parent.parent.exists()


def test_a_file_that_became_a_link_to_another_is_missing(tmp_path):
    folder = sealed(LocalStore(tmp_path))
    there = Path(folder.address) / "rank 1"
    (there / "shard.pt").rename(tmp_path / "elsewhere")
    (there / "shard.pt").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(MissingFile):
        folder.check()


def test_empty_folders_do_not_count(tmp_path):
    folder = ActorFolder(LocalStore(tmp_path), "bank", SNAPSHOT, "alice")
    (Path(folder.open()) / "refs" / "heads").mkdir(parents=True)
    assert folder.seal() == ()


def test_files_and_their_names_are_synced_when_they_are_sealed(tmp_path, monkeypatch):
    synced = set()
    original = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda file: (synced.add(str(Path(f"/proc/self/fd/{file}").readlink())), original(file))
    )
    folder = ActorFolder(LocalStore(tmp_path / "shots"), "bank", SNAPSHOT, "alice")
    there = Path(folder.open())
    (there / "deep" / "er").mkdir(parents=True)
    (there / "deep" / "er" / "f").write_bytes(b"x")
    folder.seal()
    wanted = [there / "deep" / "er" / "f", there / "deep" / "er", there / "deep", there, *list(there.parents)[:4]]
    assert {str(path) for path in wanted} <= synced


def test_a_root_where_nothing_is_counts_as_not_seen(tmp_path, s3):
    for root in (tmp_path / "gone", tmp_path, "ftp://x", "s3://no-such-bucket/x?retries=0&timeout_s=2"):
        assert not ActorFolder(str(root), "bank", SNAPSHOT, "alice").is_seen


def test_the_address_of_a_folder_is_a_path_or_has_no_options(tmp_path):
    assert (
        ActorFolder(str(tmp_path), "bank", SNAPSHOT, "a:b").address == f"{tmp_path}/bank/outside/1-coordinator-3/_a_3ab"
    )
    s3 = ActorFolder("s3://buck/c?endpoint=http://127.0.0.1:1", "bank", SNAPSHOT, "a")
    assert s3.address == s3.open() == "s3://buck/c/bank/outside/1-coordinator-3/a"
    assert ActorFolder("ftp://x", "bank", SNAPSHOT, "a").address == "ftp://x/bank/outside/1-coordinator-3/a"


def test_the_address_below_another_keeps_its_options(tmp_path):
    assert below("s3://buck/c?endpoint=http://127.0.0.1:1", "7f") == "s3://buck/c/7f?endpoint=http://127.0.0.1:1"
    assert below("s3://buck", "7f") == "s3://buck/7f"
    assert below(str(tmp_path), "7f") == f"file://{tmp_path}/7f"
    assert below("memory://x", "7f") == "memory://x-7f"
