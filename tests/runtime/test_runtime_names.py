"""Actors with names of any text, and such as have none: spawned, photographed, restored and shown."""

import json
import re

import pytest
import ray
from click.testing import CliRunner

import rayshot
from rayshot.audit import prove
from rayshot.cli import main
from rayshot.cli.trace import PARSER
from rayshot.errors import ConfigError
from rayshot.protocol.identity import SnapshotId, initiator_of
from tests.runtime.take_over import kill_coordinator
from tests.runtime.test_runtime_restore import restore
from tests.runtime.workloads import Account, Nursery
from tests.waiting import eventually

pytestmark = [pytest.mark.ray, pytest.mark.acceptance("X3")]

NAMES = ["worker:0", "a/b", "../x", "x-3", "käse 🧀", "[bold]x", "{a b}", "🧀" * 128]


def local_classes():
    @rayshot.actor(deterministic=True)
    class Purse:
        """Is made in a function, and its actors have no names."""

        def __init__(self):
            self.held = 0

        def deposit(self, amount):
            self.held += amount

        def photograph(self):
            rayshot.current().snapshot()

        def read(self):
            return self.held

    @rayshot.actor
    class _Hidden:
        def read(self):
            return 1

    return Purse, _Hidden


def test_one_actor_without_a_name_of_a_class_in_a_function_is_in_snapshots(system, new_system):
    purses = [cls.remote() for cls in local_classes()]
    assert [re.sub(r"-[0-9a-f]{16}$", "", purse.name) for purse in purses] == ["purse", "_hidden"]
    ray.get([purse.read.remote() for purse in purses])
    snapshot = system.snapshot()
    assert set(snapshot.states()) == {purse.name for purse in purses}
    restored = restore(new_system.made, system)
    assert set(restored.actors()) == {purse.name for purse in purses}


def run(*arguments):
    result = CliRunner(env={"COLUMNS": "900"}).invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.wide("slow")
def test_actors_with_any_names_send_begin_snapshots_and_are_restored(new_system, tmp_path):
    system = new_system(trace="full")
    actors = [*(Account.options(name=name).remote(100) for name in NAMES), local_classes()[0].remote()]
    ray.get([actor.read.remote() for actor in actors])
    for sender, receiver in zip(actors, [*actors[1:-1], actors[0]], strict=False):
        sender.transfer.tell(receiver, 1)
    actors[0].transfer.tell(actors[-1], 1)
    eventually(lambda: ray.get(actors[-1].read.remote()) == 1)
    begun = [system.snapshot(initiator=actor.name, mode="chandy-lamport") for actor in actors]
    assert [snapshot.id.initiator for snapshot in begun] == [initiator_of(actor.name) for actor in actors]
    for actor in actors:
        actor.photograph.tell()
    own = {str(SnapshotId(1, initiator_of(actor.name), 2)) for actor in actors}
    eventually(lambda: own <= {str(snapshot.id) for snapshot in system.snapshots()}, 60)
    traced = system.snapshot()
    proof = prove(traced, system.snapshots(), replay=True)
    assert {finding.holds for finding in proof.findings} == {True}, proof.findings
    kill_coordinator(system)
    last = system.snapshot(initiator="a/b")
    assert str(last.id) == "1-_a_2fb-3"
    last.verify()

    storage, name = system.storage, system.name
    listed = run("list", storage, "--all")
    assert all(f" {snapshot.id} " in listed for snapshot in (*begun, last))
    shown = run("show", storage, "--snapshot", begun[4].id, "--all")
    assert all(f" {actor.name} " in shown for actor in actors)
    lines = run("trace", storage, "--snapshot", traced.id, "--shiviz").splitlines()
    hosts = {line.split(" ")[0] for line in lines}
    assert {"worker:0", "a/b", "../x", "käse%20🧀", "[bold]x", "%7Ba%20b%7D"} < hosts
    pattern = re.compile(PARSER.replace("(?<", "(?P<"))
    for line in lines:
        assert json.loads(pattern.fullmatch(line)["clock"]).keys() <= hosts
    assert json.loads(run("verify", storage, "--read-data", "--json"))["sound"]

    restored = restore(new_system.made, system, snapshot=str(begun[1].id), trace="full")
    assert set(restored.actors()) == {actor.name for actor in actors}
    again = [restored.get_actor(actor.name) for actor in actors]
    again[0].transfer.tell(again[-1], 5)
    eventually(lambda: ray.get(again[-1].read.remote()) == 6)
    snapshot = restored.snapshot(initiator="🧀" * 128)
    snapshot.verify()
    assert snapshot.states()["worker:0"]["balance"] == 94
    restored.shutdown()
    rayshot.copy(storage, tmp_path / "copies", system=name)
    run("gc", storage, "--min-age", "0")
    run("delete", storage, begun[0].id, "--yes")
    for place in (storage, tmp_path / "copies"):
        assert rayshot.open(place).systems[name].latest().states().keys() == {actor.name for actor in actors}
    assert {path.name for path in tmp_path.iterdir()} == {"shots", "copies"}
    assert {path.name for path in (tmp_path / "shots").iterdir()} == {name}


def test_a_class_whose_name_no_actor_can_have_is_refused_before_anything_is_made(system):
    made = rayshot.actor(type("two\nlines", (), {"read": lambda self: 1}))
    with pytest.raises(ConfigError, match=r"cannot name an actor.*control characters"):
        made.remote()
    assert system.actors() == {}


@pytest.mark.wide("slow")
def test_children_made_by_messages_in_flight_have_the_same_names_in_every_restore(new_system):
    system = new_system()
    nursery = Nursery.options(name="nursery").remote()
    ray.get(nursery.names.remote())
    nursery.pause.tell(2.0)
    for count in (1, 2, 1):
        nursery.make.tell(count)
    snapshot = system.snapshot()
    assert snapshot.in_flight >= 3
    first = ray.get(nursery.names.remote())
    assert len(set(first)) == 4

    def children_again(running):
        restored = restore(new_system.made, running, snapshot=str(snapshot.id))
        nursery = restored.get_actor("nursery")
        names = eventually(lambda: len(found := ray.get(nursery.names.remote())) == 4 and found, 60)
        assert eventually(lambda: set(restored.actors()) == {"nursery", *names})
        return restored, names

    restored, second = children_again(system)
    _, third = children_again(restored)
    assert first == second == third
