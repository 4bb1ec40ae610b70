"""Values whose content is outside of them - files, shared memory, connections - are refused, with their path."""

# ruff: noqa: SIM115 - what closes the files is a fixture
import ctypes
import io
import multiprocessing
import os
import sys
import tempfile
import threading
import weakref
from multiprocessing.shared_memory import ShareableList, SharedMemory
from pathlib import Path
from types import SimpleNamespace

import pytest

from rayshot.errors import MessageNotSerializable, StateNotSerializable
from rayshot.format.pickling import dump_message, dump_state, load_state


class Log(io.TextIOWrapper):
    """A file of the user's own class."""


class Block(SharedMemory):
    """Shared memory of the user's own class."""


FILES = {
    "for reading": open,
    "for appending": lambda path: path.open("a"),
    "for both": lambda path: path.open("r+"),
    "of bytes": lambda path: path.open("rb"),
    "of bytes, for writing": lambda path: path.open("wb"),
    "of bytes, for both": lambda path: path.open("r+b"),
    "without a buffer": lambda path: path.open("rb", buffering=0),
    "of a subclass": lambda path: Log(path.open("rb")),
    "temporary": lambda _: tempfile.TemporaryFile("w+"),
    "temporary, of bytes": lambda _: tempfile.TemporaryFile(),
    "named, temporary": lambda _: tempfile.NamedTemporaryFile("w+"),
    "named, temporary, of bytes": lambda _: tempfile.NamedTemporaryFile(),
}


@pytest.fixture(params=FILES)
def file(request, tmp_path):
    path = tmp_path / "log"
    path.write_text("one\ntwo\n")
    with FILES[request.param](path) as file:
        yield file


@pytest.mark.acceptance("X4")
def test_an_open_file_in_a_state_is_refused_with_its_path(file):
    with pytest.raises(StateNotSerializable, match=r"alice\['state'\]\['log'\].* cannot be captured"):
        dump_state({"state": {"log": file}}, "alice")


@pytest.mark.acceptance("X4")
def test_an_open_file_deep_in_a_state_is_refused_with_its_path(file):
    state = {"state": {"sinks": [1, SimpleNamespace(file=file)], "code": lambda: 1}}
    with pytest.raises(StateNotSerializable, match=r"alice\['state'\]\['sinks'\]\[1\]\.file"):
        dump_state(state, "alice")


class Desk:
    """Holds methods of its own."""

    def note(self): ...


@pytest.mark.acceptance("S11")
@pytest.mark.parametrize("place", ["first", "last"])
def test_the_path_is_right_beside_what_refers_to_the_actor_itself(place):
    desk = Desk()
    own = {"calls": [desk.note], "me": desk}
    state = {"locks": {"first": threading.Lock()}}
    vars(desk).update({**own, **state} if place == "last" else {**state, **own})
    with pytest.raises(StateNotSerializable, match="make it again in on_restore") as caught:
        dump_state({"state": vars(desk)}, "alice", desk)
    assert caught.value.evidence["path"] == "alice['state']['locks']['first']"
    assert "need no lock among each other" in caught.value.message


@pytest.mark.acceptance("X4")
def test_an_open_file_in_a_message_is_refused_with_its_path(file):
    with pytest.raises(MessageNotSerializable, match=r"\.note\['kwargs'\]\['files'\]\[1\].* cannot be sent"):
        dump_message("note", (), {"files": [1, file]})


@pytest.mark.acceptance("X4")
def test_a_function_that_holds_an_open_file_is_refused_too(tmp_path):
    (tmp_path / "log").write_text("one")
    with (tmp_path / "log").open() as file, pytest.raises(StateNotSerializable, match=r"\['read'\].* it is a file"):
        dump_state({"state": {"read": lambda: len(file.read())}}, "alice")


@pytest.mark.acceptance("X4")
@pytest.mark.parametrize("text", ["", "one\ntwo"])
def test_files_in_memory_are_captured_as_they_are(text):
    files = io.StringIO(text), io.BytesIO(text.encode()), tempfile.SpooledTemporaryFile()
    for file in files:
        file.seek(len(text))
    for code in ((), (lambda: 1,)):  # by either pickler
        pickled = dump_state({"state": [*files, *code]}, "alice")
        in_text, in_bytes, spilled = load_state(pickled.stream)["state"][:3]
        assert (in_text.getvalue(), in_text.tell()) == (text, len(text))
        assert (in_bytes.getvalue(), in_bytes.tell()) == (text.encode(), len(text))
        assert spilled.tell() == len(text)


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_standard_stream_of_a_process_is_that_of_the_one_that_reads_the_state(name, monkeypatch):
    with Path(os.devnull).open("w") as recorded, Path(os.devnull).open("w") as there:
        monkeypatch.setattr(sys, name, recorded)
        stream = dump_state({"state": recorded}, "alice").stream
        monkeypatch.setattr(sys, name, there)
        assert load_state(stream)["state"] is there


@pytest.fixture(params=["SharedMemory", "a subclass", "ShareableList", "Connection", "an array of ctypes"])
def elsewhere(request):
    block = SharedMemory(create=True, size=100)
    values = ShareableList([1, 2])
    connections = multiprocessing.Pipe()
    yield {
        "SharedMemory": block,
        "a subclass": Block(block.name),
        "ShareableList": values,
        "Connection": connections[0],
        "an array of ctypes": (ctypes.c_int * 4)(1, 2, 3, 4),
    }[request.param]
    for owned in (block, values.shm):
        owned.close()
        owned.unlink()
    for connection in connections:
        connection.close()


@pytest.mark.acceptance("X1")
def test_what_a_pickle_would_hold_by_a_name_or_a_number_is_refused_with_its_path(elsewhere):
    with pytest.raises(
        StateNotSerializable, match=r"alice\['state'\]\[0\]\['there'\] cannot be captured: it is a"
    ) as caught:
        dump_state({"state": [{"there": elsewhere}]}, "alice")
    assert caught.value.evidence["path"] == "alice['state'][0]['there']"
    with pytest.raises(MessageNotSerializable, match=r"\.note\['args'\]\[0\] cannot be sent: it is a"):
        dump_message("note", (elsewhere,), {})


def test_a_text_that_names_shared_memory_is_none():
    state = {"state": ["multiprocessing.shared_memory", "multiprocessing.connection"]}
    assert load_state(dump_state(state, "alice").stream) == state


class Cleaned(tempfile.TemporaryDirectory):
    """Says by itself how it is pickled."""

    def __reduce__(self):
        return str, (self.name,)


@pytest.mark.acceptance("S11")
@pytest.mark.parametrize("code", [(), (lambda: 1,)], ids=["plain", "by value"])
def test_what_deletes_or_runs_something_at_an_objects_end_is_refused_with_its_path_and_the_hooks(code):
    desk = Desk()
    finalizer = weakref.finalize(desk, print)
    folder = tempfile.TemporaryDirectory()
    for value, place in ((folder, "a temporary folder"), (finalizer, "a finalizer")):
        with pytest.raises(StateNotSerializable, match=f"it is {place}.*on_restore.*on_rollback") as caught:
            dump_state({"state": {"code": code, "kept": [value]}}, "alice")
        assert caught.value.evidence["path"] == "alice['state']['kept'][0]"
    with pytest.raises(MessageNotSerializable, match="a temporary folder"):
        dump_message("note", (folder,), {})
    folder.cleanup()
    finalizer.detach()
    own = Cleaned()
    again = load_state(dump_state({"state": [own, finalizer]}, "alice").stream)["state"]
    assert (again[0], again[1].alive) == (own.name, False)
    own.cleanup()


@pytest.mark.acceptance("S11")
def test_a_temporary_folder_that_is_gone_may_stay_in_a_state():
    folder = tempfile.TemporaryDirectory()
    folder.cleanup()
    assert load_state(dump_state({"state": folder}, "alice").stream)["state"].name == folder.name
