"""Batches that leave with the answer to the call that brought a question; see rayshot/runtime/actor/boarding.py."""

import random

import pytest

import rayshot
from rayshot.runtime.actor.boarding import ACK_S, BOARDING_S
from rayshot.runtime.door import door
from rayshot.runtime.wire.packets import unpack_answer
from tests.fake.account import Account, new_gate
from tests.fake.door import fake
from tests.fake.schedule import Choices
from tests.fake.system import actor, begin, process_of
from tests.fake.workers import Server, Worker, end_of

ITEMS = [*range(20)]


@rayshot.actor(capture="inline")
class Consumer:
    def __init__(self, queue):
        self.queue, self.got = queue, []

    def loop(self, count):
        for item in rayshot.loop(self.queue.get):
            self.got.append(item)
            if len(self.got) == count:
                break

    def ask(self, count):
        for _ in range(count):
            self.got.append(self.queue.get())

    def read(self):
        return self.got


@rayshot.actor(capture="inline")
class Slow:
    """Answers when its gate opens."""

    def answer(self, gate):
        Account.gates[gate].wait()
        return "late"


@rayshot.actor(capture="inline")
class Patient:
    def __init__(self, slow):
        self.slow, self.got = slow, None

    def ask(self, gate):
        self.got = rayshot.get(self.slow.answer.remote(gate))

    def read(self):
        return self.got


def consumer_of(items):
    queue = rayshot.Queue(actor_options={"name": "queue"})
    consumer = Consumer.options(name="consumer").remote(queue)
    queue.put_nowait_batch(items)
    return consumer


def channels(cluster):
    """From the queue to the consumer, and back."""
    there, back = (process_of(cluster, name).channels.out for name in ("queue", "consumer"))
    return there["consumer"], back["queue"]


def check_rest(cluster):
    """All has arrived, and both sides know it."""
    cluster.schedule.pass_s(2 * ACK_S + 1.0)
    assert [(one.in_flight, one.riders, one.acks) for one in channels(cluster)] == [({}, 0, ())] * 2


@pytest.mark.parametrize("way", ["loop", "ask"])
def test_who_asks_a_queue_costs_one_call_of_rays_for_each_item(cluster, system, way):
    consumer = consumer_of(ITEMS)
    door.get(getattr(consumer, way).remote(1))  # now both know each other
    check_rest(cluster)
    before = cluster.counts["receive"]
    door.get(getattr(consumer, way).remote(len(ITEMS) if way == "loop" else len(ITEMS) - 1))
    check_rest(cluster)
    others = 2  # the program's call, and the last ack
    assert cluster.counts["receive"] - before <= len(ITEMS) - 1 + others
    assert door.get(consumer.read.remote()) == ITEMS


def test_a_handler_that_takes_long_answers_by_a_call(cluster, system):
    slow = Slow.options(name="slow").remote()
    patient = Patient.options(name="patient").remote(slow)
    new_gate("answer").set()
    door.get(patient.ask.remote("answer"))  # now both know each other
    gate = new_gate("answer")
    asked = patient.ask.remote("answer")
    cluster.until(lambda: actor(cluster, "slow").run.instance._worker.handling)
    cluster.schedule.pass_s(1.0)
    before = cluster.counts["receive"]
    gate.set()
    door.get(asked)
    assert cluster.counts["receive"] == before + 1
    assert door.get(patient.read.remote()) == "late"


@pytest.mark.parametrize("lost", ["call", "answer"])
@pytest.mark.parametrize("which", range(1, 5))
def test_what_is_lost_on_the_way_comes_again_once(cluster, system, monkeypatch, lost, which):
    consumer = consumer_of(ITEMS)
    door.get(consumer.loop.remote(1))
    queue, seen = actor(cluster, "queue"), []

    def fate(call):
        if call.process is queue and call.marks.name == "receive":
            seen.append(call)
            return "lost" if len(seen) == which else "arrives"
        return "arrives"

    monkeypatch.setattr(cluster, f"fate_of_{lost}", fate)
    door.get(consumer.loop.remote(len(ITEMS)))
    assert len(seen) > which
    assert door.get(consumer.read.remote()) == ITEMS
    check_rest(cluster)


@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_lost_each_item_comes_once_in_order(seed):
    with fake(Choices.of_seed(seed)) as cluster:
        begin()
        consumer = consumer_of(ITEMS)
        cluster.faulty = {"receive", "receive_with", "await_credit"}
        cluster.fates_of_calls = cluster.fates_of_answers = (*["arrives"] * random.Random(seed).randint(1, 6), "lost")
        looped = consumer.loop.remote(len(ITEMS) // 2)
        asked = consumer.ask.remote(len(ITEMS) - len(ITEMS) // 2)
        door.get(looped)
        door.get(asked)
        cluster.fates_of_calls = cluster.fates_of_answers = ("arrives",)
        assert door.get(consumer.read.remote()) == ITEMS
        check_rest(cluster)


def known_consumer(cluster):
    """One that has taken the first item: it and the queue know each other, and nothing is on its way."""
    consumer = consumer_of(ITEMS)
    door.get(consumer.loop.remote(1))
    check_rest(cluster)
    return consumer


def tell_consumer(cluster, there):
    """The queue tells the consumer something, which nobody waits for."""
    there.append(process_of(cluster, "queue").codec.tell("read", ()))


def test_nothing_rides_with_the_answer_to_a_batch_that_was_here_before(cluster, system):
    consumer = known_consumer(cluster)
    there, back = channels(cluster)
    packets = []
    receive = back.peer.receive
    back.peer.receive = lambda packet: packets.append(packet) or receive(packet)
    door.get(consumer.loop.remote(2))
    check_rest(cluster)
    answer = receive(next(packet for packet in packets if b"get" in packet))  # Ray may bring a lost call late
    cluster.schedule.settle()
    tell_consumer(cluster, there)
    assert not unpack_answer(door.get(answer)).rider
    check_rest(cluster)
    assert door.get(consumer.read.remote()) == ITEMS[:2]


def test_an_ack_that_leaves_alone_and_is_lost_comes_again(cluster, system, monkeypatch):
    consumer = known_consumer(cluster)
    door.get(consumer.loop.remote(2))
    assert channels(cluster)[1].acks
    lost = []

    def fate(call):
        return "arrives" if lost or call.process is not actor(cluster, "queue") else lost.append(call) or "lost"

    monkeypatch.setattr(cluster, "fate_of_call", fate)
    check_rest(cluster)
    assert lost


def test_what_nobody_waits_for_does_not_wait_for_the_ack_of_a_rider(cluster, system):
    consumer = known_consumer(cluster)
    door.get(consumer.loop.remote(2))
    there, _ = channels(cluster)
    assert there.riders
    tell_consumer(cluster, there)
    assert not there.pending


def test_a_call_that_brings_a_question_waits_no_longer_than_the_worker_has_something_to_do(cluster, system):
    consumer = known_consumer(cluster)
    door.get(consumer.loop.remote(len(ITEMS)))
    check_rest(cluster)
    began_s = cluster.schedule.now_s
    asked = consumer.ask.remote(1)
    waiting = process_of(cluster, "queue").cell.instance.getters
    cluster.until(lambda: len(waiting) == 1)
    cluster.schedule.settle()
    assert process_of(cluster, "queue").channels.boarding._channel is None
    assert cluster.schedule.now_s < began_s + BOARDING_S
    assert not door.wait([asked], timeout=0)[0]


@pytest.mark.parametrize(("askers", "handler_s", "most"), [(1, 0.004, 0.6), (4, 0.0002, 0.6), (4, 0.004, 0.95)])
def test_answers_ride_unless_several_ask_one_whose_handlers_take_long(cluster, system, askers, handler_s, most):
    """With one call for each question all answers ride, with two none does. `most` is the share of these two."""
    server = Server.options(name="server").remote(handler_s)
    workers = [Worker.options(name=f"w{number}").remote(server) for number in range(askers)]
    door.get([worker.ask.remote() for worker in workers])
    cluster.schedule.pass_s(1.0)
    before, asked = cluster.counts["receive"], process_of(cluster, "server").cell.instance.asked
    for worker in workers:
        worker.work.tell(worker)
    cluster.schedule.pass_s(2.0)
    asked = process_of(cluster, "server").cell.instance.asked - asked
    share = (cluster.counts["receive"] - before) / (2 * asked)
    assert share <= most if most < 0.9 else share >= most
    end_of(workers)


def test_what_rode_is_in_the_snapshot_that_begins_before_its_ack(cluster, system):
    consumer = consumer_of(ITEMS)
    assert door.get(consumer.read.remote()) == []
    looping = consumer.loop.remote(len(ITEMS) + 1)
    cluster.until(lambda: len(process_of(cluster, "consumer").cell.instance.got) == len(ITEMS))
    assert channels(cluster)[1].acks or channels(cluster)[0].riders
    states = system.snapshot().states()
    assert states["consumer"]["got"] == ITEMS
    assert not door.wait([looping], timeout=0)[0]
