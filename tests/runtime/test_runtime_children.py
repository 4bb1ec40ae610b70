"""How an actor's own worker names the anonymous actors that its handlers make; no Ray."""

import threading
from unittest.mock import Mock

import pytest

import rayshot
from rayshot.errors import NameTaken
from rayshot.model.child_names import child_name
from rayshot.model.port import swap_port
from rayshot.model.specification import ActorSpecification
from rayshot.runtime.actor import spawning
from rayshot.runtime.actor.host import Host
from rayshot.runtime.actor.incarnation import Incarnation
from rayshot.runtime.actor.process import ActorProcess
from rayshot.runtime.actor.worker import Worker
from rayshot.runtime.wire.packets import pack_packet
from tests.runtime.one_process import CODEC, identity_of
from tests.runtime.workloads import Account
from tests.waiting import eventually

CREATION = CODEC.tell("__init__", (), {})


class Maker:
    """Makes actors in handlers, on its own thread and on others."""

    def __init__(self):
        self.made = []

    def rest(self):
        pass

    def make(self, count=1):
        self.made += [Account.remote(1).name for _ in range(count)]

    async def make_later(self):
        self.make()

    def make_elsewhere(self):
        thread = threading.Thread(target=self.make)
        thread.start()
        thread.join()

    def fail(self):
        self.make()
        raise RuntimeError


@pytest.fixture
def maker(monkeypatch):
    """Starts the worker of alice, a Maker, and tells it methods: returns the names of what it makes.

    `taken` are the names of actors that are there.
    """
    processes = []

    def run(*batches, taken=(), trace=False):
        def spawn(_host, _identity, _specification, name):
            if name in taken:
                raise NameTaken(name)
            return Mock()

        monkeypatch.setattr(spawning, "spawn_host", spawn)
        process = ActorProcess(identity_of("alice", trace=trace), Host)
        process.channels.connect = lambda _channel: None
        swap_port(lambda: process)
        processes.append(process)
        host = Host.__new__(Host)
        host._incarnation = Incarnation(process, Worker(process))
        host._worker.start()
        specification = ActorSpecification.of(Maker, {}).pack()
        first = [CODEC.create(specification, CREATION), *(CODEC.tell(*tell) for tell in batches[0])]
        numbered = 1
        for batch in [first, *([CODEC.tell(*tell) for tell in batch] for batch in batches[1:])]:
            host.receive(pack_packet("driver:x", 1, numbered, len(batch), b"".join(batch)))
            numbered += len(batch)
        eventually(lambda: process.channels.mailbox.processed.get("driver:x") == numbered - 1)
        return process.cell.instance.made

    before = swap_port(None)
    yield run
    for process in processes:
        with process.runner.lock:
            process.shut(rayshot.errors.SystemStopped("the test is over"))
    swap_port(before)


def names(*made_by):
    return [child_name("Account", "alice", "driver:x", *one) for one in made_by]


@pytest.mark.parametrize("trace", [False, "full"])
def test_each_message_of_a_batch_has_names_of_its_own(maker, trace):
    batch = [("make", (2,)), ("rest", ()), ("make_later", ()), ("fail", ()), ("make", ())]
    expected = names((2, 0), (2, 1), (4, 0), (5, 0), (6, 0))
    assert maker(batch, trace=trace) == expected


def test_names_do_not_depend_on_how_messages_came_in_batches(maker):
    tells = [("make", ()) for _ in range(6)]
    expected = names(*((number, 0) for number in range(2, 8)))
    assert maker(tells) == maker(tells[:2], tells[2:3], tells[3:]) == expected


def test_another_thread_of_a_handler_makes_random_names(maker):
    first, second = maker([("make_elsewhere", ())]), maker([("make_elsewhere", ())])
    assert len({*first, *second, *names((2, 0))}) == 3


def test_names_that_are_taken_are_passed_over(maker):
    taken = names((2, 0), (2, 1))
    assert maker([("make", (2,))], taken=taken) == names((2, 2), (2, 3))
