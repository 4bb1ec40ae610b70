"""States in memory that a fork does not copy: what a snapshot holds is what the actor had when it recorded."""

import mmap
import os
import signal
import subprocess
import sys
from concurrent import futures
from multiprocessing.shared_memory import SharedMemory
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import ray

from rayshot.errors import MessageNotSerializable, SnapshotAborted, StateNotSerializable
from rayshot.format.pickling import load_state
from rayshot.runtime.door.shared_memory import take_shared_memory_away
from rayshot.runtime.node import capture
from rayshot.runtime.node.capture import CaptureChild, Captured, Capturer
from tests.runtime.zero_copy import Keeper, Mapper
from tests.waiting import eventually

SIZE = 20_000


@pytest.mark.wide("slow")
@pytest.mark.ray
@pytest.mark.acceptance("X1")
@pytest.mark.parametrize("how", ["fork", "auto"])
def test_an_array_that_is_dropped_while_a_child_reads_it_is_recorded_though_others_fill_the_object_store(tmp_path, how):
    command = [sys.executable, "-m", "tests.runtime.crowded_object_store", str(tmp_path), how]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert "recorded [7] beside 8 others" in run.stdout, run.stdout + run.stderr
    assert "then there was room for two" in run.stdout, run.stdout + run.stderr


@pytest.mark.ray
@pytest.mark.acceptance("X1")
def test_whatever_is_read_of_the_object_store_is_held_for_a_child_that_can_read_it(system):
    keeper = Keeper.options(name="keeper", capture="fork").remote()
    ray.get(keeper.fetch_all.remote())
    state = system.snapshot().states()["keeper"]
    assert state["forked"]
    numbers = np.arange(100_000)
    assert np.array_equal(state["nested"].attributes["content"]["deep"][1]["array"], numbers)
    assert np.array_equal(state["strided"], numbers[::2])
    assert np.array_equal(state["small"], numbers[:3])
    assert np.array_equal(state["by_thread"], numbers)
    ray.get(keeper.forget_all.remote())
    assert eventually(lambda: ray.get(keeper.held.remote()) == 0)


@pytest.mark.ray
@pytest.mark.acceptance("X1")
def test_a_mapped_file_is_recorded_as_it_was_however_a_later_handler_writes_into_it(system, tmp_path):
    file = tmp_path / "numbers"
    file.write_bytes(bytes([7]) * SIZE)
    mapper = Mapper.options(name="mapper", capture="fork").remote()
    mapper.wait_in_child.tell(str(tmp_path))
    ray.get(mapper.map.remote(str(file)))
    with futures.ThreadPoolExecutor() as photographer:
        taken = photographer.submit(system.snapshot)
        eventually((tmp_path / "reached").exists, 30.0)
        ray.get(mapper.write.remote(9))
        (tmp_path / "open").touch()
        with pytest.raises(SnapshotAborted, match="captured inline from now on"):
            taken.result()
    for value in (9, 7):
        ray.get(mapper.write.remote(value))
        assert np.array_equal(system.snapshot().states()["mapper"]["numbers"], np.full(SIZE, value))


@pytest.mark.ray
@pytest.mark.acceptance("X4")
@pytest.mark.parametrize("how", ["fork", "auto", "inline"])
def test_an_actor_that_keeps_an_open_file_is_refused_by_its_path_until_it_is_closed(system, tmp_path, how):
    (tmp_path / "log").write_text("one\n")
    mapper = Mapper.options(name="mapper", capture=how).remote()
    mapper.open.tell(str(tmp_path / "log"))
    ray.get(mapper.read.remote())
    with pytest.raises(SnapshotAborted, match=r"mapper\['state'\]\['log'\]\['file'\] cannot be captured"):
        system.snapshot()
    mapper.close.tell()
    ray.get(mapper.read.remote())
    assert system.snapshot().states() == {"mapper": {"log": {}}}


@pytest.mark.ray
@pytest.mark.acceptance("X4")
def test_an_open_file_is_sent_to_nobody(system, tmp_path):
    (tmp_path / "log").write_text("one\n")
    alice, bob = (Mapper.options(name=name).remote() for name in ("alice", "bob"))
    with (tmp_path / "log").open() as file, pytest.raises(MessageNotSerializable, match=r"\.take\['args'\]\[0\]"):
        alice.take.tell(file)
    with pytest.raises(MessageNotSerializable, match=r"\.take\['args'\]\[0\]\[0\]"):
        ray.get(alice.send.remote(bob, str(tmp_path / "log")))
    assert system.snapshot().states() == {"alice": {}, "bob": {}}


@pytest.mark.ray
@pytest.mark.acceptance("X1")
def test_shared_memory_in_an_object_that_a_state_refers_to_is_refused(system):
    mapper = Mapper.options(name="mapper").remote()
    ray.get(mapper.put_block.remote())
    with pytest.raises(SnapshotAborted, match=r"mapper\['state'\]\['put'\] cannot be stored: it is a block") as caught:
        system.snapshot()
    assert caught.value.evidence["reason"] == "object_missing"
    ray.get(mapper.remove_block.remote())


def mapped(path, access=mmap.ACCESS_WRITE):
    path.write_bytes(bytes([7]) * SIZE)
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), 0, access=access)


def mapped_table(path):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, pa.schema({"n": pa.uint8()})) as writer:
        writer.write_table(pa.table({"n": np.full(SIZE, 7, np.uint8)}))
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def in_block(block):
    array = np.ndarray(SIZE, np.uint8, buffer=block.buf)
    array[:] = 7
    return array


def anonymous():
    array = np.frombuffer(mmap.mmap(-1, SIZE), np.uint8)
    array[:] = 7
    return array


@pytest.fixture
def block():
    block = SharedMemory(create=True, size=SIZE)
    yield block
    block.unlink()


@pytest.fixture(
    params=[
        "np.memmap",
        "a view of np.memmap",
        "an array over mmap",
        "a view of it",
        "a mapped table",
        "a block",
        "a copy of np.memmap",
        "anonymous",
    ]
)
def shared(request, tmp_path, block):
    """An array of 7s in memory that others may write."""
    path = tmp_path / "numbers"
    return {
        "np.memmap": lambda: mapped(path) and np.memmap(path, np.uint8, "r+"),
        "a view of np.memmap": lambda: mapped(path) and np.memmap(path, np.uint8, "r")[::2],
        "a copy of np.memmap": lambda: mapped(path) and np.memmap(path, np.uint8, "c"),
        "an array over mmap": lambda: np.frombuffer(mapped(path), np.uint8),
        "a view of it": lambda: np.frombuffer(mapped(path, mmap.ACCESS_READ), np.uint8)[::2],
        "a mapped table": lambda: mapped_table(path),
        "a block": lambda: in_block(block),
        "anonymous": anonymous,
    }[request.param]()


def is_as_it_was(captured):
    state = load_state(captured.parts[0], [bytearray(part) for part in captured.parts[1:]])
    return (np.asarray(state["numbers"]) == 7).all()


@pytest.fixture
def capturer(tmp_path, monkeypatch):
    monkeypatch.setattr(capture, "TRIAL_S", 60.0)  # the machine may be busy
    capturer = Capturer("alice", str(tmp_path))
    capturer.method = "fork"
    return capturer


def cell_of(state):
    return SimpleNamespace(state=lambda: state, instance=None)


@pytest.mark.acceptance("X1")
def test_a_state_in_shared_memory_is_captured_inline_from_the_first_time_on(capturer, shared):
    for _ in range(3):
        captured = capturer.capture(cell_of({"numbers": shared}))
        assert isinstance(captured, Captured)
        assert is_as_it_was(captured)


@pytest.mark.acceptance("X1")
def test_a_state_that_comes_into_shared_memory_later_costs_one_capture(capturer, shared):
    state = {"text": "x"}
    capturer.learn(capturer.capture(cell_of(state)).wait(60.0))
    state["numbers"] = shared
    with pytest.raises(StateNotSerializable, match="captured inline from now on") as caught:
        capturer.capture(cell_of(state)).wait(60.0)
    capturer.child_failed(caught.value)
    for _ in range(3):
        assert is_as_it_was(capturer.capture(cell_of(state)))


@pytest.mark.acceptance("X1")
def test_shared_memory_that_no_state_is_in_changes_nothing(capturer, shared):
    assert len(shared)
    for _ in range(3):
        child = capturer.capture(cell_of({"numbers": np.full(SIZE, 7)}))
        assert isinstance(child, CaptureChild)
        capturer.learn(child.wait(60.0))


@pytest.mark.acceptance("X1")
@pytest.mark.parametrize(("page", "read"), [(1, True), (2, True), (0, False), (3, False), (4, False)])
def test_a_child_can_read_of_shared_memory_what_is_held_for_it(page, read):
    shared = np.frombuffer(mmap.mmap(-1, 5 * mmap.PAGESIZE), np.uint8)
    held = shared[mmap.PAGESIZE + 100 : 3 * mmap.PAGESIZE - 100]
    pid = os.fork()
    if pid == 0:
        try:
            take_shared_memory_away([np.zeros(10, np.uint8), held[:200], held[200:]])
            bytes(shared[page * mmap.PAGESIZE :][:10])
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == (0 if read else -signal.SIGSEGV)


def test_a_ray_without_the_name_that_is_needed_is_refused_when_it_is_imported():
    without = "import ray; del ray._private.serialization.unpack_pickle5_buffers"
    code = f"{without}; import rayshot.runtime.door.shared_memory"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=100)
    assert "UnsupportedVersion: Ray 2." in run.stderr
    assert "has no ray._private.serialization.unpack_pickle5_buffers" in run.stderr
