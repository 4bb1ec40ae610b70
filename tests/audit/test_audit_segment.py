"""What a tracer writes, and the audit reads."""

import random
import time

import msgpack
import pytest

from rayshot.audit.findings import NoTrace, Unproved
from rayshot.audit.segment import (
    AtTop,
    Ended,
    Fired,
    Handled,
    LoopOver,
    PassBegan,
    PassWaited,
    Recorded,
    Resumed,
    Sent,
    Suspended,
    read_segment,
)
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.actor.tracing import Tracer

FIRST = SnapshotId(1, "coordinator", 1)


def handle(tracer, sender, *sends, messages=1):
    """Handle messages of a sender, the last of which leads to these sends."""
    body = b"".join(msgpack.packb(["m", number]) for number in range(messages))
    unpacker = msgpack.Unpacker()
    unpacker.feed(body)
    for number, _ in enumerate(tracer.watch(sender, unpacker, body), 1):
        for receiver in sends if number == messages else ():
            tracer.sent(receiver)


def bare(events):
    """Events without what they called and when."""
    return tuple(
        event._replace(at=None, **({"method": None} if isinstance(event, Handled) else {})) for event in events
    )


def test_what_is_written_is_read():
    tracer = Tracer("p", full=False)
    handle(tracer, "a", messages=3)
    handle(tracer, "a", "b", "b", "c", messages=2)
    tracer.sent("p")
    tracer.fired(b"")
    tracer.recorded(FIRST, {"b": 2, "c": 1, "p": 1}, {"a": 5})
    handle(tracer, "b")
    tracer.ended()
    segment = read_segment("p", tracer.segment())
    assert (segment.base, segment.first, segment.sent, segment.received) == ("", 1, {}, {})
    assert bare(segment.events) == (
        *[Handled("a")] * 4,
        Handled("a", ("b", "b", "c")),
        Fired(),
        Recorded("1-coordinator-1"),
        Handled("b"),
        Ended(),
    )


def test_a_handler_that_waits_is_written_where_it_waits_and_where_it_ends():
    tracer = Tracer("p", full=True)
    unpacker = msgpack.Unpacker()
    unpacker.feed(body := msgpack.packb(["m"]))
    for _ in tracer.watch("a", unpacker, body):
        tracer.sent("b")
        tracer.sent_by_thread("c")
        tracer.suspended()
        tracer.resumed("b", 7)
        tracer.suspended()
        tracer.sent("d")
    assert bare(read_segment("p", tracer.segment()).events) == (
        Sent(("c",)),
        Suspended("a", ("b",)),
        Resumed("b", 7),
        Suspended("a"),
        Handled("a", ("d",), body),
    )


def test_a_loop_is_written_top_by_top_and_a_record_says_that_it_stands_there():
    tracer = Tracer("p", full=True)
    unpacker = msgpack.Unpacker()
    unpacker.feed(body := msgpack.packb(["m"]))
    next(tracer.watch("a", unpacker, body))
    tracer.sent("b")
    tracer.come_to_top()
    tracer.pass_began("b", 1)
    tracer.sent("c")
    tracer.suspended()
    tracer.resumed("c", 1)
    tracer.sent("b")
    tracer.come_to_top()
    tracer.passed_over("b", 1)
    tracer.passed_over("c", 1)
    tracer.come_to_top()  # begun anew
    tracer.recorded(SnapshotId(1, "coordinator", 1), {"b": 2, "c": 1}, {"a": 1, "b": 1, "c": 1})
    tracer.resumed("d", 4)
    tracer.pass_began("", 0)
    tracer.sent("a")
    tracer.loop_over()
    tracer.sent_by_thread("e")
    tracer.ended()
    assert bare(read_segment("p", tracer.segment()).events) == (
        Handled("a", ("b",), body),
        AtTop(),
        PassBegan("b", 1),
        PassWaited(("c",)),
        Resumed("c", 1),
        AtTop(("b",)),
        Handled("b"),
        Handled("c"),
        Recorded("1-coordinator-1"),
        AtTop(),
        Resumed("d", 4),
        PassBegan(),
        LoopOver(("a",)),
        Sent(("e",)),
        Ended(),
    )


def test_what_is_sent_between_two_handlers_is_of_none():
    tracer = Tracer("p", full=False)
    tracer.sent("b")
    tracer.sent("p")
    tracer.fired(b"")
    tracer.sent("c")
    tracer.ended()
    assert bare(read_segment("p", tracer.segment()).events) == (Sent(("b",)), Fired(), Sent(("c",)), Ended())


def test_what_a_task_sends_while_another_one_waits_stands_before_the_answer():
    tracer = Tracer("p", full=False)
    unpacker = msgpack.Unpacker()
    unpacker.feed(body := msgpack.packb(["m"]))
    for _ in tracer.watch("a", unpacker, body):
        tracer.suspended()
        tracer.sent("b")
        tracer.resumed("b", 7)
    assert bare(read_segment("p", tracer.segment()).events) == (
        Suspended("a"),
        Suspended("a", ("b",)),
        Resumed("b", 7),
        Handled("a"),
    )


@pytest.mark.acceptance("X13")
def test_what_other_threads_send_stands_behind_the_handler_that_runs_and_before_what_may_answer_it():
    tracer = Tracer("p", full=False)
    body = msgpack.packb(["m"])
    unpacker = msgpack.Unpacker()
    unpacker.feed(body)
    for _ in tracer.watch("a", unpacker, body):
        tracer.sent("b")
        tracer.sent_by_thread("c")
        tracer.sent("b")
    tracer.sent_by_thread("b")
    tracer.sent_by_thread("c")
    handle(tracer, "b")
    tracer.sent_by_thread("c")
    tracer.recorded(FIRST, {"b": 3, "c": 3}, {"a": 1, "b": 1})
    events = bare(read_segment("p", tracer.segment()).events)
    assert events == (
        Handled("a", ("b", "b")),
        Sent(("c",)),
        Sent(("b", "c")),
        Handled("b"),
        Sent(("c",)),
        Recorded(str(FIRST)),
    )


def test_a_full_trace_keeps_the_messages():
    tracer = Tracer("p", full=True)
    handle(tracer, "a", "b", messages=2)
    tracer.sent("p")
    tracer.fired(b"due")
    events = bare(read_segment("p", tracer.segment()).events)
    assert events == (
        Handled("a", (), msgpack.packb(["m", 0])),
        Handled("a", ("b",), msgpack.packb(["m", 1])),
        Fired(b"due"),
    )


def test_a_message_without_sends_takes_no_byte_of_its_own_and_one_with_a_send_seven():
    tracer = Tracer("p", full=False)
    handle(tracer, "a", messages=10_000)
    assert len(tracer.segment()) < 60
    for _ in range(1000):
        handle(tracer, "a", "b")
    assert len(tracer.segment()) < 60 + 8 * 1000


def test_events_say_what_they_called_and_when():
    tracer = Tracer("p", full=False)
    before = time.time()
    body = b"".join(msgpack.packb([method]) for method in ("read", "read", "deposit", "deposit", ""))
    unpacker = msgpack.Unpacker()
    unpacker.feed(body)
    for (method,) in tracer.watch("a", unpacker, body):
        if method:
            tracer.calls(method)
    time.sleep(0.02)
    tracer.recorded(FIRST, {}, {"a": 5})
    tracer.over(FIRST, committed=True)
    whole = read_segment("p", tracer.segment()).events
    assert [event.method for event in whole[:5]] == ["read", "read", "deposit", "deposit", ""]
    assert [event.at is None for event in whole[:5]] == [True, False, True, False, False]  # of a run the last is timed
    assert before - 0.01 <= whole[1].at <= whole[3].at <= whole[5].at <= time.time() + 0.01
    handle(tracer, "a", "b")
    tracer.recorded(
        FIRST._replace(counter=2), {"b": 1}, {"a": 6}
    )  # the first one is known to be committed from here on
    later = read_segment("p", tracer.segment())
    assert later.base == str(FIRST)
    assert whole[5].at <= later.events[0].at <= later.events[1].at <= time.time() + 0.01


def test_a_segment_from_before_there_were_times_is_read():
    events = b"".join(map(msgpack.packb, ([0, 0, 2], [1, 0, [1]], [3, None], [4, str(FIRST)], [6, [1]], [5])))
    old = msgpack.packb([1, False, "", 1, {}, {}, ["a", "b"], events])
    assert read_segment("p", old).events == (
        *[Handled("a")] * 2,
        Handled("a", ("b",)),
        Fired(),
        Recorded(str(FIRST)),
        Sent(("b",)),
        Ended(),
    )
    for bad in ([1, False, "", 1, {}, {}, ["a", "b"], events, [0.0, 0]], [2, False, "", 1, {}, {}, ["a", "b"], events]):
        with pytest.raises(Unproved):
            read_segment("p", msgpack.packb(bad))


@pytest.mark.parametrize("start", [[-1.0, 0], [1, 0], [float("nan"), 0], [0.0, "0"], [0.0], None])
def test_a_segment_that_starts_at_no_time_is_refused(start):
    with pytest.raises(Unproved):
        read_segment("p", msgpack.packb([2, False, "", 1, {}, {}, ["a"], b"", start]))


@pytest.mark.parametrize("event", [[0, 0, 1, 9, 0], [0, 0, 1, -1, 0], [0, 0, 1, 0, -1], [0, 0, 1, 0, 2.5], [0], [], {}])
def test_an_event_with_no_method_or_no_time_is_refused(event):
    with pytest.raises(Unproved):
        read_segment("p", msgpack.packb([2, False, "", 1, {}, {}, ["a"], msgpack.packb(event), [0.0, 0]]))


def test_a_segment_starts_at_the_last_snapshot_that_is_known_to_be_committed():
    tracer = Tracer("p", full=False)
    handle(tracer, "a", messages=4)
    tracer.recorded(FIRST, {}, {"a": 4})
    handle(tracer, "a", "b")
    tracer.over(FIRST, committed=True)
    tracer.recorded(FIRST._replace(counter=2), {"b": 1}, {"a": 5})
    segment = read_segment("p", tracer.segment())
    assert (segment.base, segment.first, segment.received) == ("1-coordinator-1", 6, {"a": 4})
    assert bare(segment.events) == (Handled("a", ("b",)), Recorded("1-coordinator-2"))


def test_commits_out_of_their_order_lose_nothing():
    first, second, third = (FIRST._replace(counter=n) for n in (1, 2, 3))
    tracer = Tracer("p", full=False)
    tracer.recorded(first, {}, {})
    handle(tracer, "a")
    tracer.recorded(second, {}, {"a": 1})
    tracer.over(second, committed=True)
    tracer.over(first, committed=True)
    handle(tracer, "a")
    tracer.recorded(third, {}, {"a": 2})
    segment = read_segment("p", tracer.segment())
    assert (segment.base, bare(segment.events)) == (str(second), (Handled("a"), Recorded(str(third))))


def test_a_trace_that_grows_too_large_is_given_up_until_the_next_record():
    tracer = Tracer("p", full=True, bytes_max=1000)
    handle(tracer, "a", messages=500)
    given_up = read_segment("p", tracer.segment())
    assert (given_up.base, given_up.events) == (None, ())
    tracer.recorded(FIRST, {}, {"a": 500})
    handle(tracer, "a")
    tracer.recorded(FIRST._replace(counter=2), {}, {"a": 501})
    segment = read_segment("p", tracer.segment())
    assert (segment.base, segment.first, segment.received) == (str(FIRST), 502, {"a": 500})
    assert len(segment.events) == 2


def test_a_handler_that_records_in_a_batch_stands_before_its_recording():
    tracer = Tracer("p", full=False)
    body = b"".join(msgpack.packb(["m"]) for _ in range(2))
    unpacker = msgpack.Unpacker()
    unpacker.feed(body)
    for number, _ in enumerate(tracer.watch("a", unpacker, body)):
        tracer.sent("b")
        if number == 0:
            tracer.recorded(FIRST, {"b": 1}, {"a": 1})
    events = bare(read_segment("p", tracer.segment()).events)
    assert events == (Handled("a", ("b",)), Recorded(str(FIRST)), Handled("a", ("b",)))


@pytest.mark.parametrize("seed", range(20))
def test_cut_or_changed_bytes_are_refused_or_read_and_nothing_else(seed):
    chance = random.Random(seed)
    tracer = Tracer("p", full=seed % 2 == 0)
    for _ in range(10):
        handle(tracer, chance.choice("abc"), *chance.choices("abc", k=chance.randrange(3)))
        tracer.sent_by_thread(chance.choice("abc"))
        tracer.recorded(FIRST, {}, {})
    data = tracer.segment()
    for _ in range(200):
        changed = bytearray(data)
        changed[chance.randrange(len(data))] = chance.randrange(256)
        for bad in (bytes(changed), data[: chance.randrange(len(data))]):
            try:
                read_segment("p", bad)
            except Unproved:
                continue


@pytest.mark.parametrize(
    "fields",
    [
        [1, False, "", 1, {}, {}, {"a": "b"}, msgpack.packb([0, 0, 1])],
        [1, False, "", 1, {}, {}, "ab", msgpack.packb([0, 0, 1])],
        [1, False, "", 1, {}, {}, ["a"], msgpack.packb([0, -1, 1])],
        [1, False, "", 1, {"a": -1}, {}, ["a"], b""],
        [1, False, "", 1, [], {}, ["a"], b""],
        [1, False, 7, 1, {}, {}, ["a"], b""],
        [1, False, "", 0, {}, {}, ["a"], b""],
        [1, False, "", 1, {}, {}, ["a"], msgpack.packb([1, 0, [1]])],
        [1, False, "", 1, {}, {}, ["a"], msgpack.packb([6, [-1]])],
        [1, False, "", 1, {}, {}, ["a"], msgpack.packb([6, ["a"]])],
        [1, False, "", 1, {}, {}, ["a"], msgpack.packb([6, []])],
        [2],
        7,
    ],
)
def test_what_is_laid_out_otherwise_is_refused(fields):
    with pytest.raises(Unproved):
        read_segment("p", msgpack.packb(fields))


def test_a_run_that_promises_too_many_events_is_refused():
    events = msgpack.packb([0, 0, 10**12])
    with pytest.raises(NoTrace, match="more than"):
        read_segment("p", msgpack.packb([1, False, "", 1, {}, {}, ["a"], events]))
