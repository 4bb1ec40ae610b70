"""Arrays of one state that share memory still share it when the state is loaded; strangers cost what they cost."""

import array
import ctypes
import pickle

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided, sliding_window_view

from rayshot.format.pickling import dump_message, dump_state, load_message, load_state
from rayshot.format.shared_arrays import view
from rayshot.inert.digest import content_digest
from rayshot.inert.inert_object import Inert
from rayshot.inert.jsonable import jsonable
from rayshot.inert.likeness import alike
from rayshot.inert.reader import read

pytestmark = pytest.mark.acceptance("S9")


def loaded(pickled):
    return load_state(pickled.stream, [memoryview(bytearray(buffer)) for buffer in pickled.buffers])


def back(state):
    return loaded(dump_state(state, "state"))


def sizes(state):
    return [buffer.nbytes for buffer in dump_state(state, "state").buffers]


class OnMemory:
    """Gives the memory of an array to numpy."""

    def __init__(self, owner):
        self.__array_interface__ = owner.__array_interface__
        self.owner = owner


def by_pointer(found):
    pointer = found.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
    return np.ctypeslib.as_array(pointer, (found.size,))


class Trimmed:
    """Makes the view that it gives to pickles anew at each call."""

    def __init__(self, room, length):
        self.room, self.length = room, length

    def __getstate__(self):
        return {"room": self.room[: self.length], "length": self.length}


FRAME, GRID, WAVE = np.arange(8.0), np.zeros((3, 4)), np.zeros(4, complex)
TABLE = np.zeros(3, dtype=[("x", "f8"), ("n", "i4")])
TWINS = {
    "the first half": (FRAME, FRAME[:4]),
    "from behind": (FRAME, FRAME[::-1]),
    "every third": (FRAME, FRAME[1::3]),
    "transposed": (GRID, GRID.T),
    "a diagonal": (GRID, GRID.reshape(-1)[::5]),
    "a column": (GRID, GRID[:, 1]),
    "one element": (FRAME, FRAME[2:3].reshape(())),
    "the real part": (WAVE, WAVE.real),
    "the imaginary part": (WAVE, WAVE.imag),
    "a field": (TABLE, TABLE["n"]),
    "as other numbers": (FRAME, FRAME.view("i8")),
    "in the order of Fortran": (base := np.asfortranarray(GRID), base[1:]),
    "halves that overlap": (FRAME[:5], FRAME[3:]),
    "by new strides": (FRAME, as_strided(FRAME, (4,), (16,))),
    "windows that may be written": (FRAME, sliding_window_view(FRAME, 3, writeable=True)),
    "of another library": (FRAME, np.from_dlpack(FRAME)),
    "through an interface": (FRAME, np.asarray(OnMemory(FRAME))),
    "through a pointer": (FRAME, by_pointer(FRAME)),
    "two of another library": (np.from_dlpack(FRAME)[1:], np.from_dlpack(FRAME)[:4]),
    "unaligned": (raw := np.zeros(17, "u1"), raw[1:].view("f8")),
}


@pytest.mark.parametrize("twin", TWINS)
def test_what_is_written_through_one_array_is_read_through_the_other_after_two_restores(twin):
    one, other = back(back(TWINS[twin]))
    np.testing.assert_array_equal(one, TWINS[twin][0])
    np.testing.assert_array_equal(other, TWINS[twin][1])
    assert (one.dtype, other.dtype, other.strides) == (
        TWINS[twin][0].dtype,
        TWINS[twin][1].dtype,
        TWINS[twin][1].strides,
    )
    before = one.tobytes()
    other[...] = 7 if other.dtype.names is None else (7, 7)
    assert one.tobytes() != before


@pytest.mark.parametrize("make", [lambda one: sliding_window_view(one, 3), lambda one: np.broadcast_to(one, (2, 8))])
def test_a_view_that_nobody_may_write_shows_what_is_written_beneath(make):
    frame = np.arange(8.0)
    one, other = back(back([frame, make(frame)]))
    one[2] = 7
    np.testing.assert_array_equal(other, make(one))
    assert not other.flags.writeable


def test_new_strides_on_a_bytearray_of_the_state_stay_on_it():
    raw = bytearray(8)
    state = {"raw": raw, "words": as_strided(np.frombuffer(raw, "u1"), (4,), (2,))}
    state = back(back(state))
    state["words"][3] = 5
    assert state["raw"][6] == 5


def test_an_array_whose_elements_are_one_in_memory_is_still_so():
    frame = np.arange(2.0)
    again = back(as_strided(frame, (2, 3), (8, 0)))
    again[1, 0] = 7
    assert again.tolist() == [[0, 0, 0], [7, 7, 7]]


def test_an_array_that_is_held_twice_is_still_one():
    one, part, same = back([FRAME, FRAME[1:], FRAME])
    assert one is same
    assert np.shares_memory(one, part)


def test_a_bytearray_and_an_array_of_python_keep_the_arrays_on_them():
    raw, numbers = bytearray(8), array.array("d", [1, 2])
    state = {"words": np.frombuffer(raw, "u1"), "raw": raw, "numbers": numbers, "tail": np.frombuffer(numbers)[1:]}
    for _ in range(2):
        state = back(state)
    state["words"][3], state["tail"][0] = 5, 9
    assert (state["raw"][3], list(state["numbers"])) == (5, [1, 9])


def test_a_view_that_a_class_makes_for_each_pickle_is_shared_too():
    room = np.zeros(10)
    room_again, trimmed = back([room, Trimmed(room, 4)])
    trimmed.room[0] = 1
    assert room_again[0] == 1


def test_what_only_cloudpickle_can_pickle_shares_too():
    frame, half, _ = back([FRAME, FRAME[:4], lambda: 1])
    assert np.shares_memory(frame, half)


@pytest.mark.parametrize("writeable", [True, False])
def test_each_array_is_as_writeable_as_it_was(writeable):
    frame = np.arange(8.0)
    part = frame[2:]
    part.flags.writeable = writeable
    assert [one.flags.writeable for one in back([frame, part])] == [True, writeable]
    assert [one.flags.writeable for one in back([part, frame])] == [writeable, True]


def test_arrays_that_do_not_overlap_cost_their_own_bytes():
    large = np.zeros(1 << 20)
    assert sizes({"few": large[5:15]}) == [80]
    assert sizes({"left": large[:10], "right": large[10:20]}) == [80, 80]
    assert sizes({"left": large[:10], "over": large[5:15]}) == [120]
    assert sizes({"few": np.frombuffer(bytearray(1 << 20), "u1")[:10]}) == [10]


def test_what_is_far_apart_in_a_large_array_is_recorded_alone_and_said():
    large = np.zeros(1 << 22)
    state = {"even": large[:: 1 << 19], "odd": large[1 << 19 :: 1 << 19]}
    pickled = dump_state(state, "state")
    assert pickled.comes_apart
    assert len(pickled.stream) + sum(buffer.nbytes for buffer in pickled.buffers) < 2_000
    assert not dump_state({"large": large, "part": large[1:]}, "state").comes_apart


def test_arrays_of_objects_come_apart_as_they_did():
    objects = np.array([[1], "two", None], dtype=object)
    pickled = dump_state([objects, objects[:2]], "state")
    assert pickled.comes_apart
    whole, part = loaded(pickled)
    assert (whole.tolist(), part.tolist()) == ([[1], "two", None], [[1], "two"])


def test_what_lies_between_the_arrays_is_not_recorded():
    table = np.zeros(2, dtype=[("x", "f8"), ("password", "S8")])
    table["password"] = b"hunter2"
    state = [table["x"], table["x"][::-1]]
    pickled = dump_state(state, "state")
    assert b"hunter2" not in b"".join([pickled.stream, *pickled.buffers])
    x, reverse = loaded(pickled)
    reverse[0] = 4
    assert x.tolist() == [0, 4]


def test_what_nobody_may_write_is_not_shared():
    frame = np.frombuffer(bytes(64))
    assert sizes([frame, frame[:4]]) == [64, 32]
    assert not any(one.flags.writeable for one in back([frame, frame[:4]]))


def test_messages_stay_as_they_are():
    codec, payload, slots = dump_message("take", (FRAME, FRAME[:4]), {})
    _, (frame, half), _ = load_message(codec, payload, None, slots)
    assert not np.shares_memory(frame, half)


@pytest.mark.parametrize("twin", TWINS)
def test_the_inert_reader_takes_a_view_for_an_equal_copy(twin):
    pickled = dump_state(TWINS[twin], "state")
    assert b"shared_arrays" in pickled.stream
    copies = dump_state(tuple(one.copy(order="K") for one in TWINS[twin]), "state")
    shared, apart = (read(one.stream, one.buffers) for one in (pickled, copies))
    assert all(type(one) is np.ndarray for one in shared)
    assert alike(shared, apart)
    assert content_digest(shared) == content_digest(apart)
    assert jsonable(shared) == jsonable(apart)


def test_a_field_that_is_named_as_a_secret_is_hidden_in_a_view_too():
    table = np.zeros(2, dtype=[("x", "f8"), ("password", "U8")])
    table["password"] = "hunter2"
    pickled = dump_state({"all": table, "some": table[:1], "password": table["password"]}, "state")
    assert "hunter2" not in str(jsonable(read(pickled.stream, pickled.buffers)))


def hostile(shape, dtype, size, offset, strides, fill=0):
    class Hostile:
        def __reduce__(self):
            return view, (shape, np.dtype(dtype), np.full(size, fill, "u1"), offset, strides, True)

    return pickle.dumps(Hostile(), 5)


@pytest.mark.parametrize(
    "made",
    [
        ((2,), "f8", 15, 0, (8,)),
        ((2,), "f8", 16, 1, (8,)),
        ((2,), "f8", 16, 0, (-8,)),
        ((2,), "f8", 16, -8, (8,)),
        ((2, 2), "u1", 3, 0, (2, 1)),
        ((1 << 40,), "u1", 1, 0, (0,)),
        ((1 << 20, 1 << 20), "u1", 1, 0, (0, 0)),
        ((10**6,), "S1000000", 10**6, 0, (0,)),
        ((1,), "u1", 1, 0, (1 << 70,)),
        ((0,), "f8", 8, 0, (8,)),
        ((1,), "O", 8, 0, (8,)),
        ((1,), "V0", 8, 0, (1,)),
        ((-1,), "u1", 8, 0, (1,)),
        ((1,), "u1", 8, 0, (1, 1)),
        ((1,), "u1", 8, 0, (1.0,)),
    ],
    ids=str,
)
def test_a_view_that_leaves_its_memory_or_is_too_much_stays_a_record(made):
    assert isinstance(read(hostile(*made)), Inert)


def test_letters_that_are_none_stay_a_record():
    assert type(read(hostile((1,), "U1", 4, 0, (4,)))) is np.ndarray
    assert isinstance(read(hostile((1,), "U1", 4, 0, (4,), fill=65)), Inert)
