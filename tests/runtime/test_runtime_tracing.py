"""Traced systems: every snapshot of every mode is proved from what the actors wrote down, Theorem 1 included."""

import json
import subprocess
import sys
import threading
import time

import pytest
import ray

import rayshot
from rayshot import SnapshotConfig
from rayshot.audit import prove
from rayshot.errors import ConfigError
from rayshot.keys.finder import find_key
from rayshot.snapshots.channel_state import ChannelState
from tests.runtime.traced import Delegate, Feed, Leaver, Liar, Sleeper, Stage, Station
from tests.waiting import eventually

pytestmark = pytest.mark.ray
MODES = ("chandy-lamport", "aligned", "stop-the-world")


def ring():
    """Six tokens on their way around three stations, for ever."""
    stations = [Station.options(name=f"station{n}").remote() for n in range(3)]
    for station, following in zip(stations, stations[1:] + stations[:1], strict=True):
        station.lead_to.tell(following)
    ray.get([station.ready.remote() for station in stations])
    for token in range(6):
        stations[token % 3].take.tell(token, 10**9)


def dag_with_two_sources():
    """Two feeds, both to two stages, one of which leads to the other."""
    last = Stage.options(name="last").remote()
    middle = Stage.options(name="middle").remote(last)
    start([Feed.options(name=f"feed{n}").remote(stage) for n, stage in enumerate((middle, last))])


def cyclic_flow():
    """As above, but what is odd goes back to where it came from, and comes again even."""
    last = Stage.options(name="last").remote()
    middle = Stage.options(name="middle").remote(last)
    first = Stage.options(name="first").remote(middle)
    middle.lead_back.tell(first)
    start([Feed.options(name=f"feed{n}").remote(first) for n in range(2)])


def start(feeds):
    ray.get([feed.ready.remote() for feed in feeds])
    for feed in feeds:
        feed.go_on.tell()


def stop(system):
    for name, actor in system.actors().items():
        if name.startswith("feed"):
            actor.stop.tell()


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize("flow", [ring, dag_with_two_sources, cyclic_flow])
def test_every_snapshot_of_every_mode_is_proved_also_where_alignment_ends_early(new_system, flow):
    system = new_system(trace="full")
    flow()
    for mode in MODES:
        system.snapshot(mode=mode)
    system.configure(SnapshotConfig(mode="aligned", alignment_timeout_s=0.02))
    system.snapshot()
    system.configure(SnapshotConfig())
    stop(system)
    for mode in MODES:
        system.snapshot(mode=mode)
    snapshots = system.snapshots()
    assert [snapshot.mode for snapshot in snapshots] == [*MODES, "aligned", *MODES]
    proofs = prove_all(snapshots)
    assert not proofs[0].finding("theorem 1").detail.startswith("0 events before")
    assert "and 0 after" not in proofs[0].finding("theorem 1").detail


def test_snapshots_that_spread_by_their_markers_alone_are_proved(new_system):
    system = new_system(trace="full")
    ring()
    eventually(lambda: all(system.topology().values()) or None)
    prove_all([system.snapshot(initiator=f"station{n}", spread="markers") for n in range(3)])


def prove_all(snapshots):
    proofs = [prove(snapshot, snapshots, replay=True, keys=[find_key()]) for snapshot in snapshots]
    names = ["cut equation", "vector clocks", "theorem 1", "replay"]
    for proof in proofs:
        assert {name: proof.finding(name).holds for name in names} == dict.fromkeys(names, True), proof
    return proofs


def test_overlapping_snapshots_by_several_initiators_are_proved(new_system):
    system = new_system(trace=True, snapshots=SnapshotConfig(max_concurrent=8, interval_s=0.05))
    ring()
    for _ in range(5):
        system.snapshot(initiator="station1")
    eventually(lambda: len({snapshot.id.initiator for snapshot in system.snapshots()}) == 2)
    system.configure(SnapshotConfig())
    snapshots = system.snapshots()
    for snapshot in (one for one in snapshots if one.actors):  # the first may have come before any actor
        proof = prove(snapshot, snapshots)
        assert proof.finding("theorem 1").holds, proof
        assert proof.finding("vector clocks").holds, proof


@pytest.mark.wide("slow")
def test_a_restored_system_is_proved_from_the_snapshot_it_came_from(new_system):
    system = new_system(trace="full")
    cyclic_flow()
    base = system.snapshot()
    name, storage = system.name, system.storage
    system.shutdown()
    system = rayshot.restore(name, storage=storage, trace="full")
    new_system.made.append(system)
    for _ in range(3):
        system.snapshot()
    snapshots = system.snapshots()
    assert snapshots[0] == base
    for snapshot in snapshots[1:]:
        proof = prove(snapshot, snapshots, replay=True, keys=[find_key()])
        assert proof.finding("theorem 1").holds, proof
        assert proof.finding("replay").holds, proof


@pytest.mark.wide("slow")
def test_an_actor_that_joins_during_a_traced_snapshot_does_no_harm(new_system):
    system = new_system(trace=True)
    busy = Sleeper.options(name="busy").remote()
    ray.get(busy.ready.remote())
    busy.sleep.tell(3.0)
    taken = threading.Thread(target=system.snapshot)
    taken.start()
    time.sleep(0.5)
    Station.options(name="young").remote()
    taken.join(60)
    system.snapshot()
    snapshots = system.snapshots()
    assert len(snapshots) == 2
    for snapshot in snapshots:
        proof = prove(snapshot, snapshots)
        assert proof.finding("theorem 1").holds, proof


def test_a_savepoint_between_deleted_snapshots_and_one_of_many_are_proved(new_system):
    system = new_system(trace="full", snapshots=SnapshotConfig(num_to_keep=2))
    ring()
    system.snapshot(label="v1")
    for _ in range(7):
        system.snapshot()
    eventually(lambda: len(system.snapshots()) == 3 or None)  # what is too much is deleted behind the last commit
    snapshots = system.snapshots()
    assert [snapshot.label for snapshot in snapshots] == ["v1", None, None]
    for snapshot in snapshots:
        proof = prove(snapshot, snapshots, replay=True, keys=[find_key()])
        assert proof.finding("theorem 1").holds, proof
    assert prove(snapshots[-1], snapshots, replay=True, keys=[find_key()]).finding("replay").holds


def test_actors_that_end_are_part_of_the_proof(new_system):
    system = new_system(trace=True)
    stage = Stage.options(name="stage").remote()
    leavers = [Leaver.options(name=f"leaver{n}").remote(stage, 50) for n in range(3)]
    first = system.snapshot()
    for leaver in leavers:
        leaver.leave.tell()
    eventually(lambda: len(system.actors()) == 1 or None)
    system.snapshot()
    last = system.snapshot()
    snapshots = system.snapshots()
    assert set(last.manifest.ended) == {f"leaver{n}" for n in range(3)}
    for snapshot in (first, *snapshots):
        proof = prove(snapshot, snapshots)
        assert proof.finding("theorem 1").holds, proof
    assert {trace.actor for trace in snapshots[1].manifest.traces} >= {f"leaver{n}" for n in range(3)}


def test_a_class_that_is_not_what_it_says_is_found_by_the_replay(new_system):
    system = new_system(trace="full")
    liar = Liar.options(name="liar").remote()
    liar.draw.tell()
    ray.get(liar.ready.remote())
    snapshot = system.snapshot()
    proof = prove(snapshot, replay=True, keys=[find_key()])
    assert proof.finding("theorem 1").holds
    assert proof.finding("replay").holds is False
    assert "run again, comes to other state" in proof.finding("replay").detail


@pytest.mark.acceptance("X13")
def test_what_threads_sent_is_proved_and_cannot_be_run_again(new_system):
    system = new_system(trace="full")
    delegate = Delegate.options(name="delegate").remote()
    delegate.add.tell(2, delegate)
    eventually(lambda: ray.get(delegate.total.remote()) == 3)
    proof = prove(system.snapshot(), replay=True, keys=[find_key()])
    assert (proof.finding("theorem 1").holds, proof.finding("replay").holds) == (True, None)
    assert "beside its handlers delegate sent messages" in proof.finding("replay").detail


def test_a_message_in_flight_that_its_sender_did_not_send_is_found_by_the_replay(new_system, monkeypatch):
    system = new_system(trace="full")
    sleeper = Sleeper.options(name="sleeper").remote()
    stage = Stage.options(name="stage").remote(sleeper)
    ray.get([sleeper.ready.remote(), stage.ready.remote()])
    sleeper.sleep.tell(2.0)
    for number in (2, 4, 6):
        stage.add.tell(number)
    ray.get(stage.ready.remote())
    snapshot = system.snapshot()
    assert "send again 3 messages" in prove(snapshot, replay=True, keys=[find_key()]).finding("replay").detail
    stored = ChannelState.messages.fget
    forged = property(lambda self: [message._replace(args=(7,)) for message in stored(self)])
    monkeypatch.setattr(ChannelState, "messages", forged)
    replay = prove(snapshot, replay=True, keys=[find_key()]).finding("replay")
    assert replay.holds is False
    assert "message 1 of stage to sleeper is add(7,)" in replay.detail


def test_without_kept_messages_nothing_is_replayed_and_without_a_trace_nothing_but_the_bytes_judged(new_system):
    system = new_system(trace=True)
    station = Station.options(name="station").remote()
    ray.get(station.ready.remote())
    proof = prove(system.snapshot(), replay=True, keys=[find_key()])
    assert (proof.finding("theorem 1").holds, proof.finding("replay").holds) == (True, None)
    assert "trace='full'" in proof.finding("replay").detail
    with pytest.raises(ConfigError, match="trace='yes'"):
        rayshot.init("other", storage=system.storage, trace="yes")


@pytest.mark.wide("slow")
def test_the_command_line_shows_the_proof_and_the_trace(new_system):
    system = new_system(trace="full")
    ring()
    system.snapshot()
    system.snapshot()

    def run(*arguments):
        program = "from rayshot.cli import main; main()"
        command = [sys.executable, "-c", program, *arguments, str(system.storage)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    audit = json.loads(run("verify", "--replay", "--json"))["audit"]
    assert [(finding["name"], finding["holds"]) for finding in audit] == [
        ("cut equation", True),
        ("vector clocks", True),
        ("theorem 1", True),
        ("replay", True),
    ]
    lines = run("trace", "--shiviz").splitlines()
    assert {line.split(" ")[0] for line in lines} == {"station0", "station1", "station2"}
    steps = [json.loads(line) for line in run("trace", "--json").splitlines()]
    assert len(steps) == len(lines)
    assert "recorded 1-coordinator-2" in run("trace")
