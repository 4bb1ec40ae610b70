import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rayshot.errors import AlreadyExists, ConfigError, KeyNotFound, StoreFull, StoreUnavailable, UnsafePath
from rayshot.places.local import TEMPORARY_PREFIX, LocalStore

CONTENT = b"x" * 100_000


def all_files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def failing(call: Callable[..., Any], at: int, code: int) -> Callable[..., Any]:
    calls = 0

    def fail_once(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == at:
            raise OSError(code, os.strerror(code))
        return call(*args, **kwargs)

    return fail_once


def test_foreign_files_whose_names_are_no_keys_are_left_out_of_listings(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.create("leases/one", b"x")
    for name in (".hidden", "one (1)", "ein Stück"):
        (tmp_path / "leases" / name).write_bytes(b"foreign")
    (tmp_path / "a folder").mkdir()
    assert [entry.key for entry in store.list()] == ["leases/one"]
    assert [entry.key for entry in store.list("leases")] == ["leases/one"]
    assert [entry.key for entry in store.list(shallow=True)] == ["leases/"]


@pytest.mark.acceptance("D7")
@pytest.mark.parametrize("verb", ["write", "fsync", "link", "open"])
def test_a_full_disk_leaves_nothing_behind_and_says_what_did_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    store = LocalStore(tmp_path)
    store.create("bank/old", b"old")
    store.create("bank/older", b"older")  # folders are known to be durable now: the next fsync is the file's
    with monkeypatch.context() as patch:
        patch.setattr(os, verb, failing(getattr(os, verb), 1, errno.ENOSPC))
        with pytest.raises(StoreFull, match="100,000 bytes") as caught:
            store.create("bank/new", [CONTENT[:70_000], CONTENT[70_000:]])
    assert caught.value.evidence == {"path": str(tmp_path / "bank/new"), "bytes": 100_000}
    assert all_files(tmp_path) == ["bank/old", "bank/older"]
    store.create("bank/new", CONTENT)
    assert store.read("bank/new") == CONTENT


@pytest.mark.acceptance("D7")
def test_a_disk_that_fills_up_in_mid_object_leaves_no_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", failing(lambda fd, view, write=os.write: write(fd, view[:1000]), 50, errno.ENOSPC))
        with pytest.raises(StoreFull):
            store.create("a", CONTENT)
    assert all_files(tmp_path) == []


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, view: write(fd, view[:777]))
    store = LocalStore(tmp_path)
    store.create("a", [b"12", CONTENT, b"34"])
    assert store.read("a") == b"12" + CONTENT + b"34"


@pytest.mark.acceptance("D8")
def test_the_file_is_synced_before_it_gets_its_name_and_every_folder_above_it_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync, link = os.fsync, os.link
    story: list[str] = []

    def note_sync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        story.append(
            "sync temporary" if path.name.startswith(TEMPORARY_PREFIX) else f"sync {path.relative_to(tmp_path)}"
        )
        fsync(descriptor)

    def note_link(source: Any, target: Any) -> None:
        story.append("link")
        link(source, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "link", note_link)
    store = LocalStore(tmp_path / "shots")
    store.create("bank/log/0", b"x")
    store.create("bank/log/1", b"x")
    assert story == [
        "sync .",
        "sync shots",
        "sync shots/bank",
        "sync temporary",
        "link",
        "sync shots/bank/log",
        "sync temporary",
        "link",
        "sync shots/bank/log",
    ]


@pytest.mark.acceptance("D8")
def test_a_name_that_could_not_be_synced_is_not_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    store.create("old", b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing(os.fsync, 2, errno.EIO))
        with pytest.raises(StoreUnavailable, match="power loss"):
            store.create("new", b"new")
    with pytest.raises(AlreadyExists):
        store.create("new", b"new")
    assert all_files(tmp_path) == ["new", "old"]


@pytest.mark.acceptance("D8")
def test_that_a_key_is_taken_is_not_said_before_its_name_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may have given it the name just now, and a power loss could take it back."""
    store = LocalStore(tmp_path)
    store.create("key", b"old")
    synced, fsync = [], os.fsync

    def note(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    with pytest.raises(AlreadyExists):
        store.create("key", b"new")
    assert synced[-1] == tmp_path


@pytest.mark.acceptance("D2")
@pytest.mark.parametrize("at", range(1, 7))
def test_a_writer_killed_at_any_call_leaves_the_object_whole_or_absent(tmp_path: Path, at: int) -> None:
    program = f"""
import os, sys
from rayshot.places.local import LocalStore
calls = 0
def deadly(call):
    def run(*args, **kwargs):
        global calls
        calls += 1
        if calls == {at}:
            os._exit(9)
        return call(*args, **kwargs)
    return run
for name in ("mkdir", "write", "fsync", "link"):
    setattr(os, name, deadly(getattr(os, name)))
LocalStore({str(tmp_path)!r}).create("bank/a", [b"1" * 1000, b"2" * 1000])
"""
    ended = subprocess.run([sys.executable, "-c", program], check=False, cwd=Path(__file__).parents[2])
    assert ended.returncode == 9
    store = LocalStore(tmp_path)
    assert [(entry.key, entry.size) for entry in store.list()] in ([], [("bank/a", 2000)])
    try:
        store.create("bank/a", b"again")
    except AlreadyExists:
        assert store.read("bank/a") == b"1" * 1000 + b"2" * 1000


@pytest.mark.acceptance("G10")
def test_a_symbolic_link_out_of_the_folder_is_refused_by_every_verb(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    store = LocalStore(tmp_path / "shots")
    store.create("bank/a", b"x")
    (tmp_path / "shots/bank/chunks").symlink_to(outside)
    (tmp_path / "shots/bank/manifest").symlink_to(outside / "secret")
    verbs: list[Callable[[], object]] = [
        lambda: store.read("bank/chunks/secret"),
        lambda: store.read("bank/manifest"),
        lambda: store.read_range("bank/manifest", 0, 1),
        lambda: store.create("bank/chunks/new", b"x"),
        lambda: store.delete("bank/chunks/secret"),
        lambda: list(store.list("bank")),
        lambda: list(store.list("bank/chunks")),
    ]
    for verb in verbs:
        with pytest.raises(UnsafePath):
            verb()
    assert all_files(outside) == ["secret"]


@pytest.mark.parametrize("verb", ["read", "read_range", "list"])
def test_a_named_pipe_in_the_place_of_an_object_is_refused_and_not_waited_for(tmp_path: Path, verb: str) -> None:
    os.mkfifo(tmp_path / "a")
    call = {"read": "store.read('a')", "read_range": "store.read_range('a', 0, 1)", "list": "print(list(store.list()))"}
    program = (
        "import sys; from rayshot.errors import UnsafePath; from rayshot.places.local import LocalStore\n"
        f"store = LocalStore(sys.argv[1])\ntry: {call[verb]}\nexcept UnsafePath as error: print(error)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], check=True, capture_output=True, text=True, timeout=30
    )
    refused = f"{tmp_path / 'a'} is not a regular file; it is not read"
    assert ended.stdout.strip() == ("[]" if verb == "list" else refused)


def test_the_folder_itself_may_be_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "shots").symlink_to(tmp_path / "disk")
    LocalStore(tmp_path / "shots").create("a", b"x")
    assert (tmp_path / "disk/a").read_bytes() == b"x"


def test_a_folder_that_cannot_be_looked_at_is_not_said_to_be_missing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / ("x" * 300))
    with pytest.raises(StoreUnavailable, match="name too long"):
        store.is_there()
    with pytest.raises(StoreUnavailable, match="name too long"):
        list(store.list())
    with pytest.raises(ConfigError, match="cannot be made"):
        store.check()
    assert not LocalStore(tmp_path / "x").is_there()


def test_check_makes_the_folder(tmp_path: Path) -> None:
    LocalStore(tmp_path / "a/b").check()
    assert (tmp_path / "a/b").is_dir()


@pytest.mark.acceptance("G25")
@pytest.mark.parametrize(("verb", "code"), [("open", errno.EROFS), ("write", errno.EACCES), ("link", errno.EPERM)])
def test_check_refuses_a_folder_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, code: int
) -> None:
    monkeypatch.setattr(os, verb, failing(getattr(os, verb), 1, code))
    with pytest.raises(ConfigError, match="cannot be written"):
        LocalStore(tmp_path).check()
    assert all_files(tmp_path) == []


def test_a_folder_that_another_program_makes_at_this_moment_is_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, seen = Path.is_dir, []

    def made_behind_the_second_look(path: Path) -> bool:
        seen.append(looks(path))
        if len(seen) == 2:
            os.mkdir(tmp_path / "shots")  # noqa: PTH102 - Path's would look again
        return seen[-1]

    monkeypatch.setattr(Path, "is_dir", made_behind_the_second_look)
    assert list(LocalStore(tmp_path / "shots").list()) == []


@pytest.mark.acceptance("G25")
@pytest.mark.parametrize("verb", [LocalStore.check, LocalStore.is_there, lambda store: list(store.list())])
def test_a_file_in_the_place_of_the_folder_or_above_it_is_named(
    tmp_path: Path, verb: Callable[[LocalStore], Any]
) -> None:
    (tmp_path / "file").write_bytes(b"")
    for place in ("file", "file/shots"):
        with pytest.raises(ConfigError, match=r"/file is a file, and a storage is a folder"):
            verb(LocalStore(tmp_path / place))


@pytest.mark.acceptance("D9")
def test_check_refuses_a_disk_whose_links_overwrite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", lambda source, target: Path(target).write_bytes(Path(source).read_bytes()))
    with pytest.raises(ConfigError, match="overwrites"):
        LocalStore(tmp_path).check()


def test_check_removes_what_killed_writers_left_and_nothing_younger(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.create("bank/a", b"x")
    old, young = tmp_path / f"bank/{TEMPORARY_PREFIX}1", tmp_path / f"bank/{TEMPORARY_PREFIX}2"
    old.write_bytes(b"part")
    young.write_bytes(b"part")
    os.utime(old, (time.time() - 7200,) * 2)
    store.check()
    assert all_files(tmp_path) == [f"bank/{TEMPORARY_PREFIX}2", "bank/a"]
    assert [entry.key for entry in store.list()] == ["bank/a"]


def test_an_object_in_the_place_of_a_folder_is_no_proof_that_the_key_is_taken(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.create("a", b"x")
    with pytest.raises(StoreUnavailable):
        store.create("a/b", b"x")
    with pytest.raises(KeyNotFound):
        store.read("a/b")
