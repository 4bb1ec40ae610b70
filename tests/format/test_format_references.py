"""References in states: an empty place in the pickle, filled with the value, and put again by whoever loads it."""

import pytest

from rayshot.errors import BadState, LimitExceeded
from rayshot.format import paths, pickling
from rayshot.format.pickling import dump_object, dump_state, load_state
from rayshot.inert import reader
from rayshot.inert.inert_object import Inert
from tests.format.objects import put


def stored(state):
    """What a snapshot holds of a state: its stream, and its buffers with the values of references."""
    pickled = dump_state(state, "alice")
    buffers = list(pickled.buffers)
    for position, _, ref in pickled.references:
        buffers[position] = dump_object(pickling._references.get(ref), pickling._references.get)
    return pickled, buffers


def test_each_reference_has_a_place_and_a_path(values):
    state = {"books": [put(1), {"deep": put(2)}], "large": bytearray(10)}
    pickled = dump_state(state, "alice")
    assert [found.path for found in pickled.references] == ["alice['books'][0]", "alice['books'][1]['deep']"]
    assert [found.reference.number for found in pickled.references] == [0, 1]
    assert len({found.position for found in pickled.references}) == 2


def test_a_reference_comes_back_as_a_new_one_to_an_equal_value(values):
    pickled, buffers = stored({"a": put([1, {2}]), "b": "plain"})
    loaded = load_state(pickled.stream, buffers)
    assert loaded["b"] == "plain"
    assert loaded["a"].number == 1
    assert values[1] == [1, {2}]


def test_the_same_reference_twice_is_stored_and_put_once(values):
    ref = put("x")
    pickled, buffers = stored([ref, ref])
    assert len(pickled.references) == 1
    first, second = load_state(pickled.stream, buffers)
    assert first is second
    assert len(values) == 2


def test_references_inside_of_values_are_followed(values):
    outer = put({"inner": put("deep")})
    pickled, buffers = stored({"outer": outer})
    loaded = load_state(pickled.stream, buffers)
    assert values[values[loaded["outer"].number]["inner"].number] == "deep"


def test_out_of_band_buffers_beside_references_stay_in_their_places(values):
    numpy = pytest.importorskip("numpy")
    pickled, buffers = stored([numpy.arange(5), put("x"), numpy.arange(7), put("y")])
    one, x, two, y = load_state(pickled.stream, buffers)
    assert (one.size, two.size) == (5, 7)
    assert (values[x.number], values[y.number]) == ("x", "y")


def test_the_inert_reader_shows_the_value_of_a_reference(values):
    pickled, buffers = stored({"book": put({"title": "poems"})})
    assert reader.read(pickled.stream, buffers) == {"book": {"title": "poems"}}


def test_the_inert_reader_follows_references_one_step_and_shows_a_record_further_on(values):
    pickled, buffers = stored({"outer": put([put("deep")])})
    (further,) = reader.read(pickled.stream, buffers)["outer"]
    assert isinstance(further, Inert)


def test_bytes_that_are_no_pickle_in_the_place_of_a_value_stay_a_record(values):
    pickled, _ = stored({"book": put(1)})
    assert isinstance(reader.read(pickled.stream, [b"no pickle"])["book"], Inert)
    with pytest.raises(BadState):
        reader.read(pickled.stream, [])


def test_without_a_runtime_nothing_is_a_reference():
    assert dump_state({"a": "Ref"}, "alice").references == ()


def test_the_inert_reader_shows_large_values_of_many_references(values):
    numpy = pytest.importorskip("numpy")
    pickled, buffers = stored([put(numpy.arange(300_000) + index) for index in range(8)])
    assert [int(array[0]) for array in reader.read(pickled.stream, buffers)] == list(range(8))


def test_the_inert_reader_does_not_read_one_large_value_again_and_again(values):
    buffer = dump_object(bytes(8_000_000), None)
    call = b"crayshot.format.pickling\nput_again\n(h\x00tR"
    stream = b"\x80\x05(\x97\x94" + call * 50 + b"l."
    with pytest.raises(LimitExceeded):
        reader.read(stream, [buffer])


def test_the_paths_of_many_references_are_found_in_one_walk(values, monkeypatch):
    walked = []
    parts = paths._parts
    monkeypatch.setattr(paths, "_parts", lambda value: walked.append(value) or parts(value))
    state = [put(index) for index in range(100)]
    pickled = dump_state(state, "alice")
    assert [found.path for found in pickled.references] == [f"alice[{index}]" for index in range(100)]
    assert len(walked) <= 2 * len(state) + 1  # each reference of these tests has one part
