"""Async actors on Ray: one loop for the actor's life, handlers one at a time."""

import socket
import threading

import pytest
import ray

import rayshot
from rayshot.errors import SnapshotAborted, TaskLeftBehind, WaitsForHandler
from tests.runtime.asynchronous import Busy, Holder, Session
from tests.waiting import eventually

pytestmark = [pytest.mark.ray, pytest.mark.acceptance("O5")]


@pytest.fixture
def echo_server():
    """A server that sends each line back, and closes all connections where it is told to; (its port, that)."""
    open_connections = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve(connection):
            with connection, connection.makefile("rwb") as stream:
                for line in stream:
                    stream.write(line)
                    stream.flush()

        def accept():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                open_connections.append(connection)
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

        def close_all():
            for connection in open_connections:
                connection.shutdown(socket.SHUT_RDWR)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield server.getsockname()[1], close_all
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.wide("slow")
def test_what_a_handler_opens_serves_the_next_handlers_and_a_restore_opens_it_again(new_system, echo_server):
    port, close_all = echo_server
    system = new_system()
    session = Session.options(name="session").remote(port)
    assert ray.get([session.echo.remote(text) for text in ("a", "b", "c")]) == ["a", "b", "c"]
    assert ray.get(session.how_often_opened.remote()) == 1
    system.snapshot()
    close_all()
    eventually(lambda: ray.get(session.knows_that_it_is_closed.remote()))
    system.shutdown()
    restored = rayshot.restore(system.name, storage=system.storage)
    new_system.made.append(restored)
    session = restored.get_actor("session")
    assert ray.get(session.echo.remote("d")) == "d"
    assert ray.get(session.how_often_opened.remote()) == 2


def test_what_belongs_to_a_loop_cannot_be_captured_and_a_lock_that_was_used_can(system, echo_server):
    port, _ = echo_server
    holder = Holder.options(name="holder").remote()
    for hold, path in (
        (holder.hold_loop.remote, r"holder\['state'\]\['inner'\]\['loop'\] cannot .*an event loop"),
        (
            lambda: holder.hold_connection.remote(port),
            r"holder\['state'\]\['connection'\]\[0\]\._loop cannot .*an event loop",
        ),
    ):
        ray.get(hold())
        with pytest.raises(SnapshotAborted, match=f"{path}.*__getstate__"):
            system.snapshot()
        ray.get(holder.let_go.remote())
    ray.get(holder.hold_semaphore.remote())
    assert system.snapshot().state("holder")["semaphore"] is not None
    ray.get(holder.use.remote())


def test_a_task_that_is_left_behind_is_an_error_and_does_nothing_any_more(system):
    busy = Busy.options(name="busy").remote("")
    with pytest.raises(TaskLeftBehind, match=r"'busy'.*Busy\.tick \(asynchronous\.py:\d+\)"):
        ray.get(busy.tick_in_background.remote())
    assert ray.get(busy.run.remote())
    ticks = ray.get(busy.ticked.remote())
    ray.get(busy.nap.remote())
    assert ray.get(busy.ticked.remote()) == ticks, "it ended with its handler"
    busy.tick_in_background.tell()
    (letter,) = eventually(system.dead_letters)
    assert "TaskLeftBehind" in letter.error


@pytest.mark.wide("slow")
def test_a_handler_that_waits_for_another_one_is_given_up_and_the_next_one_runs(system):
    busy = Busy.options(name="busy").remote("")
    waiting, setting = busy.wait.remote(), busy.set.remote()
    with pytest.raises(WaitsForHandler, match=r"'busy'.*one at a time"):
        ray.get(waiting)
    ray.get([setting, busy.wait.remote()])


def test_plain_handlers_may_run_coroutines_by_themselves(system):
    busy = Busy.options(name="busy").remote("")
    on_loop = ray.get(busy.run_on_the_loop_of_the_thread.remote())
    for name, thread in (on_loop, *ray.get([busy.where.remote(), busy.run.remote(), busy.where.remote()])):
        assert name == "busy"
        assert thread.startswith("asyncio_")


def test_generators_of_an_actor_end_with_it(system, tmp_path):
    busy = Busy.options(name="busy").remote(str(tmp_path / "closed"))
    assert ray.get(busy.begin_generator.remote()) == 1
    busy.leave.tell()
    eventually((tmp_path / "closed").exists)
