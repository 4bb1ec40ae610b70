"""Load: senders and memory are bounded, snapshots take no longer, nothing is lost, doubled or out of order."""

import threading
import time
from pathlib import Path

import pytest
import ray

import rayshot
from benchmarks import backlog
from benchmarks.capture import MEMORY_TARGET
from benchmarks.memory import used_bytes
from benchmarks.tokens import Ring
from rayshot import SnapshotConfig
from rayshot.errors import SystemStopped
from rayshot.runtime.channel.credit import CREDIT_BYTES
from rayshot.runtime.channel.outbox import BATCH_BYTES_MAX, OUTBOX_BYTES_MAX
from rayshot.runtime.driver import channel as driver_channel
from tests.runtime.heralds import Court, check_cut, processes_of
from tests.runtime.loads import Consumer, Producer, descriptors, rss_bytes
from tests.runtime.workloads import Account, Holder
from tests.waiting import eventually

pytestmark = pytest.mark.ray
MIB = 1 << 20
UNDER_WAY_BYTES = CREDIT_BYTES + OUTBOX_BYTES_MAX + 4 * BATCH_BYTES_MAX
"""What a driver holds of messages to a receiver that takes nothing; a message of a MiB may be above each limit."""
SLACK_BYTES = 64 * MIB


@pytest.mark.wide("slow")
@pytest.mark.acceptance("C5")
def test_a_program_that_tells_a_blocked_receiver_is_bounded_and_hears_why(new_system, tmp_path, monkeypatch, in_full):
    blocked_s = 120.0 if in_full else 4.0
    system = new_system()
    consumer = Consumer.options(name="consumer").remote()
    ray.get(consumer.read.remote())
    system.snapshot()
    gate = tmp_path / "gate"
    consumer.wait_for.tell(str(gate))
    began, told, before = time.monotonic(), 0, rss_bytes()
    monkeypatch.setattr(driver_channel, "ROOM_WAIT_S", blocked_s / 2)
    with pytest.raises(SystemStopped, match=r"'consumer' has taken none of [\d,]+ waiting messages .* does a handler"):
        while True:
            consumer.take.tell(told, bytes(MIB))
            told += 1
    assert told * MIB <= UNDER_WAY_BYTES
    assert rss_bytes() - before <= UNDER_WAY_BYTES + SLACK_BYTES
    time.sleep(max(0.0, began + blocked_s - time.monotonic()))
    gate.touch()
    eventually(lambda: ray.get(consumer.read.remote(), timeout=120) == (told, []), 120)


@pytest.mark.acceptance("C6")
def test_a_snapshot_records_a_long_queue_and_does_not_wait_until_it_is_handled(system, tmp_path):
    line = backlog._Line(system, tmp_path / "brake")
    queued = 10_000
    taken = line.snapshot(queued, "chandy-lamport")
    assert taken.in_flight_bytes > queued / 2 * len(backlog.PAYLOAD), "it waited for most of the queue"


@pytest.mark.wide("slow")
@pytest.mark.acceptance("L2")
def test_with_a_snapshot_a_second_at_full_rate_no_message_is_missing_in_any(system, in_full):
    ring = Ring(16 if in_full else 4)
    if in_full:
        ring.fill(1_000)
    ring.go()
    system.configure(SnapshotConfig(interval_s=1.0))
    eventually(lambda: len(system.snapshots()) >= (60 if in_full else 4), 300)
    system.configure(SnapshotConfig())
    for snapshot in system.snapshots()[1:]:  # the first one may have been taken before all had begun
        assert snapshot.verify().sound
        held = sum(len(state["held"]) for state in snapshot.states().values())
        moving = [m for channel in snapshot.channels.values() for m in channel.messages if m.method == "take"]
        assert held + len(moving) == ring.tokens
    ring.halt()


@pytest.mark.wide("slow")
@pytest.mark.acceptance("L3")
def test_the_memory_of_a_producer_twice_as_fast_as_its_consumer_stays_as_it_is(new_system, in_full):
    seconds = 300.0 if in_full else 6.0
    system = new_system(snapshots=SnapshotConfig(interval_s=1.0, num_to_keep=2))
    consumer = Consumer.options(name="consumer").remote(0.02)
    producer = Producer.options(name="producer").remote(consumer, 0.01, MIB)
    ray.get(consumer.read.remote())
    producer.go_on.tell(producer)
    eventually(lambda: len(system.status().actors) == 2, 30)
    pids = [eventually(lambda name=name: system.status().actors[name].pid) for name in ("consumer", "producer")]
    samples: list[int] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        samples.append(sum(map(rss_bytes, pids)))
        time.sleep(0.1)
    third = len(samples) // 3
    assert max(samples[-third:]) <= max(samples[third:-third]) + SLACK_BYTES, samples[::third]
    assert max(samples) <= samples[0] + UNDER_WAY_BYTES + 2 * CREDIT_BYTES
    told = ray.get(producer.stop.remote(), timeout=60)
    eventually(lambda: ray.get(consumer.read.remote(), timeout=120) == (told, []), 120)


@pytest.mark.wide("slow")
@pytest.mark.acceptance("L4")
def test_many_actors_with_many_channels_commit_within_the_deadline(new_system, in_full):
    actors, fellows = (100, 20) if in_full else (12, 11)
    system = new_system(snapshots=SnapshotConfig(timeout_s=60.0))
    court = Court.assemble(system, [f"herald{number}" for number in range(actors)], fellows=fellows)
    for _ in range(3):
        court.tell(5)
        snapshot = system.snapshot()
        check_cut(snapshot)
    between = [channel for channel in snapshot.channels if channel.sender in court.heralds]
    assert len(between) == actors * fellows
    court.check(240)


@pytest.mark.acceptance("L5")
def test_a_large_state_is_in_memory_once_more_at_most(system, in_full):
    size_bytes = (1 << 30) if in_full else (64 * MIB)
    holder = Holder.options(name="holder", capture="fork").remote(size_bytes // 8)
    ray.get(holder.total.remote(), timeout=120)
    needs = []
    for turn in range(10 if in_full else 3):
        ray.get(holder.change.remote(1), timeout=120)
        snapshot, peak = peak_while(system.snapshot)
        needs.append(peak / size_bytes)
        array = snapshot.states()["holder"]["array"]
        assert (int(array[0]), int(array[-1]), array.nbytes) == (turn + 1, size_bytes // 8 + turn, size_bytes)
        del array
    if in_full:  # a smaller one says nothing, and the best turn counts: memory of other programs is counted too
        assert MEMORY_TARGET.met_by(min(needs)), needs


def peak_while(work):
    """What `work` returns, and by how many bytes the memory in use was higher meanwhile."""
    before, over, peaks = used_bytes(), threading.Event(), [0]

    def look():
        while not over.wait(0.005):
            peaks.append(used_bytes())

    looking = threading.Thread(target=look)
    looking.start()
    try:
        return work(), max(peaks) - before
    finally:
        over.set()
        looking.join()


@pytest.mark.wide("slow")
@pytest.mark.acceptance("L6")
def test_thousands_of_snapshots_with_retention_leave_no_more_than_the_last_and_their_log(new_system, tmp_path, in_full):
    total, kept = 10_000 if in_full else 60, 3
    system = new_system(snapshots=SnapshotConfig(num_to_keep=kept))
    account = Account.options(name="alice").remote(0)
    found = {}
    for number in range(1, total + 1):
        account.deposit.tell(1)
        system.snapshot()
        if number in (total // 10, total):
            eventually(lambda: len(system.snapshots()) == kept)
            found[number] = len(objects(tmp_path))
    early, late = found.values()
    assert late <= early + 8, sorted(map(str, objects(tmp_path)))
    system.shutdown()
    restored = rayshot.restore(system.name, storage=system.storage)
    new_system.made.append(restored)
    assert ray.get(restored.get_actor("alice").read.remote()) == total


def objects(folder):
    """All objects of a storage but the records of its log, and the segments, which are copies of them."""
    files = [path for path in (Path(folder) / "shots").rglob("*") if path.is_file()]
    return [path for path in files if not {"log", "segments"}.intersection(path.parts)]


def own_threads(others):
    return [one for one in set(threading.enumerate()) - others if one.name.startswith("rayshot")]


@pytest.mark.wide("slow")
@pytest.mark.acceptance("L7")
def test_restores_in_a_row_leave_no_actor_no_thread_and_no_descriptor(new_system, in_full):
    restores, warm = (100, 10) if in_full else (5, 2)
    others = set(threading.enumerate())
    system = new_system()
    court = Court.assemble(system, ("alice", "bob"))
    court.tell()
    system.snapshot()
    system.shutdown()
    counts = []
    for _ in range(restores):
        restored = rayshot.restore(system.name, storage=system.storage)
        new_system.made.append(restored)
        court.system, court.heralds = restored, restored.actors()
        court.check()
        restored.shutdown()
        eventually(lambda: not processes_of(system))
        eventually(lambda: not own_threads(others), 30)
        counts.append((threading.active_count(), descriptors()))
    threads, files = zip(*counts, strict=True)
    assert threads[-1] <= max(threads[:warm]) + 2, counts
    assert files[-1] <= max(files[:warm]) + 4, counts
