"""Lives of actors on real Ray: killed, left, dropped."""

import gc
import pickle
from pathlib import Path
from types import SimpleNamespace

import pydantic
import pytest
import ray

import rayshot
from rayshot.errors import ActorExited, ActorNotFound, ConfigError, NameTaken, UnknownMethod
from rayshot.runtime.wire.host_identity import Ending
from rayshot.runtime.wire.packets import PacketAnswer, Status, pack_answer
from tests.model.workloads_over_ray import Plain
from tests.runtime.healed import STOPS
from tests.runtime.mortal import Frozen, Line, Mortal, Order, Quiet, Unlucky
from tests.waiting import eventually

pytestmark = pytest.mark.ray


def gone(system, *names):
    """By the coordinator: `actors()` would get handles of them again."""
    return eventually(lambda: not set(names) & set(system._client.ask("actors")))


@pytest.mark.acceptance("O4")
def test_an_actor_that_is_killed_handles_what_was_sent_before_and_ends(system):
    alice, bob = Mortal.options(name="alice").remote(), Mortal.options(name="bob").remote()
    before = [alice.add.remote() for _ in range(10)]
    rayshot.kill(alice)
    assert ray.get(before) == list(range(1, 11))
    assert gone(system, "alice")
    with pytest.raises(ray.exceptions.RayActorError, match="'alice' ended"):
        ray.get(alice.add.remote())
    with pytest.raises(ActorNotFound):
        system.get_actor("alice")
    rayshot.kill(alice)
    assert list(system.snapshot().actors) == ["bob"]
    assert ray.get(bob.add.remote()) == 1


@pytest.mark.acceptance("O4")
def test_an_actor_that_ended_makes_room_when_its_results_were_fetched(system):
    alice = Mortal.options(name="alice", num_cpus=20).remote()
    ref = alice.wait.remote(0.1)
    rayshot.kill(alice)
    assert gone(system, "alice")
    assert ray.get(ref) == "awake"
    bob = Mortal.options(name="bob", num_cpus=20).remote()
    assert ray.get(bob.add.remote(), timeout=20) == 1


@pytest.mark.acceptance("O4")
def test_calls_of_an_actor_that_ended_are_made_and_fail_where_their_results_are_asked_for(system):
    alice = Mortal.options(name="alice").remote()
    rayshot.kill(alice)
    assert gone(system, "alice")
    for _ in range(3):  # before this driver knows, and after it
        refs = [alice.add.remote(), alice.say.remote("nothing"), alice.add.options(num_returns=1).remote(2)]
        for ref in refs:
            with pytest.raises(ray.exceptions.RayActorError):
                ray.get(ref)
    eventually(lambda: tell_raises(alice))


def tell_raises(handle):
    try:
        handle.add.tell()
    except ActorExited:
        return True
    return False


@pytest.mark.acceptance("O4")
def test_an_anonymous_actor_ends_when_the_last_handle_is_gone(system):
    alice = Mortal.remote()
    name, add = alice.name, alice.add
    assert ray.get(add.remote()) == 1
    del alice
    gc.collect()
    assert ray.get(add.remote()) == 2
    del add
    assert gone(system, name)
    assert system.dead_letters() == []


WAYS_OUT = {
    "named": lambda system: Mortal.options(name="named").remote(),
    "sent": lambda system: sent(Mortal.remote()),
    "put": lambda system: put(Mortal.remote()),
    "looked up": lambda system: looked_up(system, Mortal.remote()),
    "with a timer": lambda system: reminded(Mortal.remote()),
    "its own handle": lambda system: asked(Mortal.remote()),
}


def sent(handle):
    ray.get(Mortal.options(name="keeper").remote().keep.remote(handle))
    return handle


def put(handle):
    ray.put([handle])
    return handle


def looked_up(system, handle):
    system.get_actor(handle.name)
    return handle


def reminded(handle):
    ray.get(handle.remind.remote())
    return handle


def asked(handle):
    ray.get(handle.own_handle.remote())
    return handle


@pytest.mark.wide("slow")
@pytest.mark.acceptance("O4")
def test_an_actor_of_which_somebody_else_may_have_a_handle_lives_on(system):
    names = [born(WAYS_OUT[way](system)) for way in WAYS_OUT]
    witness = born(Mortal.remote())
    assert gone(system, witness)  # what was dropped before it would have ended before
    assert set(names) <= set(system.actors())


def born(handle):
    ray.get(handle.read.remote())
    return handle.name


@pytest.mark.acceptance("O4")
def test_an_actor_that_another_one_made_ends_when_that_one_lets_go(system):
    maker = Mortal.options(name="maker").remote()
    dropped, kept = ray.get([maker.make_and_drop.remote(), maker.make_and_keep.remote()])
    assert eventually(lambda: system._client.fate(dropped) == f"actor {dropped!r} ended")
    eventually(lambda: kept in system.actors())
    ray.get(maker.let_go.remote())
    assert gone(system, kept)
    returned = ray.get(maker.make_and_return.remote())
    born(returned)
    witness = born(Mortal.remote())
    assert gone(system, witness)
    assert ray.get(returned.add.remote()) == 1


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.acceptance("O4")
@pytest.mark.parametrize("how", ["exit", "exit_actor"])
def test_an_actor_that_leaves_python_ends_in_order(system, how):
    alice, bob = Mortal.options(name="alice").remote(), Mortal.options(name="bob").remote()
    refs = [alice.add.remote(), alice.leave.remote(how), alice.add.remote()]
    assert ray.get(refs[0]) == 1
    for ref in refs[1:]:
        with pytest.raises(ray.exceptions.RayActorError, match="'alice' ended") as raised:
            ray.get(ref)
        assert isinstance(raised.value, ActorExited)
    assert gone(system, "alice")
    bob.leave.tell(how)
    assert gone(system, "bob")
    assert list(system.snapshot().actors) == []


@pytest.mark.acceptance("O4")
def test_a_thread_that_leaves_is_told_what_to_do(system):
    (said,) = ray.get(Mortal.remote().leave_from_a_thread.remote())
    assert "rayshot help porting#exit-actor" in said


@pytest.mark.acceptance("O4")
@pytest.mark.parametrize(
    "fails", [ValueError("no"), Unlucky("rain", times=3), Frozen(7)], ids=lambda error: type(error).__name__
)
def test_callers_of_an_actor_whose_constructor_raised_get_what_it_raised(system, fails):
    alice = Mortal.options(name="alice").remote(fails)
    for _ in range(3):  # from the actor, from a driver that learns of it, and from one that knows
        with pytest.raises(ray.exceptions.RayActorError, match=f"'alice' raised {type(fails).__name__}") as raised:
            ray.get(alice.add.remote())
        error = raised.value
        assert (type(error.cause), error.cause.args, vars(error.cause)) == (type(fails), fails.args, vars(fails))
        assert error.__cause__ is error.cause
        gone(system, "alice")
    assert pickle.loads(pickle.dumps(error)).cause.args == fails.args


@pytest.mark.acceptance("O4")
def test_a_constructor_that_leaves_python_ends_its_actor(system):
    with pytest.raises(ray.exceptions.RayActorError, match=r"raised SystemExit\(4\)"):
        ray.get(Mortal.remote("exit").add.remote())


@pytest.mark.acceptance("O4")
def test_exceptions_come_through_errors_messages_and_results(system):
    alice = Mortal.options(name="alice").remote()
    for error in (Unlucky("rain", times=3), Frozen(7), ValueError("no")):
        with pytest.raises(type(error)) as raised:
            ray.get(alice.fail.remote(error))
        assert raised.value.cause.args == error.args
        assert vars(raised.value.cause).items() >= vars(error).items()
        again = ray.get(alice.give.remote({"why": error}))["why"]
        assert (type(again), again.args, vars(again)) == (type(error), error.args, vars(error))


@pytest.mark.acceptance("O4")
def test_models_of_pydantic_come_through_messages_results_and_states(system):
    alice = Mortal.options(name="alice").remote()
    order = Order(item="tea", lines=[Line(count=2)])
    assert ray.get(alice.give.remote(order)) == order
    ray.get(alice.keep.remote(order))
    with pytest.raises(ray.exceptions.RayTaskError) as raised:  # of no other class: pydantic's can have no subclass
        ray.get(alice.parse.remote({"lines": []}))
    assert isinstance(raised.value.cause, pydantic.ValidationError)
    assert raised.value.cause.errors()[0]["loc"] == ("item",)
    system.snapshot()


@pytest.mark.acceptance("O4")
def test_a_handler_gets_its_own_handle_and_name_from_ray(system):
    alice = Mortal.options(name="alice").remote()
    own, name, added = ray.get(alice.own_handle.remote())
    assert (own, name) == (alice, "alice")
    assert added == "ActorHandle(" + system.name + "/alice)"
    assert ray.get(own.add.remote()) == 2


@pytest.mark.acceptance("O4")
def test_rays_own_methods_of_every_actor(system):
    alice = Mortal.options(name="alice").remote()
    assert ray.get(alice.__ray_ready__.remote()) is True
    assert ray.get(alice.__ray_call__.remote(lambda actor, number: actor.add(number), 3)) == 3
    alice.__ray_terminate__.remote()
    assert gone(system, "alice")


@pytest.mark.acceptance("O4")
def test_the_name_of_an_actor_that_ended_stays_taken_for_drivers_and_actors(system):
    alice, bob = Mortal.options(name="alice").remote(), Mortal.options(name="bob").remote()
    ray.get([alice.add.remote(), bob.add.remote()])
    rayshot.kill(alice)
    assert gone(system, "alice")
    with pytest.raises(ValueError, match="or there was"):
        eventually(lambda: Mortal.options(name="alice").remote())
    with pytest.raises(NameTaken, match="give another name"):
        ray.get(bob.make_named.remote("alice"))
    assert ray.get(bob.add.remote()) == 2
    assert list(system.actors()) == ["bob"]


@pytest.mark.acceptance("O4")
def test_an_actor_that_is_there_is_taken_where_that_is_asked_for(system):
    made = [Mortal.options(name="alice", get_if_exists=True).remote() for _ in range(3)]
    assert ray.get([one.add.remote() for one in made]) == [1, 2, 3]
    with pytest.raises(NameTaken):
        Mortal.options(name="alice").remote()


@pytest.mark.acceptance("O4")
def test_an_actor_that_ended_is_not_taken_for_one_that_is_there(system):
    @ray.remote
    def made_by_a_task(name):
        return Mortal.options(name=name, get_if_exists=True).remote()

    alice, bob = Mortal.options(name="alice").remote(), Mortal.options(name="bob").remote()
    ray.get([alice.add.remote(), bob.add.remote()])
    rayshot.kill(alice)
    assert gone(system, "alice")
    for ask in (
        lambda: Mortal.options(name="alice", get_if_exists=True).remote(),
        lambda: ray.get(made_by_a_task.remote("alice")),
        lambda: ray.get(bob.make_named.remote("alice", get_if_exists=True)),
    ):
        with pytest.raises(NameTaken, match=r"'alice' has ended"):
            ask()
    assert ray.get(ray.get(made_by_a_task.remote("bob")).add.remote()) == 2
    assert ray.get(ray.get(bob.make_named.remote("bob", get_if_exists=True)).add.remote()) == 3
    assert list(system.actors()) == ["bob"]


REFUSED = {
    "ray-kill": ray.kill,
    "ray-get-actor": lambda alice: ray.get_actor("alice"),
    "cancel": lambda alice: ray.cancel(alice.add.remote()),
    "dag-bind": lambda alice: alice.add.bind(),
    "num-returns": lambda alice: alice.add.options(num_returns=2).remote(),
    "generators": lambda alice: alice.rows.remote(),
    "retry-exceptions": lambda alice: alice.add.options(retry_exceptions=True).remote(),
    "concurrency-groups": lambda alice: alice.add.options(concurrency_group="io").remote(),
}


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.acceptance("O7")
@pytest.mark.parametrize("line", REFUSED)
def test_what_cannot_be_leads_on(system, line):
    alice = Mortal.options(name="alice").remote()
    ray.get(alice.add.remote())
    with pytest.raises((ConfigError, UnknownMethod), match=rf"rayshot help porting#{line}"):
        REFUSED[line](alice)
    assert ray.get(alice.add.remote()) in (2, 3)


@pytest.mark.acceptance("O7")
def test_rays_functions_do_for_rays_own_what_they_did(system):
    plain = ray.remote(Plain).options(name="plain").remote(1)
    assert ray.get(ray.get_actor("plain").read.remote()) == 1
    ray.cancel(plain.read.remote())
    ray.kill(plain)
    with pytest.raises(ray.exceptions.RayActorError):  # a call may still come before the end
        eventually(lambda: ray.get(plain.read.remote()) is None)
    with pytest.raises(ValueError, match="nobody"):
        ray.get_actor("nobody")


@pytest.mark.acceptance("O7")
def test_a_plain_actor_may_have_the_name_of_an_actor_of_the_system(system):
    alice = Mortal.options(name="alice").remote()
    ray.get(alice.add.remote())
    plain = ray.remote(Plain).options(name="alice").remote(1)
    assert ray.get(plain.read.remote()) == 1
    assert ray.get(ray.get_actor("alice").read.remote()) == 1
    assert ray.get(system.get_actor("alice").add.remote()) == 2


@pytest.mark.acceptance("O7")
def test_a_method_that_returns_nothing(system):
    alice = Quiet.options(name="alice").remote()
    assert alice.note.remote("a") is None
    assert alice.note.options(num_returns=1).remote("b") is not None
    assert alice.words.options(num_returns=0).remote() is None
    assert ray.get(alice.words.options(name="reading").remote()) == ["a", "b"]


def printed(words):
    """The lines that the process which prints these words has printed, with those that are for Ray's log monitor."""
    logs = Path(ray._private.worker._global_node.get_logs_dir_path())
    return next((text.splitlines() for path in logs.glob("worker*.out") if words in (text := path.read_text())), None)


@pytest.mark.acceptance("O4")
def test_rays_log_lines_begin_with_the_actors_own_words(new_system):
    system = new_system()
    alice = Mortal.options(name="alice").remote()
    ray.get([alice.add.remote(), alice.say.remote("a word of the first life")])
    lines = eventually(lambda: printed("a word of the first life"))
    assert lines[-2:] == [":actor_name:Mortal-0-and-well", "a word of the first life"]
    system.snapshot()
    system.shutdown()
    new_system.made.append(restored := rayshot.restore(system.name, storage=system.storage))
    ray.get(restored.get_actor("alice").say.remote("a word of the second life"))
    lines = eventually(lambda: printed("a word of the second life"))
    assert lines[-2:] == [":actor_name:Mortal-1-and-well", "a word of the second life"]


@pytest.mark.wide("slow")
@pytest.mark.acceptance("O4")
def test_an_end_that_is_under_way_is_in_the_snapshot_and_does_its_work_after_a_restore(new_system):
    system = new_system()
    alice, bob = Mortal.options(name="alice").remote(), Mortal.options(name="bob").remote()
    ray.get([alice.read.remote(), bob.read.remote()])
    alice.wait.tell(1.0)
    bob.kill.tell(alice)
    ray.get(bob.read.remote())
    snapshot = system.snapshot()
    system.shutdown()
    new_system.made.append(restored := rayshot.restore(system.name, storage=system.storage))
    assert gone(restored, "alice")
    assert [message.kind for message in snapshot.channel("bob", "alice").messages] in ([], ["end"])


@pytest.mark.acceptance("O4")
def test_an_actor_of_which_the_handle_is_got_again_right_after_it_was_dropped_lives_on(system):
    name = born(Mortal.remote())  # its handle is gone here, and its end waits
    again = system.get_actor(name)
    assert ray.get(again.add.remote()) == 1
    witness = born(Mortal.remote())
    assert gone(system, witness)  # what was dropped before it would have ended before
    assert ray.get(again.add.remote()) == 2


@pytest.mark.acceptance("O4")
def test_what_is_told_to_an_actor_that_ends_or_has_ended_is_a_dead_letter_and_an_order_to_end_is_none(system, caplog):
    alice, bob = Mortal.options(name="alice").remote(), Mortal.options(name="bob").remote()
    assert ray.get([alice.read.remote(), bob.read.remote()]) == [0, 0]
    alice.wait.tell(0.5)  # what follows has arrived when the actor ends, if this machine is not too busy
    rayshot.kill(alice)
    rayshot.kill(alice)
    alice.add.tell()
    assert gone(system, "alice")
    eventually(lambda: letters(system) == [("alice", "add")])
    rayshot.kill(bob)
    assert gone(system, "bob")
    bob.add.tell()  # this program does not know yet
    eventually(lambda: letters(system) == [("alice", "add"), ("bob", "add")])
    assert "1 messages to bob have no receiver: actor 'bob' ended" in caplog.text


@pytest.mark.acceptance("O4")
def test_an_answer_that_comes_when_the_end_of_its_sender_is_known_is_heeded_no_more(system, monkeypatch):
    alice, answers = Mortal.options(name="alice").remote(), []
    assert ray.get(alice.read.remote()) == 0
    channel = system._port.session.channel("alice")
    eventually(lambda: not channel.in_flight)
    monkeypatch.setattr(channel.peer, "receive", lambda _packet: SimpleNamespace(_on_completed=answers.append))
    alice.add.tell()
    with system._port.session.lock:
        system._port.life.end("alice", Ending("actor 'alice' ended"))
    (take,) = answers
    take(pack_answer(PacketAnswer(Status.TAKEN, 1)))
    with pytest.raises(ActorExited):
        alice.add.tell()


def letters(system):
    return [(letter.receiver, letter.method) for letter in system.dead_letters()]


@pytest.mark.wide("slow")
@pytest.mark.acceptance("O4")
def test_of_actors_that_were_made_and_dropped_a_driver_remembers_only_why_the_last_ones_ended(new_system, monkeypatch):
    system = new_system(failure=STOPS)

    def remembering():
        session, life = system._port.session, system._port.life
        tables = {**vars(life), **vars(session), "known": life.peers._known, "unborn": session.creations._unborn}
        tables["machine"] = session.machine._channels
        kept = {name: table for name, table in tables.items() if isinstance(table, dict | set)}
        return {name for name, table in kept.items() if any(actor in names for actor in table)}

    monkeypatch.setattr("rayshot.runtime.driver.life.ENDED_KEPT_MAX", 2)
    names = [born(Mortal.remote()) for _ in range(4)]
    assert gone(system, *names)
    eventually(lambda: remembering() == {"ended"}, 60)
    assert len(system._port.life.ended) == 2


@pytest.mark.acceptance("O4")
def test_a_snapshot_does_not_miss_what_was_told_to_an_actor_that_ended(system, caplog):
    alice, bob = Mortal.options(name="alice").remote(), Mortal.options(name="bob").remote()
    assert ray.get([alice.add.remote(), bob.add.remote()]) == [1, 1]
    rayshot.kill(alice)
    assert gone(system, "alice")
    for _ in range(2):
        assert system.snapshot().left_out == {}
    assert "does not hold" not in caplog.text
