"""Run by itself: `python several_nodes.py CASE STORAGE` takes a node away from a system and brings the system back."""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import ray
from ray.cluster_utils import Cluster
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import rayshot
from benchmarks.surroundings import NOTICED
from rayshot import FailureConfig, SnapshotConfig
from rayshot.errors import ConfigError, SystemRecovering
from rayshot.runtime.coordinator.requests import SnapshotRequest
from rayshot.runtime.door.door import NAMESPACE
from rayshot.runtime.door.naming import actor_name
from tests.processes import runs
from tests.runtime.healed import STOPS, report, until_it_runs
from tests.runtime.heralds import Court, check_cut
from tests.runtime.workloads import Account
from tests.waiting import eventually

BEGINS_MAX = 30


def main(case, storage):
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 8, "include_dashboard": False, "_system_config": NOTICED}
    )
    shelf = {"shelf": 1}
    doomed = cluster.add_node(num_cpus=8, resources=shelf)
    ray.init(address=cluster.address, logging_level=logging.ERROR, log_to_driver=False)
    try:
        if case == "busy":
            lose_a_node_in_mid_snapshot(cluster, doomed, storage)
            print(f"restored {case}")
            return
        system = begin(storage, cluster.head_node if "coordinator" not in case else doomed, heals="heals" in case)
        options = {"resources": shelf} if case == "replaced" else {}
        if case == "heals, coordinator, drained":  # no actor is left that would answer the driver
            options = {"scheduling_strategy": NodeAffinitySchedulingStrategy(doomed.node_id, soft=True)}
        actors = [Account.options(name="a1", num_cpus=1, **options).remote(1)]
        while doomed.node_id not in {node_of(actor_name(system.name, system.incarnation, a.name)) for a in actors}:
            actors.append(Account.options(name=f"a{len(actors) + 1}", num_cpus=1).remote(len(actors) + 1))
            ray.get(actors[-1].read.remote())
        taken = drain(cluster, doomed, system) if "drained" in case else system.snapshot()
        if "told to end" in case:
            tell_to_end(doomed)
        cluster.remove_node(doomed, allow_graceful=False)
        if "heals" in case:
            eventually(lambda: doomed.node_id not in {node["NodeID"] for node in ray.nodes() if node["Alive"]}, 60)
            goes_on(system, taken)
            print(f"restored {case}")
            return
        restored = restore(system, lambda: case == "replaced" and cluster.add_node(num_cpus=8, resources=shelf))
        balances = {name: ray.get(actor.read.remote()) for name, actor in restored.actors().items()}
        assert balances == {name: state["balance"] for name, state in taken.states().items()}, balances
        restored.snapshot().verify()
        restored.shutdown()
        print(f"restored {case}")
    finally:
        ray.shutdown()
        cluster.shutdown()


def drain(cluster, node, system):
    """Tell Ray that a node goes, as a cloud does; the system's next snapshot, which nobody here asked for."""
    known = {snapshot.id for snapshot in system.snapshots()}
    command = [Path(sys.executable).with_name("ray"), "drain-node", "--address", cluster.address]
    reason = ["--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "the price went up"]
    deadline = ["--deadline-remaining-seconds", "60"]
    subprocess.run([*command, "--node-id", node.node_id, *reason, *deadline], check=True, capture_output=True)
    return eventually(lambda: [snapshot for snapshot in system.snapshots() if snapshot.id not in known], 30)[-1]


def tell_to_end(node):
    """As `ray stop` does, and a pod that goes: SIGTERM for the raylet and all that it started."""
    (raylet,) = (found.process.pid for found in node.all_processes["raylet"])
    told = [raylet, *map(int, Path(f"/proc/{raylet}/task/{raylet}/children").read_text().split())]
    for pid in told:
        with contextlib.suppress(ProcessLookupError):  # some end with their raylet, before they are told
            os.kill(pid, signal.SIGTERM)
    eventually(lambda: not any(map(runs, told)), 20)


def goes_on(system, taken):
    """The system heals itself on the nodes that are left."""
    until_it_runs(system)
    system.wait_until_running(60)
    balances = {name: state["balance"] for name, state in taken.states().items()}
    await_balances(system, balances)
    for name in balances:
        system.get_actor(name).deposit.tell(1)
    await_balances(system, {name: balance + 1 for name, balance in balances.items()})
    system.snapshot().verify()
    system.shutdown()


def await_balances(system, balances):
    """Wait until these are the balances: after a first life on the node that goes, another one may follow."""

    def read():
        try:
            return {name: ray.get(system.get_actor(name).read.remote()) for name in balances}
        except (ray.exceptions.ActorDiedError, SystemRecovering) as lost:
            print(lost, file=sys.stderr)
            return {}

    eventually(lambda: read() == balances, 60)


def lose_a_node_in_mid_snapshot(cluster, doomed, storage):
    """All numbers that are told before, meanwhile and behind are heard once and in order, on the node that is left."""
    system = begin(storage, cluster.head_node, heals=True)
    system.configure(SnapshotConfig(interval_s=None))
    life = system.incarnation
    places = {"alice": cluster.head_node, "bob": doomed, "carol": cluster.head_node}
    at = {name: NodeAffinitySchedulingStrategy(node.node_id, soft=True) for name, node in places.items()}
    court = Court.assemble(system, **{name: {"scheduling_strategy": place} for name, place in at.items()})
    assert node_of(actor_name(system.name, life, "bob")) == doomed.node_id
    court.tell()
    first = system.snapshot()
    court.tell()
    gate = Path(storage).with_name("gate")
    court.heralds["alice"].wait_for.tell(str(gate))
    eventually(Path(f"{gate}.seen").exists)
    system._identity.coordinator.snapshot.remote(SnapshotRequest())
    eventually(lambda: report(system)["snapshots"])
    cluster.remove_node(doomed, allow_graceful=False)
    court.tell()
    until_it_runs(system, life + 1)
    gate.touch()
    system.wait_until_running(60)
    (note,) = eventually(lambda: rayshot.open(storage).system(system.name).aborts().notes)
    assert note.reason == "actor_died", note
    assert eventually(lambda: report(system)["recoveries"])[-1].snapshot == first.id
    court.tell()
    check_cut(system.snapshot())
    court.check()
    system.shutdown()


def begin(storage, node, *, heals=False):
    """Begin a system whose coordinator is on this node; Ray chooses any."""
    failure = FailureConfig() if heals else STOPS
    for _ in range(BEGINS_MAX):
        system = rayshot.init("bank", storage=storage, failure=failure)
        if node_of("rayshot/bank") == node.node_id:
            return system
        system.shutdown()
    raise AssertionError("its coordinator was never there")


def node_of(ray_name):
    """The node of a named actor; None where there is no such actor."""
    try:
        handle = ray.get_actor(ray_name, namespace=NAMESPACE)
    except ValueError:
        return None
    return ray.get(handle.__ray_call__.remote(lambda _: ray.get_runtime_context().get_node_id()))


def restore(system, replace):
    """Restore as soon as the system has stopped, and `replace` the node when Ray has to place the first actor."""
    restored = []

    def try_now():
        try:
            restored.append(rayshot.restore(system.name, storage=system.storage, failure=STOPS))
        except ConfigError as error:
            if "is running" not in str(error):
                raise
            return False
        return True

    thread = threading.Thread(target=eventually, args=(try_now, 60))
    thread.start()
    first = actor_name(system.name, system.incarnation + 1, "a1")
    named = lambda: {entry["name"] for entry in ray.util.list_named_actors(all_namespaces=True)}  # noqa: E731
    eventually(lambda: first in named() or not thread.is_alive(), 60)
    replace()
    thread.join()
    (life,) = restored
    return life


if __name__ == "__main__":
    main(*sys.argv[1:])
