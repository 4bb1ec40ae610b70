"""Options of actors that no snapshot holds as they were given: values of variables, places in one cluster."""

import logging

import pytest
import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

import rayshot
from rayshot.errors import ConfigError
from tests.runtime.mortal import Placed

pytestmark = [pytest.mark.ray, pytest.mark.acceptance("O4")]
SECRET = "a word that nobody may read"
UNPLACEABLE = {"nowhere": 1}


def everything(snapshot):
    """All bytes of a snapshot: its files, and its blobs as they were before they were compressed."""
    folder = snapshot._store.folder
    yield from (path.read_bytes() for path in folder.rglob("*") if path.is_file())
    for actor in snapshot.manifest.actors:
        if actor.state is not None:
            yield from map(snapshot.read, (actor.state.stream, *actor.state.buffers))
    for channel in snapshot.manifest.channels:
        yield from map(snapshot.read, channel.blobs())


def restored(made, system, **arguments):
    system.shutdown()
    made.append(rayshot.restore(system.name, storage=system.storage, **arguments))
    return made[-1]


@pytest.mark.wide("slow")
def test_values_of_variables_are_stored_nowhere_and_given_again(new_system):
    system = new_system()
    variables = {"env_vars": {"WORD": SECRET, "PLAIN": "b"}}
    alice = Placed.options(name="alice", runtime_env=variables).remote()
    assert ray.get(alice.variable.remote("WORD")) == SECRET
    ray.get(alice.make.remote("bob", runtime_env={"env_vars": {"WORD": SECRET}}, resources=UNPLACEABLE))
    alice.make.tell("carol", runtime_env={"env_vars": {"WORD": SECRET}})
    snapshot = system.snapshot()
    assert snapshot.channel("alice", "bob").messages[0].kind == "create"
    assert not any(SECRET.encode() in part for part in everything(snapshot))
    with pytest.raises(ConfigError, match=r"WORD.*options=\{'(alice|bob|carol)': \{'runtime_env'"):
        restored(new_system.made, system)
    given = {
        Placed: {"runtime_env": {"env_vars": {"WORD": "new", "PLAIN": "c"}}},
        "bob": {"resources": None},
        "carol": {"runtime_env": None},
    }
    again = restored(new_system.made, system, options=given)
    words = [ray.get(again.get_actor(name).variable.remote("WORD")) for name in ("alice", "bob", "carol")]
    assert words == ["new", "new", None]
    assert again.snapshot().manifest.actors[0].options["runtime_env"] == {"env_vars": ["PLAIN", "WORD"]}


def test_what_is_given_at_a_restore_must_name_what_is_there(new_system):
    system = new_system()
    ray.get(Placed.options(name="alice").remote().variable.remote("WORD"))
    system.snapshot()
    for options, said in (
        ({"bob": {}}, "no such actor or class; it has alice, tests.runtime.mortal.Placed"),
        ({"alice": {"num_cpu": 1}}, "there is no option 'num_cpu'"),
        ({"alice": 3}, "give a dict of options"),
        ({7: {}}, "the name of an actor, or a class"),
    ):
        with pytest.raises(ConfigError, match=said):
            rayshot.restore(system.name, storage=system.storage, options=options)
    again = restored(new_system.made, system, options={"tests.runtime.mortal.Placed": {"num_cpus": 3}})
    assert ray.get(again.get_actor("alice").cpus.remote()) == 3


@pytest.mark.wide("slow")
def test_a_program_that_resumes_gives_the_values_again(cluster, tmp_path):
    def begin(_):
        Placed.options(name="alice", runtime_env={"env_vars": {"WORD": SECRET}}).remote()

    given = {"alice": {"runtime_env": {"env_vars": {"WORD": SECRET}}}}
    for _ in range(2):
        with rayshot.resume("resumed", storage=tmp_path, begin=begin, options=given, takeover=True) as system:
            assert ray.get(system.get_actor("alice").variable.remote("WORD")) == SECRET


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize("kind", ["group", "node"])
def test_a_place_in_one_cluster_is_taken_and_dropped_with_a_warning_at_a_restore(new_system, caplog, kind):
    system = new_system()
    group = placement_group([{"CPU": 1}])
    ray.get(group.ready())
    strategies = {
        "group": PlacementGroupSchedulingStrategy(placement_group=group),
        "node": NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False),
    }
    strategy = strategies[kind]
    alice = Placed.options(name="alice", scheduling_strategy=strategy, num_cpus=1).remote()
    assert ray.get(alice.in_group.remote()) == (kind == "group")
    Placed.options(name="bob", scheduling_strategy="SPREAD").remote()
    system.snapshot()
    with caplog.at_level(logging.WARNING, "rayshot"):
        again = restored(new_system.made, system)
    assert f"alice was placed by a {type(strategy).__name__}" in caplog.text
    assert "bob was placed" not in caplog.text
    assert ray.get(again.get_actor("alice").in_group.remote()) is False
    caplog.clear()
    again.snapshot()
    back = restored(new_system.made, again, options={"alice": {"scheduling_strategy": strategy}})
    assert ray.get(back.get_actor("alice").in_group.remote()) == (kind == "group")
    assert "was placed" not in caplog.text
    back.shutdown()
    remove_placement_group(group)
