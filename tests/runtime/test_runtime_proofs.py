"""A state that does not load aborts its snapshot while all lives; a prover that dies or hangs keeps nobody waiting."""

import os
import signal

import pytest
import ray

from rayshot.errors import SnapshotAborted
from rayshot.runtime.door.naming import named_actors, prefix
from tests.processes import runs
from tests.runtime.proved import Holder, Unproved
from tests.waiting import eventually

pytestmark = [pytest.mark.ray, pytest.mark.acceptance("S2")]


def proofs_of(snapshot):
    return {actor.name: str(actor.proof) for actor in snapshot.manifest.actors}


def provers_of(system):
    """The provers of the system's vaults."""
    vaults = [host for name, host in named_actors(prefix(system.name)).items() if "/vault/" in name]
    return [
        prover
        for vault in vaults
        for prover in ray.get(
            vault.__ray_call__.remote(lambda self: [prover.pid for prover in self._proofs._provers.values()])
        )
    ]


def test_a_state_that_does_not_load_aborts_its_snapshot_with_actor_path_and_reason_and_all_live(system):
    alice, bob = (Holder.options(name=name).remote() for name in ("alice", "bob"))
    ray.get([alice.make.remote("Registered", "one"), bob.make.remote("Plain")])
    pids = {name: actor.pid for name, actor in system.status().actors.items()}
    with pytest.raises(SnapshotAborted, match=r"alice\['state'\]\['value'\] was recorded.*KeyError: 'one'") as aborted:
        system.snapshot()
    assert aborted.value.evidence["reason"] == "does_not_load"
    assert ray.get([alice.ping.remote(), bob.ping.remote()]) == ["Registered", "Plain"]
    assert {name: actor.pid for name, actor in system.status().actors.items()} == pids
    assert not system.snapshots()
    ray.get(alice.make.remote("Plain"))
    assert set(proofs_of(system.snapshot())) == {"alice", "bob"}


def test_a_state_that_does_not_load_although_others_of_its_class_do_aborts_the_snapshot_behind_a_sample(system):
    alice = Holder.options(name="alice").remote()
    ray.get(alice.make.remote("Fussy", 1))
    system.snapshot()
    ray.get(alice.make.remote("Fussy", -1))
    aborted = []

    def is_aborted():  # the second capture is a sample; whoever comes behind its trial is aborted
        try:
            system.snapshot()
        except SnapshotAborted as error:
            aborted.append(error)
        return aborted

    eventually(is_aborted)
    assert "alice['state']['value'] was recorded, but cannot be loaded again" in str(aborted[0])
    ray.get(alice.make.remote("Fussy", 2))
    assert proofs_of(system.snapshot()) == {"alice": "proved"}


def test_what_is_not_to_be_proved_is_committed_and_says_so(system):
    alice = Unproved.options(name="alice").remote()
    ray.get(alice.make.remote("Registered", "one"))
    assert proofs_of(system.snapshot()) == {"alice": "not proved: prove=False"}
    bob = Holder.options(name="bob").remote()
    ray.get(bob.make.remote("Plain"))
    system.snapshot()
    status = system.status()
    assert (status.proofs, status.unproved) == ({"proved": 1, "unproved": 1}, "alice: prove=False")


def test_a_prover_that_dies_is_started_again_and_ends_with_its_system(system):
    alice = Holder.options(name="alice").remote()
    assert proofs_of(system.snapshot()) == {"alice": "plain values"}
    assert not provers_of(system)
    ray.get(alice.make.remote("Plain"))
    assert proofs_of(system.snapshot()) == {"alice": "proved"}
    (pid,) = provers_of(system)
    os.kill(pid, signal.SIGKILL)
    ray.get(alice.make.remote("Fussy", 1))
    assert proofs_of(system.snapshot()) == {"alice": "proved"}
    (another,) = provers_of(system)
    assert another not in {pid, None}
    pid = another
    system.shutdown()
    eventually(lambda: not runs(pid))


@pytest.mark.wide("slow")
def test_a_state_that_hangs_when_it_is_loaded_is_committed_and_not_proved(system):
    alice = Holder.options(name="alice").remote()
    ray.get(alice.make.remote("Hanging"))
    assert proofs_of(system.snapshot())["alice"].startswith("not proved: ")
    assert ray.get(alice.ping.remote()) == "Hanging"
