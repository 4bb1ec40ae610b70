"""The outbox by itself: a receiver that answers when the test says so, no Ray."""

import threading
import time
import weakref
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from rayshot.errors import SystemStopped
from rayshot.model.calls import OpenCall
from rayshot.model.handle import ActorHandle, Method
from rayshot.protocol.events import Begun, SnapshotEnded, StateCaptured
from rayshot.protocol.identity import COORDINATOR, SnapshotId
from rayshot.runtime.channel.credit import (
    CREDIT_MESSAGES_MAX,
    CREDIT_MESSAGES_MIN,
    CREDIT_MESSAGES_START,
    CREDIT_S,
    Credit,
)
from rayshot.runtime.channel.outbox import BATCH_BYTES_MAX, BATCH_MESSAGES_MIN
from rayshot.runtime.channel.transport import WINDOW
from rayshot.runtime.wire.packets import PacketAnswer, Status, unpack_packet
from tests.runtime.one_process import CODEC, Process, Receiver
from tests.waiting import eventually

SNAPSHOT = SnapshotId(1, COORDINATOR, 1)


@pytest.fixture
def lane():
    """(tell, channel, receiver) of one channel whose receiver was found."""
    process, receiver = Process(), Receiver()
    channel = receiver.channel = process.meet("bob", receiver)
    port = SimpleNamespace(system="system", codec=CODEC, channel=lambda _name: channel)
    return Method(ActorHandle("system", "bob", None, port), "take").tell, channel, receiver


def test_a_message_on_an_idle_channel_leaves_at_once(lane):
    tell, _, receiver = lane
    tell(1)
    receiver.answer()
    tell("two")
    receiver.answer()
    tell(3)
    assert receiver.numbers == [1, "two", 3]


def test_behind_a_call_under_way_messages_gather_and_leave_together_in_order(lane):
    tell, channel, receiver = lane
    sent = [n if n % 3 else f"{n}" for n in range(100)]
    for value in sent:
        tell(value)
    assert receiver.numbers == sent[:1]
    receiver.answer()
    assert receiver.numbers == sent
    assert [batch.count for batch in receiver.batches] == [1, 99]
    assert channel.sent == 100


def test_many_messages_do_not_wait_for_the_call_under_way(lane):
    tell, _, receiver = lane
    for number in range(1 + BATCH_MESSAGES_MIN):
        tell(number)
    assert [batch.count for batch in receiver.batches] == [1, BATCH_MESSAGES_MIN]


def test_no_more_calls_are_under_way_than_the_window(lane):
    tell, _, receiver = lane
    for number in range(20 * BATCH_MESSAGES_MIN):
        tell(number)
    assert len(receiver.unanswered) == WINDOW


def use_up_credit(tell, _channel, receiver, total):
    for number in range(total):
        tell(number)
        while receiver.unanswered:
            receiver.answer(processed=0)


def test_a_receiver_that_processes_nothing_gets_no_more_than_the_first_credit(lane):
    use_up_credit(*lane, 10 * CREDIT_MESSAGES_START)
    _, channel, receiver = lane
    assert len(receiver.numbers) == CREDIT_MESSAGES_START
    assert len(receiver.wanted) == 1
    assert channel.sent == 10 * CREDIT_MESSAGES_START


def test_with_credit_again_the_rest_leaves_in_order(lane):
    use_up_credit(*lane, 10 * CREDIT_MESSAGES_START)
    _, channel, receiver = lane
    channel._credited(channel._sender, CREDIT_MESSAGES_START)
    while receiver.unanswered:
        receiver.answer()
    assert receiver.numbers == list(range(10 * CREDIT_MESSAGES_START))


@pytest.mark.parametrize("pace", [500, 20_000, 300_000])
def test_credit_follows_the_pace_of_a_receiver_that_always_has_work(pace):
    credit, now, left = Credit(), 0.0, 10 * CREDIT_MESSAGES_MAX
    for processed in (pace // 100, pace // 50, pace // 200) * 20:
        credit.heard(processed, left, now := now + processed / pace)
    assert credit.messages == pytest.approx(max(CREDIT_MESSAGES_MIN, pace * CREDIT_S), rel=0.01)


def test_credit_grows_while_the_receiver_works_off_all_it_gets():
    credit = Credit()
    for round_ in range(10):
        credit.heard(100, 0, float(round_))
    assert credit.messages == CREDIT_MESSAGES_MAX


def test_one_pause_of_the_receiver_costs_half_of_its_credit_only():
    credit = Credit()
    for round_ in range(10):
        credit.heard(1_000, 0, float(round_))
    credit.heard(0, 1_000, 10.0)
    before = credit.messages
    credit.heard(1, 999, 15.0)
    assert credit.messages == before // 2


def test_an_integer_too_wide_for_msgpack_arrives_among_the_others(lane):
    tell, _, receiver = lane
    sent = [0, 1, 2**64, 3, -(2**63), 2**63, 2**200, 7]
    for number in sent:
        tell(number)
    receiver.answer()
    assert receiver.numbers == sent


def test_an_integer_over_the_limit_of_a_message_is_left_out_and_holds_up_no_other(lane, monkeypatch):
    monkeypatch.setattr("rayshot.format.codec.MESSAGE_BYTES_MAX", 1 << 10)
    tell, channel, receiver = lane
    for number in (0, 1, 1 << 16_384, 3):
        tell(number)
    receiver.answer()
    assert receiver.numbers == [0, 1, 3]
    (letter,) = channel._sender.dead_letters.all()
    assert "the limit is 1,024" in letter.error


def test_a_method_whose_name_is_no_unicode_holds_up_no_other(lane):
    tell, channel, receiver = lane
    tell(0)
    channel.append_plain("\ud800", (1,))
    tell(2)
    receiver.answer()
    assert receiver.numbers == [0, 1, 2]


def test_when_the_receiver_ends_all_that_was_told_is_a_dead_letter_at_once(lane):
    tell, channel, receiver = lane
    for number in range(10):
        tell(number)
    with channel.lock:
        channel.end("bob ended")
    assert receiver.numbers == [0]
    assert [letter.error for letter in channel._sender.dead_letters.all()] == ["bob ended"] * 10
    with channel.lock:
        assert channel.sent == channel.transported == 10


def test_what_is_refused_as_its_receiver_has_ended_is_a_dead_letter_too(lane):
    tell, channel, receiver = lane
    tell(1)
    channel.settle_batch(channel._sender, receiver.unanswered.pop(), PacketAnswer(Status.ENDED, 0, detail="bob ended"))
    assert [letter.error for letter in channel._sender.dead_letters.all()] == ["bob ended"]


def test_what_was_taken_before_the_receiver_ended_is_kept_for_no_record(lane):
    tell, channel, receiver = lane
    tell(1)
    with channel.lock:
        channel._sender.participant.handle(Begun(SNAPSHOT))  # until it is recorded, what bob took is kept
        channel.end("bob ended")
    receiver.answer(recorded=(SNAPSHOT,))
    assert channel.kept == {}
    assert channel.kept_bytes == 0


def test_a_batch_that_ray_did_not_take_is_sent_again(lane):
    tell, channel, receiver = lane
    take, refusals = receiver.receive, [OSError("no room"), OSError("no room")]

    def receive(packet):
        if refusals:
            raise refusals.pop()
        return take(packet)

    receiver.receive = receive
    for number in range(3):
        tell(number)
    assert receiver.came.acquire(timeout=10.0)
    while receiver.numbers != [0, 1, 2]:
        receiver.answer()
    assert channel.down is None
    assert refusals == []


def test_a_batch_that_is_sent_again_has_the_markers_that_are_due_then(lane, monkeypatch):
    tell, channel, receiver = lane
    resend = []
    monkeypatch.setattr(
        "rayshot.runtime.channel.transport.threading.Timer", lambda _s, *what: resend.append(what) or Mock()
    )
    tell(1)
    runner = channel._sender.runner
    for event, markers in (
        (None, []),
        (StateCaptured(SNAPSHOT, True, {"bob": 1}, {}), [SNAPSHOT]),
        (SnapshotEnded(SNAPSHOT), []),
    ):
        with channel.lock:
            if event is None:
                runner.handle(Begun(SNAPSHOT))
            else:
                runner.handle(event)
        (batch,) = channel.in_flight.values()
        channel._answered(channel._sender, batch, ConnectionError("lost"))
        send_again, arguments = resend.pop()
        send_again(*arguments)
        assert [marker.snapshot for marker in receiver.batches[-1].markers] == markers


def test_what_a_record_takes_ends_at_the_number_that_it_read_though_another_thread_goes_on_telling(lane):
    tell, channel, _ = lane
    for number in range(10):
        tell(number)
    with channel.lock:
        assert channel.sent == 10
        tell(10)  # as another thread would: it takes no lock
        frames = channel.unreleased(1)
        assert [(frame.first, frame.last) for frame in frames] == [(1, 1), (2, 10)]
        assert channel.sent == 11


@pytest.mark.acceptance("X13")
def test_what_a_thread_tells_its_own_actor_is_in_the_mailbox_when_it_counts_as_sent():
    process = Process()
    channel = process.channel("alice")
    with process.lock:
        thread = threading.Thread(target=channel.append_plain, args=("take", (0, 1)))  # it waits for the lock
        thread.start()
        eventually(lambda: channel._plain)
        assert channel.sent == 1
        (frame,) = process.mailbox.unprocessed({"alice": 1})["alice"]
    thread.join()
    assert (frame.first, frame.count) == (1, 1)


def test_after_a_stop_each_tell_is_refused_and_nothing_is_kept(lane):
    tell, channel, receiver = lane
    tell(0)
    tell(1)
    with channel.lock:
        channel.shut(SystemStopped("it stopped"))
    for value in (2, "3", 4):
        with pytest.raises(SystemStopped):
            tell(value)
    assert receiver.numbers == [0]
    with channel.lock:
        assert channel.sent == 2


@pytest.mark.acceptance("X13")
def test_of_calls_that_have_left_no_byte_counts_as_waiting(lane):
    _, channel, receiver = lane
    taken = []
    ignored = SimpleNamespace(_on_completed=lambda _callback: None)
    receiver.receive = lambda packet: taken.append(unpack_packet(packet)[0]) or ignored
    calls = [OpenCall(CODEC.tell("take", (0, number))) for number in range(3)]
    for call in calls:
        channel.append_open(call)
    calls[1].call_id = 7
    channel.settle()
    assert [batch.count for batch in taken] == [3]
    assert (channel.pending, channel.pending_bytes) == ([], 0)


def test_a_sender_that_never_pauses_is_told_that_its_outbox_is_full(lane):
    tell, channel, receiver = lane
    for number in range(80_000):
        tell(number)
    assert channel._sender.congested_channels
    assert len(receiver.unanswered) == WINDOW


def test_who_waits_for_room_goes_on_when_messages_leave(lane, monkeypatch):
    tell, channel, receiver = lane
    monkeypatch.setattr("rayshot.runtime.channel.outbox.OUTBOX_MESSAGES_MAX", 2)
    for number in range(4):
        tell(number)
    assert channel.sent - channel.transported == 3
    waits, goes_on = threading.Event(), threading.Event()

    def wait():
        with channel.room:
            waits.set()
            channel.room.wait_for(lambda: not channel.full)
        goes_on.set()

    threading.Thread(target=wait, daemon=True).start()
    assert waits.wait(20.0)
    receiver.answer()
    assert goes_on.wait(20.0)


def test_no_message_is_left_behind_when_answers_come_from_another_thread(lane):
    """The sender takes no lock: a message appended while the last call is being answered must still leave."""
    tell, channel, receiver = lane
    total = 10_000
    done = threading.Event()

    def answer_all():
        while not done.is_set():
            if receiver.came.acquire(timeout=0.05):
                receiver.answer()

    answering = threading.Thread(target=answer_all)
    answering.start()
    try:
        for number in range(total):
            tell(number)
            if number % 7 == 0:  # let the other side catch up, so that the channel is often just idle
                while channel.in_flight and number % 21 == 0:
                    time.sleep(0)
    finally:
        while len(receiver.numbers) < total and (receiver.unanswered or channel.in_flight):
            time.sleep(0)
        done.set()
        answering.join()
    assert receiver.numbers == list(range(total))


def test_a_large_outbox_is_recorded_in_frames_of_a_bounded_size():
    channel = Process().channel("bob")
    messages = [bytes([number]) * (BATCH_BYTES_MAX * 2 // 5) for number in range(20)]
    for message in messages:
        channel.append(message)
    with channel.lock:
        frames = [frame for frame in channel.unreleased(1) if frame.count]
    assert b"".join(bytes(frame.body) for frame in frames) == b"".join(messages)
    assert [frame.first for frame in frames] == [1 + sum(f.count for f in frames[:n]) for n in range(len(frames))]
    assert max(len(frame.body) for frame in frames) < 2 * BATCH_BYTES_MAX


def test_a_message_larger_than_a_frame_has_one_of_its_own():
    channel = Process().channel("bob")
    for size in (1, 3 * BATCH_BYTES_MAX, 1):
        channel.append(b"x" * size)
    with channel.lock:
        assert sum(frame.count for frame in channel.unreleased(1)) == 3


class Sender:
    """It sends as long as it can."""

    def send(self, channel):
        channel.append(CODEC.tell("take", ("one",)))


@pytest.mark.acceptance("P7")
def test_who_is_refused_hangs_on_no_error_that_the_channel_keeps(lane):
    _, channel, _ = lane
    sender = Sender()
    gone = weakref.ref(sender)
    with channel.lock:
        channel.shut(SystemStopped("it goes back", system="system"))
    for _ in range(2):
        with pytest.raises(SystemStopped, match="it goes back") as raised:
            sender.send(channel)
        assert raised.value.evidence == {"system": "system"}
    del sender, raised
    assert gone() is None


# Riders ---------------------------------------------------------------------------------------------------------

TAKEN = PacketAnswer(Status.TAKEN, 0)


def ride(process, channel, number, rides_on):
    """A message leaves as a rider."""
    with process.lock:
        channel.pending.append(CODEC.tell("take", (number,)))
        assert channel.rider(rides_on)


def hear(process, channel, acks, first):
    with process.lock:
        channel.heard(acks, first)


@pytest.fixture
def riding():
    """(process, channel, receiver): a rider left with the answer to batch 5, which then came once more."""
    process, receiver = Process(), Receiver()
    channel = receiver.channel = process.meet("bob", receiver)
    ride(process, channel, 1, rides_on=5)
    return process, channel, receiver


def test_the_ack_of_a_rider_says_nothing_of_markers_that_only_its_repetition_has(riding):
    process, channel, receiver = riding
    with process.lock:
        process.runner.handle(Begun(SNAPSHOT))
        process.runner.handle(StateCaptured(SNAPSHOT, True, {"bob": 1}, {}))
    hear(process, channel, (), 5)
    assert [marker.snapshot for marker in receiver.batches[-1].markers] == [SNAPSHOT]
    hear(process, channel, ((1, TAKEN),), 6)
    channel.append(CODEC.tell("take", (2,)))
    assert [marker.snapshot for marker in receiver.batches[-1].markers] == [SNAPSHOT]
    assert not channel.riders


def test_a_rider_of_which_both_copies_arrive_is_kept_for_a_record_once(riding):
    process, channel, receiver = riding
    hear(process, channel, (), 5)
    hear(process, channel, ((1, TAKEN._replace(recorded=(SNAPSHOT,))),), 6)
    receiver.unanswered[:] = list(channel.kept.values())
    receiver.answer(recorded=(SNAPSHOT,))
    assert channel.kept_bytes == sum(batch.size for batch in channel.kept.values()) > 0
    with process.lock:
        process.runner.handle(StateCaptured(SNAPSHOT, True, {"bob": 1}, {}))
        process.release()
    assert channel.kept_bytes == 0


def test_a_rider_to_an_actor_that_has_ended_is_a_dead_letter_only_if_it_was_sent_again():
    for came_again, letters in ((False, 0), (True, 1)):
        process, receiver = Process(), Receiver()
        channel = receiver.channel = process.meet("bob", receiver)
        ride(process, channel, 1, rides_on=5)
        if came_again:
            hear(process, channel, (), 5)
        with process.lock:
            channel.end("bob ended")
        assert process.dead_letters.count == letters
