"""Hooks of an actor's class: `on_rollback` on the old object, `on_restore` on the new one, on the handlers' thread."""

import logging

import pytest
import ray

import rayshot
from rayshot.errors import CodeMismatch, HookFailed, RestoreFailed
from tests.runtime.healed import (
    Post,
    be_impatient,
    kill,
    pid_of,
    restoring_where,
    ring,
    starts_processes,
    until_it_runs,
    until_it_stops,
)
from tests.runtime.hooked import Clerk, Odd, Teller
from tests.waiting import eventually

pytestmark = pytest.mark.ray


def odd(system, tmp_path):
    """An actor with hooks, in a system with a ring of others and a snapshot; and what makes its hooks do things."""
    ring()
    actor = Odd.options(name="odd").remote(str(tmp_path))
    ray.get(actor.read.remote())
    system.snapshot()
    return lambda what: (tmp_path / what).touch()


def test_the_old_object_closes_its_files_and_the_new_one_opens_them_on_the_thread_of_the_handlers(system, tmp_path):
    ring()
    clerk = Clerk.options(name="clerk").remote(str(tmp_path))
    ray.get(clerk.add.remote())
    system.snapshot()
    pid = pid_of(system, "clerk")
    clerk.add.tell()
    ray.get(clerk.read.remote())
    kill(system, "post1")
    until_it_runs(system)
    system.wait_until_running(30)
    assert ray.get(clerk.read.remote()) == 2
    expected = [f"adds {pid} 1", f"adds {pid} 2", f"goes back {pid} 2", f"is back {pid} 1", f"adds {pid} 2"]
    assert ray.get(clerk.said.remote()) == expected


def test_an_actor_that_was_killed_hears_only_in_its_new_process_that_it_is_back(system, tmp_path):
    ring()
    clerk = Clerk.options(name="clerk").remote(str(tmp_path))
    ray.get(clerk.add.remote())
    system.snapshot()
    before = pid_of(system, "clerk")
    kill(system, "clerk")
    after = until_it_runs(system)["actors"]["clerk"]["pid"]
    system.wait_until_running(30)
    assert ray.get(clerk.said.remote()) == [f"adds {before} 1", f"is back {after} 1"]


def test_a_restore_and_a_restart_call_on_restore_too(system, tmp_path):
    clerk = Clerk.options(name="clerk").remote(str(tmp_path))
    ray.get(clerk.add.remote())
    later = system.restart()
    said = ray.get(later.get_actor("clerk").said.remote())
    assert [what.rsplit(" ", 2)[0] for what in said] == ["adds", "is back"]
    later.shutdown()
    with rayshot.restore(later.name, storage=later.storage) as again:
        said = ray.get(again.get_actor("clerk").said.remote())
        assert [what.rsplit(" ", 2)[0] for what in said] == ["adds", "is back", "is back"]


def test_an_error_in_on_rollback_keeps_nobody_from_going_back(system, tmp_path):
    odd(system, tmp_path)("on_rollback-raises")
    before = pid_of(system, "odd")
    kill(system, "post1")
    assert until_it_runs(system)["actors"]["odd"]["pid"] == before


def test_an_on_rollback_that_takes_too_long_is_interrupted(system, tmp_path):
    odd(system, tmp_path)("on_rollback-sleeps")
    before = pid_of(system, "odd")
    kill(system, "post1")
    assert until_it_runs(system)["actors"]["odd"]["pid"] == before
    assert not (tmp_path / "on_rollback-ended").exists()


def test_the_process_of_an_on_rollback_that_does_not_end_is_replaced(system, tmp_path):
    odd(system, tmp_path)("on_rollback-hangs")
    before = pid_of(system, "odd")
    kill(system, "post1")
    assert until_it_runs(system)["actors"]["odd"]["pid"] != before


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize("killed", ["post1", "odd"])
def test_an_error_in_on_restore_stops_a_system_that_goes_back_and_names_the_actor(system, tmp_path, killed):
    odd(system, tmp_path)("on_restore-raises")
    be_impatient(system)
    kill(system, killed)
    why = until_it_stops(system)
    assert "actor 'odd': tests.runtime.hooked.Odd.on_restore raised OSError('no such socket')" in why


@pytest.mark.wide("slow")
@pytest.mark.parametrize(("killed", "what"), [("post1", "raises"), ("odd", "raises"), ("post1", "is_cancelled")])
def test_on_restore_is_called_again_until_what_it_needs_is_there(system, tmp_path, killed, what):
    odd(system, tmp_path)(f"on_restore-{what}")
    kill(system, killed)
    eventually(lambda: "on_restore raised" in system.status().detail, 20)
    (tmp_path / f"on_restore-{what}").unlink()
    until_it_runs(system)
    system.wait_until_running(30)
    assert ray.get(system.get_actor("odd").read.remote()) == []


@pytest.mark.wide("slow")
@pytest.mark.acceptance("S3")
@pytest.mark.parametrize("killed", ["post1", "odd"])
def test_a_state_is_loaded_again_until_what_its_class_asks_outside_answers(system, tmp_path, killed):
    odd(system, tmp_path)("set_state-raises")
    kill(system, killed)
    eventually(lambda: "Odd does not take the recorded state: ConnectionRefusedError" in system.status().detail, 20)
    (tmp_path / "set_state-raises").unlink()
    until_it_runs(system)
    system.wait_until_running(30)
    assert ray.get(system.get_actor("odd").read.remote()) == []


@pytest.mark.acceptance("S3")
def test_a_state_that_kills_its_process_is_named_with_its_actor(system, tmp_path):
    odd(system, tmp_path)("set_state-kills")
    be_impatient(system)
    kill(system, "post1")
    assert "odd died while its state was loaded" in until_it_stops(system)


def test_an_error_in_on_restore_fails_a_restore(system, tmp_path, monkeypatch):
    restoring_where(monkeypatch, starts_processes(2))
    odd(system, tmp_path)("on_restore-raises")
    system.shutdown()
    with pytest.raises(RestoreFailed, match="no such socket") as raised:
        rayshot.restore(system.name, storage=system.storage)
    assert isinstance(raised.value.__cause__, HookFailed)


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.acceptance("S3")
@pytest.mark.parametrize("hook", ["set_state", "on_restore"])
def test_a_restore_loads_an_actor_again_until_what_it_asks_outside_answers(new_system, tmp_path, hook):
    system = new_system()
    odd(system, tmp_path)(f"{hook}-raises")
    system.shutdown()
    said = []

    class Mends(logging.Handler):
        """What refused answers again as soon as the program has said that it refuses."""

        def emit(self, record):
            if "is loaded again" in record.getMessage():
                said.append(record.getMessage())
                (tmp_path / f"{hook}-raises").unlink()

    log, mends = logging.getLogger("rayshot"), Mends(logging.WARNING)
    log.addHandler(mends)
    try:
        restored = rayshot.restore(system.name, storage=system.storage)
    finally:
        log.removeHandler(mends)
    new_system.made.append(restored)
    assert ray.get(restored.get_actor("odd").read.remote()) == []
    (text,) = said
    assert text.startswith(f"restoring system {system.name!r}: actor 'odd': ")
    assert "no such" in text
    assert text.endswith(". It is loaded again")


@pytest.mark.acceptance("S3")
def test_a_restore_loads_an_actor_twice_whose_class_does_not_take_its_state(system, tmp_path):
    odd(system, tmp_path)("set_state-mistakes")
    system.shutdown()
    with pytest.raises(RestoreFailed, match="takes no such state") as raised:
        rayshot.restore(system.name, storage=system.storage)
    assert type(raised.value.__cause__) is CodeMismatch
    assert (tmp_path / "set_state-mistakes").read_text() == ".."


def test_what_on_restore_tells_arrives_in_the_new_life(system):
    ear = Post.options(name="ear").remote()
    tellers = [Teller.options(name=f"teller{k}").remote(ear) for k in range(3)]
    ray.get([teller.ready.remote() for teller in tellers])
    ring()
    system.snapshot()
    kill(system, "post0", "ear", "teller1")
    now = until_it_runs(system)
    system.wait_until_running(30)
    pids = {now["actors"][f"teller{k}"]["pid"] for k in range(3)}
    told = eventually(lambda: (heard := ray.get(ear.told.remote())) and len(heard) == 6 and heard, 10)
    assert set(told) == pids | {0}
