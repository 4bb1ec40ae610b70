"""Frames: runs of messages that can be cut, joined and recorded without running what they hold."""

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayshot.errors import BadManifest
from rayshot.format.codec import (
    CALL,
    Codec,
    Frame,
    creation_of,
    cut_frame,
    pack_frames,
    read_frames,
    read_messages,
)
from rayshot.model.handle import ActorHandle

CODEC = Codec(ActorHandle, lambda handle: handle.name_in("bank"), lambda name: ActorHandle("bank", name, None, None))


def frame_of(args, first=1):
    return Frame(first, len(args), b"".join(CODEC.tell("m", (value,)) for value in args))


def numbered(frame):
    return [(message.number, message.args[0]) for message in read_messages(frame)]


SMALL = st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=3)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.lists(SMALL, max_size=8), st.integers(1, 2**40), st.integers(-2, 10), st.integers(-2, 10))
def test_a_cut_frame_holds_the_messages_between_its_ends(values, start, low, high):
    frame = frame_of(values, start)
    cut = cut_frame(frame, start + low, start + high)
    expected = [(n, value) for n, value in enumerate(values, start) if start + low <= n <= start + high]
    assert numbered(cut) == expected
    assert cut.count == len(expected)
    if expected:
        assert (cut.first, cut.last) == (expected[0][0], expected[-1][0])


def test_a_frame_that_is_cut_at_its_own_ends_is_itself():
    frame = frame_of([1, 2, 3], 5)
    assert cut_frame(frame, 5, 7) is frame
    assert cut_frame(frame, 1, 100) is frame
    assert cut_frame(frame, 8, 100).count == 0


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 2**63), st.integers(0, 2**40), st.binary(max_size=50)), max_size=6))
def test_frames_are_read_as_they_were_packed(frames):
    assert list(read_frames(pack_frames(Frame(*fields) for fields in frames))) == [Frame(*f) for f in frames]


def test_frames_may_be_packed_from_views():
    frame = frame_of([1, 2, 3])
    view = cut_frame(Frame(1, 3, memoryview(frame.body)), 2, 3)
    (again,) = read_frames(pack_frames([view]))
    assert numbered(again) == [(2, 2), (3, 3)]


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.data())
def test_a_torn_blob_of_frames_is_refused_or_shorter(data):
    frames = [frame_of([1, "two"]), frame_of([[3]], 3)]
    blob = pack_frames(frames)
    torn = blob[: data.draw(st.integers(0, len(blob) - 1))]
    try:
        read = list(read_frames(torn))
    except BadManifest:
        return
    assert read == frames[: len(read)]


def test_a_channel_may_hold_more_than_msgpack_takes_at_once():
    one = pack_frames([Frame(1, 1, bytes(16 << 20))])
    blob = one * ((1 << 31) // len(one) + 1)
    assert sum(frame.count for frame in read_frames(blob)) == len(blob) // len(one)


@pytest.mark.parametrize(
    "fields",
    [7, [], [1, 2], [0, 1, b""], [1, -1, b""], ["1", 1, b""], [1, 1, "text"], [1, 1, b"", 0], {1: 2}, [1, 1, None]],
    ids=repr,
)
def test_what_is_no_frame_is_refused(fields):
    with pytest.raises(BadManifest):
        list(read_frames(msgpack.packb(fields)))


def test_a_creation_is_known_by_the_first_message_of_a_channel():
    create = CODEC.create(b"specification", CODEC.tell("__init__", (1,)))
    tell = CODEC.tell("deposit", (1,))
    assert creation_of(Frame(1, 2, create + tell)) == b"specification"
    assert creation_of(Frame(1, 2, memoryview(create + tell))) == b"specification"
    assert creation_of(Frame(2, 1, create)) is None
    assert creation_of(Frame(1, 0, b"")) is None
    assert creation_of(Frame(1, 1, tell)) is None
    assert creation_of(Frame(1, 1, CODEC.tell("keep", ([1],)))) is None
    assert creation_of(Frame(1, 1, CODEC.call(3, tell))) is None


def test_every_kind_of_message_is_recorded_as_what_it_is():
    tell = CODEC.tell("deposit", (1,))
    body = [
        tell,
        CODEC.call(1, tell),
        CODEC.reply(1, (2,), ok=True),
        CODEC.create(b"s", CODEC.tell("__init__", (3,), {"a": 4})),
        CODEC.end(dropped=True),
    ]
    recorded = list(read_messages(Frame(5, 5, b"".join(body))))
    assert [(m.number, m.kind, m.method, m.args, dict(m.kwargs)) for m in recorded] == [
        (5, "tell", "deposit", (1,), {}),
        (6, "call", "deposit", (1,), {}),
        (7, "reply", "", ((2,),), {}),
        (8, "create", "__init__", (3,), {"a": 4}),
        (9, "end", "", (True,), {}),
    ]
    assert msgpack.unpackb(body[1])[0] == CALL


@pytest.mark.parametrize(("count", "body"), [(2, [1]), (1, [1, 2]), (0, [1])])
def test_a_frame_that_does_not_hold_what_it_promises_is_refused(count, body):
    with pytest.raises(BadManifest, match=f"promises {count} messages"):
        list(read_messages(Frame(1, count, frame_of(body).body)))


def test_an_unknown_extension_in_a_message_is_refused():
    message = msgpack.packb(["keep", msgpack.ExtType(9, b"x")])
    with pytest.raises(BadManifest, match="extension type 9"):
        CODEC.decode_tell(message)
    with pytest.raises(BadManifest, match="extension type 9"):
        list(read_messages(Frame(1, 1, message)))
