"""The runtime's own transport under a hostile network, on the fake: no message and no snapshot is lost or wrong."""

from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from rayshot.protocol.events import BatchAcknowledged
from rayshot.protocol.identity import CHANDY_LAMPORT, COORDINATOR, SnapshotId
from rayshot.runtime.actor.channels import ActorChannel, Channels
from rayshot.runtime.actor.host import Host
from rayshot.runtime.actor.incarnation import Incarnation
from rayshot.runtime.channel import credit, transport
from rayshot.runtime.channel.outbox import Outbox
from rayshot.runtime.channel.transport import SenderChannel
from rayshot.runtime.wire.orders import Issuer
from rayshot.runtime.wire.packets import Status, pack_packet, unpack_packet
from tests.fake.threads import TIME
from tests.runtime.network import network
from tests.runtime.one_process import CODEC

SCHEDULES = 150
CHOICES = st.binary(min_size=1500, max_size=1500)
GIVEN = {"max_examples": SCHEDULES, "deadline": None, "derandomize": True, "database": None}


@pytest.mark.wide("slow")
@settings(**GIVEN)
@given(CHOICES)
def test_whatever_the_network_does_all_is_handled_once_in_order_and_each_snapshot_is_a_cut(choices):
    with run(choices):
        pass


@contextmanager
def run(choices=()):
    with network(choices) as chatting:
        with pytest.MonkeyPatch.context() as patch:
            for limit in ("START", "MIN", "MAX"):
                patch.setattr(credit, f"CREDIT_MESSAGES_{limit}", 2)  # it is used up again and again
            patch.setattr(
                transport, "DUE", ((1, 1), (1, 1))
            )  # as if each message were a large one: two calls under way
            chatting.run()
        chatting.check_rest()
        yield chatting


def test_a_host_takes_nothing_that_was_sent_in_another_life():
    with run() as chatting:
        bob = chatting.hosts["bob"]
        bob._process.identity = replace(bob._process.identity, incarnation=2)
        message = CODEC.tell("hear", ("driver:1", 1))
        answers = {bob._take(pack_packet("driver:1", life, 1, 1, message)).status for life in (1, 3)}
        assert answers == {Status.STOPPED}


def test_a_host_that_is_told_twice_to_go_back_to_the_same_life_does_so_once(monkeypatch):
    with run() as chatting:
        bob = chatting.hosts["bob"]
        monkeypatch.setattr(Incarnation, "leave", lambda *_: pytest.fail("it has gone back already"))
        plan = SimpleNamespace(snapshot=SnapshotId(1, COORDINATOR, 1))
        assert bob.roll_back(Issuer(1, 0), bob._process.identity, plan) == bob._node


def test_who_joins_while_a_snapshot_is_open_brings_its_record_as_nobody_calls_for_it():
    with run() as chatting:
        alice, coordinator = chatting.hosts["alice"]._process, chatting.coordinator
        with alice.runner.lock:
            alice.cell.instance.sent["dave"] = 1
        alice.channel("dave").append(CODEC.tell("hear", ("alice", 1)))  # so the cut has dave, who is not born yet
        chatting.handle.snapshot.remote(CHANDY_LAMPORT)
        chatting.run(until=lambda: coordinator.collector.open_snapshots)
        (snapshot,) = coordinator.collector.open_snapshots
        records = chatting.cluster.withheld["record"] = []
        chatting.make("dave")
        chatting.run(until=lambda: "dave" in coordinator.bodies.get(snapshot, ()))
        del chatting.cluster.withheld["record"]
        for come in records:
            come()
        chatting.run()
        assert coordinator.committed == [snapshot]


# Wrong versions, each of which the test above must notice -----------------------------------------------------------


def release_twice(channel, last):
    for first in [first for first, batch in channel.kept.items() if batch.last <= last]:
        channel.kept_bytes -= 2 * channel.kept.pop(first).size


def settle_out_of_order(channel, sender, batch, answer):
    with channel.lock:
        channel.in_flight.pop(batch.first, None)
        channel.unprocessed.heard(answer.processed, channel.transported, TIME.monotonic())
        sender.acknowledged(channel, batch.last, batch, answer)
        channel.flush()


def keep_nothing(channels, channel, last, batch, answer):
    markers = tuple(marker.snapshot for marker in batch.markers)
    channels._runner.handle(BatchAcknowledged(channel.receiver, last, markers, answer.recorded))


def hear_of_no_record(channels, channel, last, batch, answer, take_news=Channels.acknowledged):
    take_news(channels, channel, last, batch, answer._replace(recorded=()))


def take_slowly(outbox, count, take=Outbox.take):
    body, slots = take(outbox, count)
    outbox.pending_bytes += len(body) > 0
    return body, slots


def forget_batch(channel, _sender, batch, _error):
    channel.in_flight.pop(batch.first)


WRONG = {
    "bytes are given back twice": (ActorChannel, "release", release_twice),
    "a later batch is acknowledged while an earlier one is open": (SenderChannel, "settle_batch", settle_out_of_order),
    "what a record may need is not kept": (Channels, "acknowledged", keep_nothing),
    "the answer's news of snapshots is lost": (Channels, "acknowledged", hear_of_no_record),
    "kept and in flight are not in order": (
        ActorChannel,
        "_out_of_the_outbox",
        lambda channel: [*channel.in_flight.values(), *channel.kept.values()],
    ),
    "bytes that have left are counted": (Outbox, "take", take_slowly),
    "what was lost is not sent again": (SenderChannel, "_send_again", lambda _channel, _sender, _batch: None),
    "a batch that was lost gives its number away": (
        SenderChannel,
        "_try_again",
        lambda channel, _sender, batch, _error: channel.in_flight.pop(batch.first),
    ),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_transport_is_noticed(wrong, monkeypatch):
    monkeypatch.setattr(*wrong)

    @settings(**GIVEN, phases=[Phase.generate])
    @given(CHOICES)
    def find(choices):
        with run(choices):
            pass

    with pytest.raises(AssertionError):
        find()


# Memory -----------------------------------------------------------------------------------------------------------

CREDIT_BYTES, BATCH_BYTES, MESSAGE_BYTES = 1 << 20, 256 << 10, 64 << 10


@pytest.fixture
def limits(monkeypatch):
    monkeypatch.setattr("rayshot.runtime.channel.credit.CREDIT_BYTES", CREDIT_BYTES)
    monkeypatch.setattr("rayshot.runtime.channel.outbox.BATCH_BYTES_MAX", BATCH_BYTES)


def fill_one_who_handles_nothing():
    """Sixty-four messages for bob, four times his credit; then he handles them. Returns his bytes before that."""
    with run() as chatting:
        alice, bob = (chatting.hosts[name]._process for name in ("alice", "bob"))
        first = alice.cell.instance.sent["bob"] + 1
        alice.channel("bob").append(CODEC.tell("hear", ("alice", first)))
        chatting.run()  # and alice hears that bob may have more than two messages
        alice.channel("bob").append(CODEC.tell("wait", ()))
        for number in range(first + 1, first + 65):
            alice.channel("bob").append(CODEC.tell("hear", ("alice", number, bytes(MESSAGE_BYTES))))
        chatting.cluster.schedule.pass_s(10.0)  # alice asks again and again how far he is, as long as she may not send
        waiting = bob.channels.mailbox.size_bytes
        chatting.goes_on.set()
        chatting.run()
        assert bob.cell.instance.got["alice"] == list(range(1, first + 65))
        return waiting


def test_no_more_than_its_credit_and_a_batch_waits_at_a_receiver_that_handles_nothing(limits):
    assert CREDIT_BYTES <= fill_one_who_handles_nothing() <= CREDIT_BYTES + BATCH_BYTES + MESSAGE_BYTES


def test_a_receiver_that_calls_processed_what_only_arrived_is_noticed(limits, monkeypatch):
    def take(host, packet, slots=None, take=Host._take):
        batch, *_ = unpack_packet(packet)
        return take(host, packet, slots)._replace(processed=batch.first + batch.count - 1)

    monkeypatch.setattr(Host, "_take", take)
    assert fill_one_who_handles_nothing() > CREDIT_BYTES + BATCH_BYTES + MESSAGE_BYTES
