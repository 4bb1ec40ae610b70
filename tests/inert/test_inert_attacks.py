"""Pickles made to harm their reader: each is shown inert or refused, within bounds of memory and time."""

import builtins
import collections
import contextlib
import datetime as dt
import decimal
import fractions
import functools
import json
import pathlib
import pickle
import pickletools
import struct
import sys
import uuid

import cloudpickle
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rayshot.errors import BadState, Damaged
from rayshot.inert import arrays
from rayshot.inert.inert_object import Inert, short_repr
from rayshot.inert.jsonable import jsonable
from rayshot.inert.likeness import alike
from rayshot.inert.reader import read
from tests.inert.judge import judged
from tests.processes import end_server


@pytest.fixture(autouse=True, scope="module")
def empty_folder(tmp_path_factory):
    with contextlib.chdir(tmp_path_factory.mktemp("empty")):
        yield
    end_server()


def text(value):
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def glob(module, name):
    return b"c" + module.encode() + b"\n" + name.encode() + b"\n"


def call(module, name, *arguments):
    return glob(module, name) + b"(" + b"".join(arguments) + b"tR"


def integer(value):
    return pickle.dumps(value, protocol=2)[2:-1]


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return builtins.open, (self.path, "w")


@pytest.mark.acceptance("G15")
def test_a_pickle_that_would_write_a_file_is_shown_and_writes_none(tmp_path):
    target = tmp_path / "written"
    for protocol in range(6):
        back = read(pickle.dumps({"state": Bomb(str(target))}, protocol=protocol))["state"]
        assert back.class_name.endswith(".open")
        assert back.args == (str(target), "w")
    assert not target.exists()


CALLS = {
    "global": (call("os", "system", text("touch w")), "os.system", ("touch w",)),
    "global, as it is taught": (b"cos\nsystem\n(S'touch w'\ntR", "os.system", ("touch w",)),
    "inst": (b"(" + text("touch w") + b"ios\nsystem\n", "os.system", ("touch w",)),
    "obj": (b"(" + glob("os", "system") + text("touch w") + b"o", "os.system", ("touch w",)),
    "newobj": (glob("os", "system") + text("touch w") + b"\x85\x81", "os.system", ("touch w",)),
    "newobj with keywords": (glob("os", "system") + b")}" + text("k") + text("touch w") + b"s\x92", "os.system", ()),
    "stack global": (text("os") + text("system") + b"\x93" + text("touch w") + b"\x85R", "os.system", ("touch w",)),
    "eval": (call("builtins", "eval", text("open('w','w')")), "builtins.eval", None),
    "exec": (call("__builtin__", "exec", text("open('w','w')")), "builtins.exec", None),
    "path": (call("pathlib", "Path.touch", call("pathlib", "Path", text("w"))), "pathlib.Path.touch", None),
    "import": (call("cloudpickle.cloudpickle", "subimport", text("this")), "cloudpickle.cloudpickle.subimport", None),
    "global of a module not imported": (glob("this", "s"), "this.s", None),
    "load": (call("numpy", "load", text("w")), "numpy.load", None),
    "our own reader": (call("rayshot.format.pickling", "load_state", b"B\x01\x00\x00\x00N"), None, None),
    "setattr": (call("builtins", "setattr", glob("os", "system"), text("a"), b"K\x01"), "builtins.setattr", None),
}  # fmt: skip


@pytest.mark.acceptance("G15")
@pytest.mark.parametrize("name", CALLS)
def test_calls_of_every_kind_are_shown_and_not_made(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    modules = set(sys.modules)
    stream, class_name, arguments = CALLS[name]
    back = read(stream + b".")
    assert class_name in (None, back.class_name)
    assert arguments in (None, back.args)
    assert list(tmp_path.iterdir()) == []
    assert set(sys.modules) == modules


def test_nothing_that_was_built_can_be_called():
    for thing in (b"K\x01", b"]", b"}", text("x"), call("decimal", "Decimal", text("1"))):
        with pytest.raises(BadState):
            read(thing + b")R.")
        with pytest.raises(BadState):
            read(thing + b")\x81.")


def test_the_result_of_a_call_that_is_called_is_shown():
    back = read(call("a", "f") + b")R)R.")
    assert back.class_name == "a.f(...)"


def test_the_closed_table_cannot_be_changed_from_inside():
    before = dict(vars(arrays))
    stream = (
        glob("numpy", "dtype") + b"}" + text("__call__") + b"K\x01sb0" + call("decimal", "Decimal", text("1")) + b"."
    )
    assert str(read(stream)) == "1"
    assert vars(arrays) == before
    for thing in (
        b"K\x01",
        b"]",
        call("collections", "deque"),
        call("datetime", "timedelta", b"K\x01K\x01K\x01"),
        b"\x8f",
    ):
        with pytest.raises(BadState):
            read(thing + b"}" + text("x") + b"K\x01sb.")


def test_a_record_gets_one_state_only():
    with pytest.raises(BadState):
        read(glob("a", "b") + b")R}b}b}" + b"b.")
    with pytest.raises(BadState):
        read(glob("a", "b") + b")RK\x01bK\x02b.")


def test_persistent_ids_are_refused():
    for stream in (b"Pxyz\n.", b"K\x01Q."):
        with pytest.raises(BadState, match="opcode"):
            read(stream)


def test_extension_codes_are_shown_and_not_looked_up():
    import copyreg

    copyreg.add_extension("os", "system", 240)
    try:
        pickle.loads(b"\x82\xf0.")
        assert read(b"\x82\xf0.").class_name == "copyreg.extension.240"
    finally:
        copyreg.remove_extension("os", "system", 240)


@pytest.mark.parametrize(
    "name",
    ["a.\x1b[31m", "a." + "x" * 5000, "a.\n", "a.\u202e", "a.", ".a"],
    ids=["escape", "long", "line", "bidi", "a", "b"],
)
def test_names_that_could_fool_a_terminal_are_refused(name):
    module, _, qualified = name.partition(".")
    with pytest.raises(BadState):
        read(b"\x80\x04" + text(module) + text(qualified) + b"\x93.")


GREEDY = {
    "bytearray": call("builtins", "bytearray", integer(10**12)),
    "bytes": call("builtins", "bytes", integer(10**12)),
    "range": call("builtins", "list", call("builtins", "range", b"K\x00", integer(10**12), b"K\x01")),
    "set": call("builtins", "set", call("builtins", "range", b"K\x00", integer(10**12), b"K\x01")),
    "deque": call("collections", "deque", call("builtins", "range", b"K\x00", integer(10**12), b"K\x01")),
    "repeat": call("itertools", "repeat", b"K\x01", integer(10**12)),
    "mul": call("operator", "mul", text("a"), integer(10**12)),
    "fraction": call("fractions", "Fraction", text("1e999999999")),
    "decimal": call("decimal", "Decimal", text("1" * 20_000)),
    "timedelta": call("datetime", "timedelta", integer(10**400), b"K\x00K\x00"),
    "datetime": call("datetime", "datetime", integer(2020), b"K\x01K\x01"),
    "zeros": call("numpy", "zeros", integer(10**12)),
    "array": call("array", "array", text("d"), integer(10**12)),
    "uuid": glob("uuid", "UUID") + b")\x81}" + text("int") + integer(2**200) + b"sb",
    "slice": call("builtins", "slice", call("builtins", "slice", b"NNN"), b"NN"),
    "counter": call("collections", "Counter", text("abc")),
    "ordered": call("collections", "OrderedDict", b"]"),
    "timezone": call("datetime", "timezone", call("datetime", "timedelta", b"K\x02K\x00K\x00")),
    "bad date": call("datetime", "date", b"C\x04\x07\xe4\x02\x1e"),
    "bad time": call("datetime", "time", b"C\x06\x17\xff\x00\x00\x00\x00"),
    "bad datetime": call("datetime", "datetime", b"C\x0a\x07\xe4\x01\x01\xff\x00\x00\x00\x00\x00"),
}


@pytest.mark.parametrize("name", GREEDY)
def test_arguments_that_a_type_never_writes_make_a_record(name):
    assert isinstance(read(GREEDY[name] + b"."), Inert)


DTYPE = (
    call("numpy", "dtype", text("u1"), b"\x89\x88")
    + b"(K\x03"
    + text("|")
    + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
)
OBJECTS = (
    call("numpy", "dtype", text("O8"), b"\x89\x88")
    + b"(K\x03"
    + text("|")
    + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x3ftb"
)
PLAIN = b"(K\x03" + text("<") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
TEXT = call("numpy", "dtype", text("U1"), b"\x89\x88") + PLAIN
NOTHING = call("numpy", "dtype", text("S0"), b"\x89\x88") + PLAIN
EVALUATED = call("numpy", "dtype", text("u1,(9999,9999)u1"), b"\x89\x88")


def on_buffer(data, dtype, shape, order="C"):
    return call("numpy._core.numeric", "_frombuffer", data, dtype, shape, text(order))


def structured(fields, size, code="V8"):
    names = b"(" + b"".join(text(name) for name in fields) + b"t"
    table = b"}" + b"".join(text(n) + b"(" + d + integer(o) + b"ts" for n, (d, o) in fields.items())
    head = call("numpy", "dtype", text(code), b"\x89\x88")
    return head + b"(K\x03" + text("|") + b"N" + names + table + integer(size) + b"K\x01K\x10tb"


ARRAYS = {
    "fine": (on_buffer(b"C\x02ab", DTYPE, b"K\x02\x85"), False),
    "too large": (on_buffer(b"C\x02ab", DTYPE, integer(10**15) + b"\x85"), True),
    "negative": (on_buffer(b"C\x02ab", DTYPE, integer(-1) + b"\x85"), True),
    "product of negatives": (on_buffer(b"C\x02ab", DTYPE, integer(-1) + integer(-2) + b"\x86"), True),
    "overflowing product": (on_buffer(b"C\x00", DTYPE, integer(2**62) + integer(4) + b"\x86"), True),
    "too many dimensions": (on_buffer(b"C\x01a", DTYPE, b"(" + b"K\x01" * 100 + b"t"), True),
    "empty and huge": (on_buffer(b"C\x00", DTYPE, b"K\x00" + integer(2**60) + b"\x86"), True),
    "bytes as objects": (on_buffer(b"C\x08aaaaaaaa", OBJECTS, b"K\x01\x85"), True),
    "scalar of objects": (call("numpy._core.multiarray", "scalar", OBJECTS, b"C\x08aaaaaaaa"), True),
    "objects in a field": (on_buffer(b"C\x08aaaaaaaa", structured({"a": (OBJECTS, 0)}, 8), b"K\x01\x85"), True),
    "field": (on_buffer(b"C\x08aaaaaaaa", structured({"a": (DTYPE, 7)}, 8), b"K\x01\x85"), False),
    "field outside": (on_buffer(b"C\x08aaaaaaaa", structured({"a": (DTYPE, 8)}, 8), b"K\x01\x85"), True),
    "field that overflows": (on_buffer(b"C\x08aaaaaaaa", structured({"a": (DTYPE, 2**31 - 1)}, 8), b"K\x01\x85"), True),
    "field before": (on_buffer(b"C\x08aaaaaaaa", structured({"a": (DTYPE, -1)}, 8), b"K\x01\x85"), True),
    "dtype by evaluation": (on_buffer(b"C\x01a", EVALUATED, b"K\x01\x85"), True),
    "an array as buffer": (on_buffer(on_buffer(b"C\x02ab", DTYPE, b"K\x02\x85"), DTYPE, b"K\x02\x85"), True),
    "no character": (on_buffer(b"C\x04aaaa", TEXT, b"K\x01\x85"), True),
    "character": (on_buffer(b"C\x04\x00\xd8\x00\x00", TEXT, b"K\x01\x85"), False),
    "no character in a field": (on_buffer(b"C\x04aaaa", structured({"a": (TEXT, 0)}, 4), b"K\x01\x85"), True),
    "no character in a scalar": (call("numpy._core.multiarray", "scalar", TEXT, b"C\x04aaaa"), True),
    "items of no bytes": (on_buffer(b"C\x00", NOTHING, b"K\x05\x85"), True),
    "text as order": (on_buffer(b"C\x02ab", DTYPE, b"K\x02\x85", "Z"), True),
}  # fmt: skip


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_that_numpy_never_writes_make_a_record(name):
    stream, refused = ARRAYS[name]
    assert type(read(stream + b".")) is (Inert if refused else np.ndarray)


def test_objects_are_never_read_out_of_bytes():
    head = call("numpy._core.multiarray", "_reconstruct", glob("numpy", "ndarray"), b"K\x00\x85", b"C\x01b")
    for dtype in (OBJECTS, structured({"a": (OBJECTS, 0)}, 8)):
        assert isinstance(read(head + b"(K\x01K\x01\x85" + dtype + b"\x89C\x08aaaaaaaatb."), Inert)
    array = read(head + b"(K\x01K\x01\x85" + OBJECTS + b"\x89]K\x05atb.")
    assert array.tolist() == [5]
    with pytest.raises(BadState):
        read(head + b"(K\x01K\x01\x85" + OBJECTS + b"\x89]K\x05atb" + b"(K\x01K\x01\x85" + OBJECTS + b"\x89]K\x05atbb.")


def test_a_dtype_like_a_family_tree_makes_a_record():
    stream = DTYPE + b"q\x00"
    for level in range(40):
        parent = b"h" + bytes([level])
        stream += b"0" + structured({"a": (parent, 0), "b": (parent, 0)}, 1, "V1") + b"q" + bytes([level + 1])
        assert isinstance(read(stream + b"."), Inert) == (level >= 8)


MANY = b"(" + b"".join(b"J" + struct.pack("<i", n) for n in range(50_000)) + b"lq\x00"
MANY_KEYS = b"(" + b"".join(b"J" + struct.pack("<i", n) + b"N" for n in range(50_000)) + b"dq\x00"
HUGE = b"\x8b" + struct.pack("<i", 500_000) + b"\x7f" * 500_000 + b"q\x00"
FAMILY = b")" + b"q\x000h\x00h\x00\x86" * 60
QUADRATIC = {
    "counters": MANY_KEYS + b"ccollections\nCounter\nq\x01" + b"h\x01h\x00\x85R0" * 50_000,
    "sets": MANY + b"cbuiltins\nset\nq\x01" + b"h\x01h\x00\x85R0" * 50_000,
    "deques": MANY + b"ccollections\ndeque\nq\x01" + b"h\x01h\x00\x85R0" * 50_000,
    "bytearrays": b"B" + struct.pack("<I", 500_000) + bytes(500_000) + b"q\x00cbuiltins\nbytearray\nq\x01"
    + b"h\x01h\x00\x85R0" * 50_000,
    "arrays on the same bytes": integer(np.dtype("u1")) + b"q\x100B" + struct.pack("<I", 800_000) + bytes(800_000)
    + b"q\x110" + glob("numpy._core.numeric", "_frombuffer") + b"q\x12(h\x11h\x10" + integer((800_000,)) + text("C")
    + b"tq\x13R" + b"0h\x12h\x13R" * 100_000,
    "huge keys": HUGE + b"}" + b"h\x00Ns" * 100_000,
    "wide tuples as keys": MANY[:-3] + b"tq\x00}" + b"h\x00Ns" * 100_000,
    "family of tuples as key": FAMILY + b"q\x00}h\x00Ns",
    "family of tuples in a set": b"\x8f(" + FAMILY + b"\x90",
    "family of tuples in a frozenset": b"(" + FAMILY + b"\x91",
    "deep frozensets": b"(" * 100_000 + b"\x91" * 100_000,
    "family of frozensets": b")" + b"q\x000(h\x00K\x01\x86h\x00K\x02\x86\x91" * 60,
    "deep tuple as key": b"})" + b"\x85" * 1_000_000 + b"Ns",
    "deep tuple in a frozenset": b"()" + b"\x85" * 1_000_000 + b"\x91",
    "deep object arrays": OBJECTS + b"q\x000cnumpy\nndarray\nq\x010cnumpy._core.multiarray\n_reconstruct\nq\x020N"
    + b"q\x030h\x02(h\x01K\x00\x85C\x01btR(K\x01K\x01\x85h\x00\x89]h\x03atb" * 5_000,
}  # fmt: skip


def colliding(count, key=lambda number: integer(number * (2**61 - 1))):
    """Opcodes for keys that all have the same hash."""
    return [key(number) for number in range(1, count)]


def complex_number(number):
    return call("builtins", "complex", b"G" + struct.pack(">d", -1000003.0 * number), b"G" + struct.pack(">d", number))


COLLIDING = colliding(50_000)
QUADRATIC |= {
    "keys with one hash": b"}(" + b"N".join(COLLIDING) + b"Nu",
    "keys with one hash one by one": b"}" + b"Ns".join(COLLIDING) + b"Ns",
    "keys with one hash in a dict of marks": b"(" + b"N".join(COLLIDING) + b"Nd",
    "keys with one hash in a record": b"ca\nb\n)R(" + b"N".join(COLLIDING) + b"Nu",
    "members with one hash": b"\x8f(" + b"".join(COLLIDING) + b"\x90",
    "members of a frozenset with one hash": b"(" + b"".join(COLLIDING) + b"\x91",
    "members of an old set with one hash": b"cbuiltins\nset\n((" + b"".join(COLLIDING) + b"ltR",
    "complex keys with one hash": b"}(" + b"N".join(colliding(20_000, complex_number)) + b"Nu",
    "tuples with one hash": b"}(" + b"N".join(key + b"\x85" for key in COLLIDING) + b"Nu",
    "a key that meets others with its hash": b"}(" + b"N".join(COLLIDING[:4_000]) + b"Nu" + b"K\x00Ns" * 100_000,
    "values of an enum with one hash": call(
        "cloudpickle.cloudpickle",
        "_make_skeleton_enum",
        *(b")", text("E"), text("E")),
        b"}(" + b"".join(text(str(at)) + key for at, key in enumerate(COLLIDING)) + b"u",
        *(text("m"), text(""), b"N", b"N"),
    ),
}

CHEAP = {
    "many keys of numbers": b"}(" + b"N".join(integer((1 << 62) + n) for n in range(200_000)) + b"Nu",
    "many keys of pairs": b"}(" + b"N".join(b"K\x00" + integer(n) + b"\x86" for n in range(200_000)) + b"Nu",
    "memo index": b"Nr\xff\xff\xff\xff0j\xff\xff\xff\xff",
    "memo index in text": b"Np4294967295\n0g4294967295\n",
    "deep lists": b"]" * 50_000 + b"a" * 49_999,
    "deep tuples": b")" + b"\x85" * 75_000,
    "deep dicts": b"}K\x00" * 50_000 + b"N" + b"s" * 50_000,
    "deep records": b"ca\nb\nq\x000N" + b"q\x010h\x00h\x01\x85R" * 25_000,
    "deep states": b"ca\nb\nq\x000N" + b"q\x010h\x00)Rh\x01b" * 25_000,
    "deep deques": b"ccollections\ndeque\nq\x000N" + b"q\x010h\x00)Rh\x01a" * 25_000,
    "deep ordered dicts": b"ccollections\nOrderedDict\nq\x000N" + b"q\x010h\x00)RNh\x01s" * 25_000,
    "chain of calls": b"ca\nb\n" + b")R" * 75_000,
    "family of lists": b"]" + b"q\x000]h\x00ah\x00a" * 1000,
    "family of tuples": b")" + b"q\x000h\x00h\x00\x86" * 1000,
    "family of dicts": b"}" + b"q\x000}K\x00h\x00sK\x01h\x00s" * 1000,
    "family of records": b"ca\nb\nq\x000N" + b"q\x010h\x00h\x01h\x01\x86R" * 1000,
    "family of states": b"ca\nb\nq\x000N" + b"q\x010h\x00)Rh\x01h\x01\x86b" * 1000,
    "marks": b"(" * 75_000 + b"1" * 75_000 + b"N",
    "many sets": b"(" + b"\x8f" * 250_000 + b"l",
}

CUT = {
    "long bytes": b"\x8e" + struct.pack("<Q", 2**62) + b"x",
    "long bytearray": b"\x96" + struct.pack("<Q", 2**40) + b"x",
    "long text": b"\x8d" + struct.pack("<Q", 2**63) + b"x",
    "long integer": b"\x8b" + struct.pack("<i", 2**31 - 1) + b"x",
    "negative integer": b"\x8b" + struct.pack("<i", -1) + b"x",
    "negative string": b"T" + struct.pack("<i", -5) + b"x",
    "frame": b"\x95" + struct.pack("<Q", 2**63) + b"N",
    "decimal digits": b"L" + b"9" * 1_000_000 + b"L\n",
    "buffer": b"\x97",
    "memo": b"h\x07",
    "memo index": b"Np4294967296\n",
    "mark": b"t",
}


@pytest.mark.sampled("more cases of one kind", keeps=6)
@pytest.mark.parametrize("name", QUADRATIC)
def test_work_that_a_few_bytes_ask_for_again_and_again_is_refused(name):
    assert judged(QUADRATIC[name] + b".") == "LimitExceeded"


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize("name", CHEAP)
def test_deep_and_shared_values_are_read_shown_and_compared(name):
    assert judged(CHEAP[name] + b".") == "same"


@pytest.mark.parametrize("name", CUT)
def test_sizes_that_the_bytes_do_not_have_are_refused_before_they_are_taken(name):
    assert judged(CUT[name] + b".") == "BadState"


class Order:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


SAMPLES = [
    {"a": [1, 2.5, "x", None, True, b"b", 2**70], (1, "t"): {2, 3}, "f": frozenset([1])},
    collections.OrderedDict(a=collections.Counter("ab"), b=collections.deque([1], 2), c=collections.defaultdict(list)),
    [dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.timedelta(1), decimal.Decimal("1.5"), fractions.Fraction(1, 3)],
    [uuid.UUID(int=5), pathlib.PurePosixPath("/a/b"), 1 + 2j, range(3), slice(1), bytearray(b"xyz")],
    Order(name="x", inner=Order(lines=[1, 2]), error=KeyError("k")),
    [np.arange(4).reshape(2, 2), np.array([1, "a", None], dtype=object), np.float32(1), np.zeros(2, "i4,f8,M8[s]")],
    functools.partial(print, 1, sep="x"),
]
STREAMS = [pickle.dumps(sample, protocol=protocol) for sample in SAMPLES for protocol in (0, 2, 4, 5)]
STREAMS += [cloudpickle.dumps({"f": lambda x: x + 1, "sample": SAMPLES[0]}, protocol=5)]
OPCODES = st.sampled_from([opcode.code.encode("latin-1") for opcode in pickletools.opcodes])
PIECES = (
    OPCODES
    | st.binary(max_size=3)
    | st.sampled_from([b"h\x00", b"K\x01", b"(", b"\x94", call("os", "system", text("touch w"))])
)
EDITS = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 3), PIECES), min_size=1, max_size=6)


def edited(stream, edits):
    for place, removed, piece in edits:
        at = place % (len(stream) + 1)
        stream = stream[:at] + piece + stream[at + removed :]
    return stream


@pytest.mark.acceptance("G15")
@settings(max_examples=750, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(STREAMS), EDITS)
def test_edited_pickles_are_read_or_refused_and_nothing_else(stream, edits):
    check_harmless(edited(stream, edits))


@pytest.mark.acceptance("G15")
@settings(max_examples=500, derandomize=True, deadline=None)
@given(st.lists(PIECES, max_size=30).map(b"".join))
def test_arbitrary_programs_are_read_or_refused_and_nothing_else(program):
    check_harmless(program + b".")


def check_harmless(stream):
    modules, files = set(sys.modules), set(pathlib.Path().iterdir())
    try:
        value = read(stream)
    except Damaged:
        return
    finally:
        assert set(sys.modules) == modules
        assert set(pathlib.Path().iterdir()) == files
    json.dumps(jsonable(value))
    short_repr(value)
    assert alike(value, value)


def test_every_cut_is_refused():
    for stream in STREAMS:
        for length in range(len(stream)):
            with pytest.raises(BadState):
                read(stream[:length])


@pytest.mark.wide("slow")
def test_every_flipped_bit_is_read_or_refused():
    for stream in STREAMS:
        for index in range(len(stream)):
            flipped = bytearray(stream)
            flipped[index] ^= 1 << index % 8
            check_harmless(bytes(flipped))
