"""The codec: messages that are exact, refused or counted, and frames that can be cut without reading them."""

import collections
import enum
import math
import pickle
import struct
import threading

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayshot.errors import MessageNotSerializable, MessageTooLarge
from rayshot.format import codec as module
from rayshot.format.codec import (
    PICKLED,
    Codec,
    Frame,
    method_of,
    read_messages,
)
from rayshot.model.handle import ActorHandle
from tests.model.workloads import Account

CODEC = Codec(ActorHandle, lambda handle: handle.name_in("bank"), lambda name: ActorHandle("bank", name, None, None))


class Colour(enum.IntEnum):
    RED = 1


class Text(str):
    __slots__ = ()


Point = collections.namedtuple("Point", "x y")  # noqa: PYI024 - the untyped kind is the one in question


def arrived(*args, **kwargs):
    _, got, named = CODEC.decode_tell(CODEC.tell("keep", args, kwargs))
    return (*got, named) if kwargs else tuple(got)


@pytest.mark.parametrize(
    "args", [(1,), ("other", b""), (["other"], {"other": 1}), (lambda: 1,)], ids=["plain", "bytes", "nested", "pickled"]
)
def test_the_method_of_a_message_is_found_whatever_its_kind_and_nothing_is_unpickled(monkeypatch, args):
    tell = CODEC.tell("keep", args)
    kinds = [tell, CODEC.call(7, tell), CODEC.create(b"specification", tell), CODEC.reply(7, args, ok=True)]
    messages = [next(CODEC.unpacker(message)) for message in kinds]
    monkeypatch.setattr(module, "load_message", None)
    assert [method_of(message) for message in messages] == ["keep", "keep", "keep", ""]


# What travels how ---------------------------------------------------------------------------------------------------

FLAT = [None, True, False, 0, -1, 2**63, -(2**63), 2**64 - 1, 1.5, -0.0, math.inf, 5e-324, "", "ü\0", b"", b"\xff"]
EXACT = [
    2**64, -(2**63) - 1, 2**70, 10**400, (), (1,), ((),), [], {}, set(), {1, (2, 3)}, frozenset({1}), bytearray(b"x"),
    {1: "a", (1, 2): {3}, None: b"", False: 0}, collections.OrderedDict(b=1, a=2), collections.deque([1], maxlen=2),
    1 + 2j, range(3), slice(1, None), ..., Colour.RED, Text("t"), Point(1, 2), [True, 1, 1.0], [2**70, -0.0],
    np.float32(1.5), np.int8(-3), np.bool_(True), np.datetime64("2020-01-01"),
]  # fmt: skip


@pytest.mark.parametrize("value", FLAT, ids=repr)
def test_a_flat_value_travels_as_msgpack_and_arrives_as_it_was(value):
    message = CODEC.tell("keep", (value,))
    assert msgpack.unpackb(message) == ["keep", value]
    (got,) = arrived(value)
    assert type(got) is type(value)
    assert repr(got) == repr(value)


@pytest.mark.parametrize("value", EXACT, ids=lambda value: repr(value)[:40])
def test_any_other_value_travels_as_a_pickle_and_arrives_as_it_was(value):
    head, codec, payload = msgpack.unpackb(CODEC.tell("keep", (value,)))
    assert (head, codec) == (PICKLED, "pickle")
    assert pickle.loads(payload)[0] == "keep"
    (got,) = arrived(value)
    assert type(got) is type(value)
    assert repr(got) == repr(value)


def test_keyword_arguments_and_mixed_arguments_arrive_as_they_were():
    assert arrived(1, (2,), [3], a={4}, b=2**70) == (1, (2,), [3], {"a": {4}, "b": 2**70})
    assert arrived(1, "two", 2**64, None) == (1, "two", 2**64, None)


@pytest.mark.parametrize("bits", [0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000000000000, 0x8000000000000000])
def test_a_float_keeps_every_bit(bits):
    (value,) = struct.unpack(">d", struct.pack(">Q", bits))
    flat, (nested,) = arrived(value, [value])
    for got in (*arrived(value), flat, nested):
        assert struct.pack(">d", got) == struct.pack(">Q", bits)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(10)[::3],
        np.zeros((0, 3), "f4"),
        np.array(7, ">i2"),
        np.array([math.nan, -0.0]),
        np.array(["a", "bc"]),
        np.array([(1, 2.0)], "i4,f8"),
        np.array([None, (1, 2)], dtype=object),
        np.array(["2020-01-01", "NaT"], "M8[D]"),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_an_array_arrives_with_its_type_shape_and_values(array):
    (got,) = arrived(array)
    assert (type(got), got.dtype, got.shape) == (np.ndarray, array.dtype, array.shape)
    assert pickle.dumps(got.tolist()) == pickle.dumps(array.tolist())
    assert got.flags.writeable


def test_shared_references_and_cycles_arrive_as_they_were():
    shared, loop = [1], {}
    loop["me"] = (loop, shared)
    first, second, (third,), got = arrived(shared, shared, (shared,), loop)
    assert first is second is third is got["me"][1]
    assert got["me"][0] is got
    _, (positional,), named = CODEC.decode_tell(CODEC.tell("keep", (shared,), {"again": shared}))
    assert positional is named["again"]


def test_a_value_of_a_local_class_arrives_by_value():
    class Local:
        def __init__(self, number):
            self.number = number

    assert msgpack.unpackb(CODEC.tell("keep", (Local(3),)))[1] == "cloudpickle"
    assert arrived(Local(3), lambda: 4)[0].number == 3
    assert arrived(lambda: 4)[0]() == 4


def test_arguments_are_copied_at_the_call():
    value = [1, [2]]
    message = CODEC.tell("keep", (value,))
    value[1].append(3)
    assert CODEC.decode_tell(message)[1][0] == [1, [2]]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.complex_numbers(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=10,
)


@settings(max_examples=150, derandomize=True, deadline=None)
@given(st.lists(VALUES, max_size=4), st.dictionaries(st.text(min_size=1), VALUES, max_size=2))
def test_whatever_is_sent_arrives(args, kwargs):
    method, got, named = CODEC.decode_tell(CODEC.tell("keep", args, kwargs))
    assert method == "keep"
    assert repr((list(got), dict(named))) == repr((args, kwargs))


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.lists(VALUES, max_size=3))
def test_a_snapshot_reads_what_was_sent_without_running_it(args):
    (recorded,) = read_messages(Frame(7, 1, CODEC.tell("keep", args)))
    assert (recorded.number, recorded.kind, recorded.method) == (7, "tell", "keep")
    assert repr(recorded.args) == repr(tuple(args))


@pytest.mark.parametrize("text", ["\ud800", "file-\udcff.txt"], ids=ascii)
def test_a_text_that_utf8_cannot_hold_arrives_as_it_was(text):
    assert arrived([text]) == ([text],)
    assert arrived(text) == (text,)


def test_a_message_that_is_encoded_while_another_one_is_leaves_both_whole():
    inner = []

    def name_of(handle):  # the one place in the midst of a message where another thread can take over
        if not inner:
            thread = threading.Thread(target=lambda: inner.append(codec.tell("inner", (1, 2))))
            thread.start()
            thread.join()
        return handle.name

    codec = Codec(ActorHandle, name_of, lambda name: name)
    outer = codec.tell("outer", ("before", ActorHandle("bank", "bob", None, None), "after"))
    assert codec.decode_tell(inner[0])[:2] == ("inner", [1, 2])
    assert codec.decode_tell(outer)[:2] == ("outer", ["before", "bob", "after"])


# Refusals -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", ["x" * 1001, b"x" * 1001, ["x" * 1001], np.zeros(200)], ids=lambda v: type(v).__name__
)
def test_a_message_over_the_limit_is_refused_at_the_call_and_not_enqueued(world, monkeypatch, value):
    monkeypatch.setattr(module, "MESSAGE_BYTES_MAX", 1000)
    monkeypatch.setattr(module, "LARGE_BYTES", 1000)
    bob = world.handle("bob")
    with pytest.raises(MessageTooLarge, match=r"\.keep take 1,\d+ bytes; the limit is 1,000") as raised:
        bob.keep.tell(value)
    assert raised.value.evidence["method"] == "keep"
    assert raised.value.evidence["size_bytes"] > 1000
    with pytest.raises(MessageTooLarge):
        bob.keep.remote(value)
    assert (world.sent.get("bob", []), world.cell.open_calls) == ([], [])
    bob.keep.tell("x" * 900)
    assert len(world.sent["bob"]) == 1


def test_a_result_over_the_limit_is_refused_as_well(monkeypatch):
    monkeypatch.setattr(module, "MESSAGE_BYTES_MAX", 1000)
    monkeypatch.setattr(module, "LARGE_BYTES", 1000)
    with pytest.raises(MessageTooLarge):
        CODEC.reply(1, b"x" * 1001, ok=True)


@pytest.mark.acceptance("G22")
def test_what_cannot_be_pickled_is_refused_with_its_path_and_not_enqueued(world):
    bob = world.handle("bob")
    culprit = (number for number in ())
    for args, path in [
        (({"deep": [0, culprit]},), r"\.keep\['args'\]\[0\]\['deep'\]\[1\]"),
        ((1, culprit), r"\.keep\['args'\]\[1\]"),
    ]:
        with pytest.raises(MessageNotSerializable, match=rf"{path} cannot be sent.*Nothing was sent"):
            bob.keep.tell(*args)
        with pytest.raises(MessageNotSerializable, match=path):
            bob.keep.remote(*args)
    account = Account(1)
    account.lock = threading.Lock()
    with pytest.raises(MessageNotSerializable, match=r"\.keep\['kwargs'\]\['account'\]\.lock") as raised:
        bob.keep.tell(account=account)
    assert raised.value.evidence == {"path": ".keep['kwargs']['account'].lock", "method": "keep"}
    assert (world.sent.get("bob", []), world.cell.open_calls) == ([], [])
