"""The real runtime on the fake: its coordinator, hosts, vaults and drivers, with all their threads."""

import os
import subprocess
import sys

import pytest

from rayshot.model.configuration import FailureConfig, SnapshotConfig
from rayshot.runtime.door import door
from rayshot.runtime.door.naming import coordinator_name
from rayshot.runtime.opening import start
from tests.fake.door import fake
from tests.fake.play import PROGRAM, Play, Till, happened
from tests.fake.system import begin, coordinator


def test_a_system_takes_messages_and_snapshots_and_is_shut_down(cluster):
    system = begin(failure=FailureConfig(scope="stop"))
    alice, bob = (Till.options(name=name).remote() for name in ("alice", "bob"))
    alice.take.tell(PROGRAM, 1)
    alice.pass_on.tell("alice", bob)
    snapshot = system.snapshot()
    assert door.get(bob.all.remote()) == ({"alice": [1]}, {})
    assert [one.id for one in system.snapshots()] == [snapshot.id]
    system.shutdown()
    cluster.schedule.pass_s(30.0)
    assert cluster.named == {}
    assert cluster.notes == {}


@pytest.mark.parametrize("who", ["alice", "coordinator", "vault", "node"])
def test_what_dies_comes_back_and_nothing_is_lost_or_told_twice(cluster, who):
    system = begin(snapshots=SnapshotConfig(interval_s=1.0))
    alice, bob = (Till.options(name=name).remote() for name in ("alice", "bob"))
    for number in range(1, 11):
        alice.take.tell(PROGRAM, number)
        alice.pass_on.tell("alice", bob)
    system.snapshot()
    for number in range(11, 21):
        alice.take.tell(PROGRAM, number)
        alice.pass_on.tell("alice", bob)
    cluster.settle()
    names = {"alice": "/actor/alice", "vault": "/vault/", "coordinator": coordinator_name("bank")}
    if who == "node":
        cluster.die_with_node(cluster.named[next(name for name in cluster.named if "alice" in name)].run.node)
    else:
        cluster.die(next(one for name, one in cluster.named.items() if name.endswith(names[who]) or names[who] in name))
    cluster.schedule.pass_s(60.0)
    got, passed = door.get(alice.all.remote())
    assert (got, passed) == ({PROGRAM: list(range(1, 21))}, {"bob": 20})
    assert door.get(bob.all.remote())[0] == {"alice": list(range(1, 21))}
    assert system.status().incarnation == (2 if who in ("alice", "node") else 1)


def test_a_process_that_stands_still_when_two_others_die_delays_the_next_life_and_does_not_prevent_it(cluster):
    """A coordinator that is new has no connection to it, so it cannot be loaded, again and again."""
    system = begin(snapshots=SnapshotConfig(interval_s=1.0))
    tills = [Till.options(name=name).remote() for name in ("alice", "bob")]
    for till in tills:
        till.take.tell(PROGRAM, 1)
    system.snapshot()
    process = {name.rpartition("/")[2]: one for name, one in cluster.named.items()}
    process["alice"].run.is_stopped = True
    cluster.schedule.pass_s(15.0)
    cluster.die(process["bob"])
    cluster.schedule.pass_s(15.0)
    cluster.die(coordinator(cluster))
    cluster.schedule.pass_s(120.0)
    assert [door.get(till.all.remote())[0] for till in tills] == [{PROGRAM: [1]}] * 2
    assert system.status().incarnation == 3


@pytest.mark.sampled("more cases of one kind", keeps=6)
@pytest.mark.parametrize("seed", range(20))
def test_whatever_dies_each_actor_has_what_it_was_told_once_and_in_order(seed):
    with fake(nodes=2) as cluster:
        Play(cluster, seed).play()


@pytest.mark.sampled("more cases of one kind", keeps=6)
@pytest.mark.parametrize("seed", range(20))
def test_so_has_it_where_calls_and_answers_are_lost_and_doubled(seed):
    with fake(nodes=2) as cluster:
        play = Play(cluster, seed)
        play.lose_calls()
        play.play()


def test_a_seed_says_what_happens_in_any_process():
    code = "from tests.fake.play import happened; print(happened(13))"
    for hash_seed in ("0", "2"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert said.stdout == f"{happened(13)}\n"


def test_ctrl_c_while_a_system_starts_leaves_nothing(cluster, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(start, "offer_keys", interrupt)
        with pytest.raises(KeyboardInterrupt):
            begin()
    cluster.schedule.pass_s(30.0)
    assert (cluster.named, cluster.notes) == ({}, {})
    begin().shutdown()
