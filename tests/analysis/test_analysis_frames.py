"""Messages a frame at a time: the same rows and the same errors as one by one."""

import gc
from dataclasses import dataclass

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayshot.analysis.batches import arrow_schema, read_batches, to_batches
from rayshot.analysis.frames import ROWS_MIN
from rayshot.analysis.planning import plan, read_items
from rayshot.analysis.query import parse_query
from rayshot.errors import BadManifest, RayshotError
from rayshot.format.codec import Codec, Frame, pack_frames
from rayshot.inert.redaction import show_secrets
from rayshot.model.handle import ActorHandle
from rayshot.places.memory import MemoryStore
from rayshot.snapshots.catalog import Storage
from tests.snapshots.snapshot_builder import Bank, Flow, make_snapshot, open_bank

CODEC = Codec(ActorHandle, lambda handle: handle.name_in("bank"), lambda name: ActorHandle("bank", name, None, None))


@dataclass(frozen=True)
class Written(Flow):
    """A channel of messages that are given as bytes, so many in a frame."""

    messages: tuple[bytes, ...] = ()
    per_frame: int = 1_000

    def part(self, first, last):
        starts = range(first, last + 1, self.per_frame)
        return pack_frames(self.frame(start, min(start + self.per_frame - 1, last)) for start in starts)

    def frame(self, first, last):
        return Frame(first, last + 1 - first, b"".join(self.messages[first - 1 : last]))


def written(messages, arrived=0, per_frame=1_000):
    return Written(sent=len(messages), arrived=arrived, messages=tuple(messages), per_frame=per_frame)


def system_with(flow):
    store = MemoryStore()
    make_snapshot(open_bank(store), Bank(flows={("alice", "bob"): flow}))
    return Storage(store).system("bank")


def rows_both_ways(flow, **options):
    """The rows, or the kind of error, column by column and then one by one."""
    system = system_with(flow)
    query = parse_query({"view": "messages"} | options)
    pieces = [piece for share in plan(query, system) for piece in share.pieces]
    columns = query.view.columns
    schema = arrow_schema(columns, {column.name: True for column in columns})

    def one_by_one():
        with show_secrets(query.show_secrets):
            yield from to_batches(read_items(query, system, pieces), columns, schema)

    return [_rows_or_error(read_batches(query, system, pieces)), _rows_or_error(one_by_one())]


def _rows_or_error(batches):
    try:
        return [row for batch in batches for row in batch.to_pylist()]
    except RayshotError as error:
        return type(error), str(error)


HANDLE = ActorHandle("bank", "carol", None, None)
FLAT = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.sampled_from([2**63 - 1, 2**63, 2**64 - 1, -(2**63)])
    | st.floats()
    | st.sampled_from([1e16, 9999999999999998.0, 1e-4, 9.9e-5, -0.0])
    | st.text()
    | st.sampled_from(["\ud800", "a" * 9_999, "é" * 10_001, '", "'])
    | st.binary(max_size=40)
    | st.just(HANDLE)
)
VALUES = FLAT | st.lists(FLAT, max_size=3) | st.dictionaries(st.sampled_from(["a", "token", "$x"]), FLAT, max_size=2)
METHODS = st.sampled_from(["deposit", "set_password", "api_key", "", "has_token"])
TELLS = st.builds(lambda method, args: CODEC.tell(method, tuple(args)), METHODS, st.lists(FLAT, max_size=3))
OTHERS = (
    st.builds(
        lambda method, args, kwargs: CODEC.tell(method, tuple(args), kwargs),
        METHODS,
        st.lists(VALUES, max_size=2),
        st.dictionaries(st.sampled_from(["memo", "password"]), VALUES, max_size=1),
    )
    | st.builds(CODEC.call, st.integers(0, 2**64 - 1), TELLS)
    | st.builds(lambda call, value: CODEC.reply(call, value, ok=True), st.integers(0, 2**40), VALUES)
    | st.builds(lambda tell: CODEC.create(b"specification", tell), TELLS)
    | st.builds(lambda dropped: CODEC.end(dropped=dropped), st.booleans())
)


@settings(max_examples=150, derandomize=True, deadline=None)
@given(st.lists(TELLS | TELLS | OTHERS, max_size=12), st.integers(0, 12), st.integers(1, 5), st.booleans())
def test_rows_are_the_same_as_one_by_one(messages, arrived, per_frame, shows):
    flow = written(messages, min(arrived, len(messages)), per_frame)
    columnwise, one_by_one = rows_both_ways(flow, showsecrets=str(shows).lower())
    assert columnwise == one_by_one
    assert len(columnwise) == len(messages)


def test_a_message_of_which_something_is_left_out_says_so():
    flow = written([CODEC.tell("m", (argument,)) for argument in (1, "é" * 10_001, bytes(40), [bytes(40)])])
    for rows in rows_both_ways(flow):
        assert [row["truncated"] for row in rows] == [False, False, True, True]
        assert rows[1]["args"] == f'["{"é" * 10_001}"]'


HOSTILE = {
    "a list in a tell": msgpack.packb(["m", []]),
    "a map in a tell": msgpack.packb(["m", {}]),
    "many lists in a tell": msgpack.packb(["m", *([] for _ in range(5_000))]),
    "no list": b"\xc0",
    "a map": b"\x80",
    "a list without a head": b"\x90",
    "an unknown kind": msgpack.packb([17, 1]),
    "a kind that is not an integer": msgpack.packb([1.0, 1, b""]),
    "an unknown extension": msgpack.packb(["m", msgpack.ExtType(9, b"x")]),
    "a text that is not Unicode": b"\x92\xa1m\xa1\xff",
    "two messages for one": msgpack.packb(["m"]) * 2,
    "a cut one": b"\x92\xa1m",
    "nothing": b"",
    "a call of nothing": msgpack.packb([1, 7, b""]),
    "a pickle that is none": msgpack.packb([0, "pickle", b"no"]),
}


@pytest.mark.parametrize("place", [0, 3])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_messages_are_the_same_errors_as_one_by_one(name, place):
    messages = [CODEC.tell("deposit", (number,)) for number in range(6)]
    messages[place] = HOSTILE[name]
    columnwise, one_by_one = rows_both_ways(written(messages, per_frame=4))
    assert columnwise == one_by_one
    assert issubclass(columnwise[0], RayshotError)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.binary(max_size=60), st.integers(1, 4))
def test_any_bytes_are_the_same_as_one_by_one(body, count):
    columnwise, one_by_one = rows_both_ways(written([body, *[b""] * (count - 1)]))
    assert columnwise == one_by_one


def test_a_column_that_is_not_asked_for_is_not_computed(monkeypatch):
    system = system_with(written([CODEC.tell("deposit", (1,)), CODEC.tell("deposit", ([1],))]))
    query = parse_query({"view": "messages"})
    pieces = [piece for share in plan(query, system) for piece in share.pieces]
    monkeypatch.setattr("rayshot.analysis.frames.as_json_arrays", None)
    monkeypatch.setattr("rayshot.analysis.values.as_json", None)
    (batch,) = read_batches(query, system, pieces, nullable=dict.fromkeys(["number", "method"], True))
    assert batch.to_pydict() == {"number": [1, 2], "method": ["deposit", "deposit"]}


def test_small_frames_come_together_and_large_ones_apart(monkeypatch):
    messages = [CODEC.tell("deposit", (number,)) for number in range(3 * ROWS_MIN)]
    for per_frame in (3, len(messages)):
        batches = list(system_with(written(messages, per_frame=per_frame)).table("messages").batches())
        assert [batch.num_rows < 2 * ROWS_MIN for batch in batches] == [True] * len(batches)
        assert len(batches) == 3
    monkeypatch.setattr("rayshot.analysis.frames.TEXT_LENGTH_MIN", 100)
    listed = [CODEC.tell("deposit", ([number],)) for number in range(100)]
    columnwise, one_by_one = rows_both_ways(written(listed))
    assert columnwise == one_by_one


def test_calls_and_replies_have_the_number_of_the_call():
    tell = CODEC.tell("deposit", (1,))
    messages = [CODEC.call(7, tell), CODEC.reply(8, 2, ok=True), tell, CODEC.call(2**64 - 1, tell)]
    found = system_with(written(messages)).table("messages").to_arrow()
    assert found["call_id"].to_pylist() == [7, 8, None, None]


def test_the_collector_is_as_it_was_also_after_an_error():
    was_on = gc.isenabled()
    for messages in ([CODEC.tell("m", ())], [b"\xc1"]):
        for enabled in (False, True):
            (gc.enable if enabled else gc.disable)()
            rows_both_ways(written(messages))
            assert gc.isenabled() is enabled
    (gc.enable if was_on else gc.disable)()


def test_a_frame_that_is_no_frame_is_an_error_that_says_so():
    columnwise, _ = rows_both_ways(written([CODEC.tell("m", ()), b""]))
    assert columnwise[0] is BadManifest
    assert "promises 2 messages from 1 on and holds 1" in columnwise[1]
