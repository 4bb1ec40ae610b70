"""The decorator on real Ray: under and over `@ray.remote`, with Ray's options; old handles; refused messages."""

import time

import pytest
import ray

import rayshot
from rayshot.errors import ConfigError, MessageTooLarge, NotAnObjectRef, SystemStopped
from tests.model.workloads_over_ray import Alone, Light, Outsider, Plain, RayOver, RayUnder
from tests.waiting import eventually

pytestmark = pytest.mark.ray
PATIENCE_S = 5.0


def subclass():
    """For a test of its own: what it decorates stays decorated."""
    return type("Subclass", (Plain,), {"__module__": "__main__"})  # workers get it by value


def cpus(handle):
    return ray.get(handle.resources.remote()).get("CPU", 0)


def test_decorators_in_either_order_make_actors_that_are_in_a_snapshot(system):
    classes = {"over": RayOver, "under": RayUnder, "alone": Alone}
    named = {name: made.options(name=name).remote(7) for name, made in classes.items()}
    nameless = [made.remote(8) for made in classes.values()]
    handles = [*named.values(), *nameless]
    assert all(isinstance(handle, rayshot.ActorHandle) for handle in handles)
    assert ray.get([handle.read.remote() for handle in handles]) == [7, 7, 7, 8, 8, 8]
    assert [cpus(handle) for handle in handles] == [2, 0, 3, 2, 0, 3]
    snapshot = system.snapshot()
    assert sorted(snapshot.actors) == sorted(handle.name for handle in handles)
    kept = [snapshot.recorded(handle.name).state["number"] for handle in handles]
    assert kept == [7, 7, 7, 8, 8, 8]


def test_options_of_one_actor_reach_ray_or_are_refused_by_it(system):
    over = RayOver.options(name="over", num_cpus=1).remote(7)
    under = RayUnder.options(name="under", num_cpus=4).remote(8)
    assert [cpus(over), cpus(under)] == [1, 4]
    for user_class in (RayOver, RayUnder, Alone):
        with pytest.raises(ConfigError, match="Ray refuses the options of actor 'alice'"):
            user_class.options(name="alice", num_cpus=-1).remote(7)
        with pytest.raises(ConfigError, match="max_concurrency"):
            user_class.options(max_concurrency=2)
    assert sorted(system.actors()) == ["over", "under"]


@pytest.mark.acceptance("O4")
def test_options_for_actors_that_die_are_taken_with_a_warning(system):
    with pytest.warns(UserWarning, match="max_restarts=3"):
        under = rayshot.actor(ray.remote(max_restarts=3)(subclass()))
    over = ray.remote(max_restarts=3)(rayshot.actor(subclass()))
    with pytest.warns(UserWarning, match="max_restarts=3"):
        handles = [under.remote(1), over.remote(2)]
    assert ray.get([handle.read.remote() for handle in handles]) == [1, 2]


@pytest.mark.parametrize("options", [{"lifetime": "detached"}, {"max_concurrency": 4}], ids=repr)
def test_options_given_to_ray_that_do_not_go_with_rayshot_are_refused(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        rayshot.actor(ray.remote(**options)(subclass()))
    over = ray.remote(**options)(rayshot.actor(subclass()))
    with pytest.raises(ConfigError, match=next(iter(options))):
        over.remote(1)


@pytest.mark.wide("slow")
def test_a_handle_of_an_earlier_life_reaches_the_later_one_and_is_refused_at_once_where_none_runs(new_system):
    system = new_system()
    used, unused = Light.options(name="alice").remote(5), Light.options(name="bob").remote(6)
    outsiders = {"tell": Outsider.remote(), "remote": Outsider.remote()}
    refs = [outsider.attach.remote(system.name, system.storage) for outsider in outsiders.values()]
    assert ray.get([used.read.remote(), *refs]) == [5, 5, 5]
    system.snapshot()
    restored = restored_after_shutdown(new_system.made, system)
    for handle in (used, unused):
        handle.add.tell(1)
        ray.get(handle.add.remote(1))
    assert ray.get([restored.get_actor(name).read.remote() for name in ("alice", "bob")]) == [7, 8]
    restored.shutdown()
    began = time.monotonic()
    for handle in (used, unused):
        for send in (handle.add.tell, handle.add.remote):
            with pytest.raises(SystemStopped, match="shut down"):
                send(1)
    refused = [outsider.send_until_refused.remote(kind, PATIENCE_S) for kind, outsider in outsiders.items()]
    assert [kind for kind, _ in ray.get(refused)] == ["SystemStopped"] * 2
    assert time.monotonic() - began < 3 * PATIENCE_S


def restored_after_shutdown(made, system):
    system.shutdown()
    made.append(rayshot.restore(system.name, storage=system.storage))
    return made[-1]


def test_an_actor_belongs_to_the_system_that_is_named_and_none_is_chosen_behind_the_end_of_another(
    new_system, tmp_path
):
    first, second = (new_system(name, storage=tmp_path / name) for name in ("first", "second"))
    assert ray.get(RayUnder.options(name="of-second", system="second").remote(1).read.remote()) == 1
    assert list(second.actors()) == ["of-second"]
    second.shutdown()
    for under in (RayUnder, RayUnder.options(name="nobody")):
        with pytest.raises(ConfigError, match=r"any of the systems first, second \(shut down\): say which"):
            under.remote(1)
    assert ray.get(RayUnder.options(name="of-first", system=first).remote(1).read.remote()) == 1
    assert list(first.actors()) == ["of-first"]


def test_a_message_for_which_there_is_no_room_is_its_handlers_error_and_the_actor_lives(system):
    alice, bob = Light.options(name="alice").remote(0), Light.options(name="bob").remote(0)
    ray.get(alice.have_no_room.remote())
    with pytest.raises(MessageTooLarge, match="object store has no room"):
        ray.get(alice.send.remote(bob, 2 << 20))
    alice.send.tell(bob, 2 << 20)
    assert ray.get(alice.read.remote()) == 2
    (letter,) = eventually(system.dead_letters)
    assert letter.receiver == "alice"
    assert "MessageTooLarge" in letter.error
    assert ("alice", "bob") not in system.snapshot().channels
    assert ray.get(bob.read.remote()) == 0


def test_a_result_that_cannot_be_sent_is_its_drivers_error(system):
    alice, bob = Light.options(name="alice").remote(0), Light.options(name="bob").remote(0)
    with pytest.raises(NotAnObjectRef):
        ray.get(alice.ask_and_give.remote(bob))


def test_a_result_that_cannot_be_sent_is_its_callers_error(system):
    alice, bob = Light.options(name="alice").remote(0), Light.options(name="bob").remote(0)
    ray.get(bob.have_no_room.remote())
    alice.ask.tell(bob, 2 << 20)
    assert eventually(lambda: ray.get(alice.read.remote()), 2) == "MessageTooLarge"
