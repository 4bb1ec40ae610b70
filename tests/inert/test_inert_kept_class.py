"""A class by value is read once; what comes of another pickle is what its own bytes say, whatever was read before."""

import enum
import pickle
from dataclasses import make_dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayshot.errors import BadState, RayshotError
from rayshot.format.pickling import dump_message
from rayshot.inert import kept_class, reader
from rayshot.inert.jsonable import jsonable
from rayshot.inert.pickle_machine import NONSENSE, PickleMachine


@pytest.fixture(autouse=True)
def nothing_kept():
    kept_class._kept.clear()


def in_main(name, fields=("number", "text")):
    return make_dataclass(name, fields, namespace={"__module__": "__main__", "total": lambda self: self.number})


Order, Customer = in_main("Order"), in_main("Customer", ("order", "friend"))
Color = enum.Enum("Color", {"RED": 1, "BLUE": 2}, module="__main__")


def pickled(*args, method="deposit", **kwargs):
    return dump_message(method, args, kwargs)[1]


def in_the_ordinary_way(data):
    try:
        return jsonable(PickleMachine(data, ()).run())
    except RayshotError as error:
        return type(error)
    except NONSENSE:
        return BadState


def read(data):
    try:
        return jsonable(reader.read(data))
    except RayshotError as error:
        return type(error)


def counting(monkeypatch):
    """How many definitions were read by themselves."""
    made = []
    monkeypatch.setattr("rayshot.inert.pickle_machine.keep", lambda kept: (made.append(kept), kept_class.keep(kept)))
    return made


def test_a_definition_is_read_once_for_all_messages_of_a_class(monkeypatch):
    made = counting(monkeypatch)
    for number in range(50):
        found = reader.read(pickled(Order(number, "x" * number)))[1][0]
        assert (found.class_name, found["number"], found["text"]) == ("__main__.Order", number, "x" * number)
    assert len(made) == 1
    assert reader.read(pickled(Customer(1, 2)))[1][0].class_name == "__main__.Customer"
    assert len(made) == 2


VALUES = st.recursive(
    st.integers() | st.text(max_size=5) | st.sampled_from([Order, Customer, Color, Color.RED, Color.BLUE]),
    lambda inner: st.builds(Order, inner, inner) | st.builds(Customer, inner, inner) | st.lists(inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.lists(st.lists(VALUES, max_size=3), min_size=1, max_size=3), st.sampled_from(["deposit", "number", "Order"]))
def test_what_is_read_is_what_the_ordinary_way_reads(messages, method):
    for args in [*messages, *messages]:
        data = pickled(*args, method=method)
        assert read(data) == in_the_ordinary_way(data)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.data())
def test_spoiled_bytes_are_read_as_in_the_ordinary_way_and_spoil_nothing_for_others(data):
    whole = pickled(Order(1, "a"), Order)
    expected = in_the_ordinary_way(whole)
    spoiled = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        spoiled[data.draw(st.integers(0, len(spoiled) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(spoiled)))
    for bad in (bytes(spoiled), bytes(spoiled[:cut])):
        assert read(bad) == in_the_ordinary_way(bad)
        assert read(whole) == expected


def behind_the_definition(*operations):
    """A pickle whose operations follow a definition that others have too, with the class on the stack."""
    whole = pickled(Order(1, "a"))
    (kept,) = _kept_of(whole)
    end = whole.index(kept.definition) + len(kept.definition)
    head = pickle.PROTO + b"\x05" + whole[11:end]
    return head + b"".join(operations) + pickle.STOP, kept


def _kept_of(data):
    reader.read(data)
    return list(kept_class._kept.values())


def recall(index):
    return pickle.LONG_BINGET + index.to_bytes(4, "little")


def test_nothing_that_is_kept_can_be_changed():
    _, kept = behind_the_definition()
    honest = pickled(Order(1, "a"), Order)
    expected = read(honest)
    changes = {
        "sets a key": b"K\x01K\x02s",
        "appends": b"K\x01a",
        "gives a state": b"}(K\x01K\x02ub",
        "adds a member": b"(K\x01\x90",
    }
    for index in range(kept.before + len(kept.memo)):
        change = list(changes.values())[index % len(changes)]
        bad, _ = behind_the_definition(recall(index), change, pickle.POP, pickle.TUPLE2)
        assert read(bad) == in_the_ordinary_way(bad)
        assert read(honest) == expected


def test_a_memo_with_holes_is_none_to_keep_a_class_for(monkeypatch):
    made = counting(monkeypatch)
    whole = pickled(Order(1, "a"))
    holes = pickle.PROTO + b"\x05" + b"K\x01" + pickle.LONG_BINPUT + (9).to_bytes(4, "little") + pickle.POP + whole[11:]
    assert read(holes) == in_the_ordinary_way(holes)
    assert made == []


def test_so_many_classes_are_kept_and_no_more():
    for number in range(200):
        reader.read(pickled(in_main(f"Class{number}")(1, 2)))
    assert 0 < len(kept_class._kept) <= 64
