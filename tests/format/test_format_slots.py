"""What lies beside messages: references to objects, and large arguments, by their index in the message's pickle."""

import dataclasses
import pickle

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayshot.errors import BadManifest, LimitExceeded, MessageNotSerializable
from rayshot.format.codec import Codec, Frame, read_messages
from rayshot.format.entries import CapturedState, RecordedSlot, RecordedSlots
from rayshot.format.manifest import decode, encode
from rayshot.format.pickling import dump_message, dump_state, load_message
from rayshot.format.references import references
from rayshot.format.slots import FAILED, LARGE, LARGE_BYTES, OBJECT, VALUE, Slot, SlottedMessage, StoredValue
from rayshot.inert import reader
from rayshot.inert.inert_object import Inert
from tests.format.objects import Ref, put
from tests.format.test_format_manifest import (
    ALICE,
    BLOB,
    BYTES,
    CHANNEL,
    FROM_DRIVER,
    MANIFEST,
    check_any_value_within,
)

SLOTS = (
    RecordedSlots(2, (RecordedSlot("value", CapturedState("pickle", BLOB, (BLOB,))),)),
    RecordedSlots(5, (RecordedSlot("object", CapturedState("cloudpickle", BLOB)), RecordedSlot("failed", ALICE.state))),
)
WITH_SLOTS = dataclasses.replace(MANIFEST, channels=(dataclasses.replace(CHANNEL, slots=SLOTS), FROM_DRIVER))


class Handle:
    """Stands for the handles of a runtime."""


CODEC = Codec(Handle, lambda _: "", lambda _: Handle())


def sent(method, *args, **kwargs):
    """The payload of a message and its slots."""
    _, payload, slots = dump_message(method, args, kwargs)
    return payload, slots


def handled(message, slots):
    (fields,) = CODEC.unpacker(message)
    return CODEC.decode_tell(fields, slots)


@pytest.mark.acceptance("O1")
def test_what_lies_beside_messages_reads_back_and_widens_only_the_channel_that_has_it():
    data = encode(WITH_SLOTS)
    assert decode(data) == WITH_SLOTS
    assert encode(decode(data)) == data
    assert [len(row) for row in msgpack.unpackb(data)["channels"]] == [9, 8]
    assert [len(row) for row in msgpack.unpackb(BYTES)["channels"]] == [8, 8]


@pytest.mark.acceptance("O1")
@pytest.mark.parametrize(
    ("slots", "error"),
    [
        ([], BadManifest),
        ([[1, [["value", "pickle", [], []]]]], BadManifest),  # it was received
        ([[6, [["value", "pickle", [], []]]]], LimitExceeded),  # it was not sent
        ([["2", [["value", "pickle", [], []]]]], BadManifest),
        ([[2, [["value", "pickle", [], []]]]] * 2, BadManifest),
        ([[3, [["value", "pickle", [], []]]], [2, [["value", "pickle", [], []]]]], BadManifest),
        ([[2, []]], BadManifest),
        ([[2, [["large", "pickle", [], []]]]], BadManifest),
        ([[2, [[None, "pickle", [], []]]]], BadManifest),
        ([[2, [["value", "marshal", [], []]]]], BadManifest),
        ([[2, [["value", "pickle", [[9, 0, 1]], []]]]], BadManifest),
        ([[2, [["value", "pickle", None, []]]]], BadManifest),
        ([[2, [["value", "pickle", []]]]], BadManifest),
        ([[2]], BadManifest),
        (None, BadManifest),
    ],
)
def test_what_cannot_lie_beside_messages_is_refused(slots, error):
    tree = msgpack.unpackb(encode(WITH_SLOTS))
    tree["channels"][0][8] = slots
    with pytest.raises(error):
        decode(msgpack.packb(tree))


@pytest.mark.acceptance("O1")
@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.data())
def test_any_value_in_any_place_beside_messages_raises_a_typed_error_or_reads_canonically(data):
    tree = msgpack.unpackb(encode(WITH_SLOTS))
    check_any_value_within(data, tree, tree["channels"][0], 8)


@pytest.mark.acceptance("O1")
def test_an_argument_that_is_a_reference_arrives_as_its_value_and_one_inside_stays_a_reference(values):
    inner = put("deep")
    payload, slots = sent("keep", put([1]), [inner], more=put({2}))
    assert [slot.kind for slot in slots] == [VALUE, VALUE, OBJECT]
    method, args, kwargs = load_message("", payload, None, slots)
    assert (method, args, kwargs) == ("keep", ([1], [inner]), {"more": {2}})


@pytest.mark.acceptance("O1")
def test_values_that_arrived_beside_a_message_are_what_its_handler_gets(values):
    payload, slots = sent("keep", put([1]), put(None))
    arrived = [Slot(slot.kind, content=values[slot.reference.number]) for slot in slots]
    assert load_message("", payload, None, arrived) == ("keep", ([1], None), {})


@pytest.mark.acceptance("O1")
def test_a_message_without_references_is_the_same_bytes_with_and_without_an_object_store(values, monkeypatch):
    message = CODEC.tell("keep", ([1, {2}],))
    assert type(message) is bytes
    monkeypatch.undo()
    assert CODEC.tell("keep", ([1, {2}],)) == message


@pytest.mark.acceptance("O1")
def test_a_result_that_is_a_reference_or_holds_one_keeps_it(values):
    ref = put("x")
    for result in (ref, [ref]):
        message = CODEC.result(result)
        assert handled(message, message.slots) == ("", (result,), {})
        reply = CODEC.reply(7, result, ok=True)
        assert type(reply) is SlottedMessage
        assert [slot.kind for slot in reply.slots] == [OBJECT]


@pytest.mark.acceptance("O1")
def test_calls_and_creations_keep_what_lies_beside_their_tells(values):
    tell = CODEC.tell("keep", (put(1),))
    assert CODEC.call(3, tell).slots == CODEC.create(b"class", tell).slots == tell.slots


@pytest.mark.acceptance("O1")
def test_an_object_that_failed_raises_its_error_where_the_message_is_handled(values):
    payload, _ = sent("keep", put(1))
    with pytest.raises(KeyError, match="lost"):
        load_message("", payload, None, [Slot(FAILED, content=pickle.dumps(KeyError("lost")))])


@pytest.mark.acceptance("O1")
def test_what_cannot_be_pickled_beside_a_reference_is_refused_with_its_path(values):
    with pytest.raises(MessageNotSerializable, match=r"\.keep\['args'\]\[1\]\['lock'\]"):
        dump_message("keep", (put(1), {"lock": (one for one in "generator"), "ref": put(2)}), {})


@pytest.mark.acceptance("O2")
@pytest.mark.parametrize("size", [10, LARGE_BYTES * 3])
def test_an_array_given_by_value_is_writable_at_every_size_and_a_copy(values, size):
    array = np.zeros(size, np.uint8)
    payload, slots = sent("keep", array, also=[put("x")])
    assert [slot.kind for slot in slots] == ([OBJECT] if size == 10 else [OBJECT, LARGE])
    array = None
    _, (loaded,), kwargs = load_message("", payload, None, slots)
    loaded[0] = 1
    assert values[kwargs["also"][0].number] == "x"
    assert load_message("", payload, None, slots)[1][0][0] == 0


@pytest.mark.acceptance("O2")
@pytest.mark.parametrize("value", [b"x" * (LARGE_BYTES + 1), "x" * (LARGE_BYTES + 1), [b"x" * LARGE_BYTES]])
def test_large_arguments_of_all_kinds_lie_beside_the_message(values, value):
    message = CODEC.tell("keep", (value,))
    assert len(message) < 200
    assert [slot.kind for slot in message.slots] == [LARGE]
    assert message.slots[0].size > LARGE_BYTES
    assert handled(message, message.slots) == ("keep", (value,), {})


@pytest.mark.acceptance("O2")
def test_without_an_object_store_large_arguments_travel_in_the_message(monkeypatch):
    monkeypatch.setattr(references, "kind", None)  # tests with Ray in this process have said what a reference is
    message = CODEC.tell("keep", (np.zeros(2 * LARGE_BYTES, np.uint8),))
    assert type(message) is bytes
    _, (array,), _ = handled(message, ())
    array[0] = 1


def recorded(slots):
    """The slots as a snapshot holds them."""
    pickles = []
    for slot in slots:
        content = Ref.there(slot) if slot.kind in {VALUE, OBJECT} else None
        if content is None:
            stream, *buffers = map(bytes, Ref.there(slot))
        else:
            captured = dump_state(content, "")
            stream, buffers = captured.stream, list(map(bytes, captured.buffers))
        pickles.append((stream, buffers))
    return pickles


@pytest.mark.acceptance("O1")
def test_recorded_slots_are_read_inertly_and_loaded_when_their_message_is_handled(values):
    array = np.arange(LARGE_BYTES)
    message = CODEC.tell("keep", (put([1]), [put("deep"), array]))
    pickles = recorded(message.slots)
    (shown,) = read_messages(Frame(7, 1, message), lambda number: reader.read_slots(pickles) if number == 7 else ())
    assert (shown.number, shown.method, shown.args[0], shown.args[1][0]) == (7, "keep", [1], "deep")
    np.testing.assert_array_equal(shown.args[1][1], array)
    (unfilled,) = read_messages(Frame(7, 1, message))
    assert unfilled.method == "keep"
    kinds = [slot.kind if slot.kind != LARGE else VALUE for slot in message.slots]
    stored = [
        Slot(kind, content=StoredValue([stream, *buffers]))
        for kind, (stream, buffers) in zip(kinds, pickles, strict=True)
    ]
    _, (value, (ref, loaded)), _ = handled(message, stored)
    assert (value, values[ref.number]) == ([1], "deep")
    np.testing.assert_array_equal(loaded, array)


@pytest.mark.acceptance("O1")
@pytest.mark.parametrize("index", [b"K\x05", b"J\xff\xff\xff\xff", b"\x88", b"N"])
def test_a_place_that_no_slot_fills_stays_a_record(index):
    stream = b"\x80\x05crayshot.format.pickling\nslot\n" + index + b"\x85R."
    assert isinstance(reader.read(stream, (), ["a"]), Inert)


@pytest.mark.acceptance("O1")
def test_only_the_last_slot_of_a_message_holds_others():
    own = b"\x80\x05crayshot.format.pickling\nslot\nK\x00\x85R."
    first, second, last = reader.read_slots([(own, ()), (own, ()), (own, ())])
    assert isinstance(first, Inert)
    assert isinstance(second, Inert)
    assert last is first
