"""The pickle machine: it runs a pickle's opcodes and builds only containers, records and the closed table's types.

Theory of operation. A pickle is a program for a stack, a memo and a few verbs: find a global, call it, create an
object of a class, give an object its state, append to it, set its keys. This machine runs the whole program. But a
global becomes a record of its name, and a call becomes a record of the name and the arguments, unless `closed_table`
makes the value. The standard library's machines are not used, because there the bytes decide too much: the memo of the
machine in C grows to any index that they name, `BUILD` sets attributes on anything, `REDUCE` calls any callable.

Rules for this file. The machine never calls, imports or asks for an attribute of a value that the bytes choose. It
appends, sets and builds only on exact types that it made itself. It hashes only values that `ReadingLimits.check_key`
has passed. It compares every size with the rest of the bytes before it takes anything.
"""

import codecs
import pickle
import struct
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, ClassVar

from rayshot.errors import BadState, LimitExceeded
from rayshot.inert.closed_table import NOT_MADE, build, checked_name, is_finished_by_build, make
from rayshot.inert.inert_object import Inert
from rayshot.inert.kept_class import (
    BEGINNING,
    DEFINITION_BYTES_MAX,
    MEMO_BEFORE_MAX,
    KeptClass,
    KeptPart,
    find_kept,
    keep,
    own_record,
    shareable,
)
from rayshot.inert.limits import ReadingLimits, checked_set

PROTOCOL_MAX = 5
_U2, _U4, _U8 = struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<Q")
_I4, _F8 = struct.Struct("<i"), struct.Struct(">d")
_STOP, _POP, _FRAME, _SHORT_TEXT = (
    code[0] for code in (pickle.STOP, pickle.POP, pickle.FRAME, pickle.SHORT_BINUNICODE)
)
_DIGITS_MAX = 4_300
_INDEX_MAX = 2**32 - 1
_CALLED = "(...)"
NONSENSE = (LookupError, TypeError, ValueError, ArithmeticError, struct.error)
"""What bytes that make no sense raise in Python."""
_SINGLETONS = {"builtins.Ellipsis": ..., "builtins.NotImplemented": NotImplemented}
_RAW_TEXT = codecs.lookup("raw-unicode-escape").name  # looked up now, because the first look-up imports the codec
_OLD_BOOLEANS = {b"00": False, b"01": True}
_OLD_MODULES = {"__builtin__": "builtins", "copy_reg": "copyreg"}
_OLD_NAMES = {"builtins.xrange": "builtins.range", "builtins.unicode": "builtins.str", "builtins.long": "builtins.int"}


class PickleMachine:
    """One reading of one stream; `buffers` are what the pickle left out of band, in order, `slots` what lies beside it.

    An `inner` stream is the value of a reference in another one; a further one inside of it stays a record. One that
    `keeps` takes the first class by value from `kept_class`.
    """

    def __init__(
        self,
        stream: bytes,
        buffers: Sequence[bytes | memoryview],
        *,
        slots: Sequence[Any] = (),
        inner: bool = False,
        keeps: bool = False,
    ) -> None:
        self._data = stream
        self._view = memoryview(stream)
        self._at = 0
        size = len(stream) + sum(memoryview(buffer).nbytes for buffer in buffers)
        self._limits = ReadingLimits(size, None if inner else _read_inner, slots)
        self._buffers = iter(buffers)
        self._stack: list[Any] = []
        self._marked: list[list[Any]] = []
        self._memo: dict[int, Any] = {}
        self._memo_of_unfinished: dict[int, list[int]] = {}
        self._keeps = keeps and not slots and not buffers

    def run(self) -> Any:
        """Run to the end and return the value.

        Raises BadState, LimitExceeded, or what bytes that make no sense raise in Python: LookupError, TypeError,
        ValueError, ArithmeticError or struct.error.
        """
        data, operations = self._data, _OPERATION_BY_CODE
        while (code := data[self._at]) != _STOP:
            self._at += 1
            operations[code](self)
        if self._at + 1 != len(data) or len(self._stack) != 1 or self._marked:
            raise BadState("a pickle ends before its bytes do, or with more than one value")
        return self._stack.pop()

    # Taking bytes. ------------------------------------------------------------------------------------------------

    def _take(self, size: int) -> memoryview:
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise BadState(f"a pickle is cut: {size} bytes are announced at {self._at}")
        part = self._view[self._at : end]
        self._at = end
        return part

    def _number(self, form: struct.Struct) -> Any:
        (number,) = form.unpack_from(self._data, self._at)
        self._at += form.size
        return number

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _line(self) -> bytes:
        end = self._data.index(b"\n", self._at)
        line = self._data[self._at : end]
        self._at = end + 1
        return line

    # The stack, its marks and the memo. -----------------------------------------------------------------------------

    def _mark(self) -> None:
        self._marked.append(self._stack)
        self._stack = []

    def _since_mark(self) -> list[Any]:
        items = self._stack
        self._stack = self._marked.pop()
        return items

    def _pop_mark(self) -> None:
        self._since_mark()

    def _pop(self) -> None:
        if self._stack:
            self._stack.pop()
        else:
            self._pop_mark()

    def _duplicate(self) -> None:
        self._stack.append(self._stack[-1])

    def _remember(self, index: int) -> None:
        value = self._stack[-1]
        self._memo[index] = value
        if type(value) is Inert and is_finished_by_build(value):
            self._memo_of_unfinished.setdefault(id(value), []).append(index)

    def _memoize(self) -> None:
        self._remember(len(self._memo))

    def _recall(self, index: int) -> None:
        value = self._memo[index]
        if type(value) is KeptPart:
            value = self._memo[index] = value.own()
        self._stack.append(value)

    # Scalars. -------------------------------------------------------------------------------------------------------

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _push_text(self, size: int) -> None:
        text = str(self._take(size), "utf-8", "surrogatepass")
        self._stack.append(text)
        if self._keeps and text == BEGINNING:
            self._keeps = False
            self._take_kept_class(self._at - size - 2)

    def _push_long(self, size: int) -> None:
        self._stack.append(int.from_bytes(self._take(size), "little", signed=True))

    def _push_integer_line(self) -> None:
        line = self._line()
        self._stack.append(_OLD_BOOLEANS[line] if line in _OLD_BOOLEANS else _integer(line))

    def _push_quoted_line(self) -> None:
        line = self._line()
        if len(line) < len("''") or line[:1] != line[-1:] or line[:1] not in {b'"', b"'"} or b"\\" in line:
            raise BadState("a pickle of Python 2 holds a string without quotes or with an escape")
        self._stack.append(str(line[1:-1], "ascii"))

    def _push_next_buffer(self) -> None:
        try:
            self._stack.append(next(self._buffers))
        except StopIteration:
            raise BadState("a pickle needs more buffers than were stored with it") from None

    def _make_top_read_only(self) -> None:
        if type(self._stack[-1]) not in {bytes, bytearray, memoryview}:
            raise BadState(f"a pickle makes a {type(self._stack[-1]).__name__} read-only, which is not a buffer")
        self._stack[-1] = memoryview(self._stack[-1]).toreadonly()

    # Containers. ----------------------------------------------------------------------------------------------------

    def _push_tuple_of(self, size: int) -> None:
        if len(self._stack) < size:
            raise BadState("a pickle takes more items from its stack than the stack has")
        self._stack[-size:] = [tuple(self._stack[-size:])]

    def _push_dict(self) -> None:
        items = self._since_mark()
        mapping: dict[Any, Any] = {}
        self._set_keys(mapping, items)
        self._push(mapping)

    def _push_frozenset(self) -> None:
        self._push(frozenset(checked_set(self._since_mark(), self._limits)))

    def _append(self) -> None:
        item = self._stack.pop()
        self._extend(self._stack[-1], [item])

    def _append_many(self) -> None:
        items = self._since_mark()
        self._extend(self._stack[-1], items)

    def _extend(self, target: Any, items: list[Any]) -> None:
        if type(target) is list or type(target) is deque:
            target.extend(items)
        elif type(target) is Inert:
            target.items.extend(items)
        else:
            raise BadState(f"a pickle appends to a {type(target).__name__}")

    def _set_item(self) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._set_keys(self._stack[-1], [key, value])

    def _set_items(self) -> None:
        items = self._since_mark()
        self._set_keys(self._stack[-1], items)

    def _set_keys(self, target: Any, items: list[Any]) -> None:
        mapping = target.entries if type(target) is Inert else target
        if not isinstance(mapping, dict) or len(items) % 2:
            raise BadState(f"a pickle sets {len(items)} keys and values of a {type(target).__name__}")
        check = self._limits.check_key
        for index in range(0, len(items), 2):
            key = items[index]
            check(key, mapping)
            mapping[key] = items[index + 1]

    def _add_items(self) -> None:
        items = self._since_mark()
        target = self._stack[-1]
        if type(target) is not set:
            raise BadState(f"a pickle adds members to a {type(target).__name__}")
        for item in items:
            self._limits.check_key(item, target)
            target.add(item)

    # Objects. -------------------------------------------------------------------------------------------------------

    def _push_global(self, module: Any, name: Any) -> None:
        if type(module) is not str or type(name) is not str:
            raise BadState("a pickle names a global with something that is not a string")
        full = checked_name(_OLD_MODULES.get(module, module), name)
        full = _OLD_NAMES.get(full, full)
        self._push(_SINGLETONS[full] if full in _SINGLETONS else Inert(full))

    def _push_global_of_lines(self) -> None:
        module, name = self._line().decode(), self._line().decode()
        self._push_global(module, name)

    def _push_global_of_stack(self) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        self._push_global(module, name)

    def _push_extension(self, number: int) -> None:
        self._push(Inert(f"copyreg.extension.{number}"))

    def _call(self) -> None:
        arguments, function = self._stack.pop(), self._stack.pop()
        self._push_call(function, arguments)

    def _push_call(self, function: Any, arguments: Any) -> None:
        if type(function) is Inert and function.args is None and type(arguments) is tuple:
            made = make(function.class_name, arguments, self._limits)
            if made is not NOT_MADE:
                self._push(made)
                return
        self._push_instance(function, arguments, None)

    def _create(self) -> None:
        arguments, cls = self._stack.pop(), self._stack.pop()
        self._push_instance(cls, arguments, None)

    def _create_with_keywords(self) -> None:
        keywords, arguments, cls = self._stack.pop(), self._stack.pop(), self._stack.pop()
        if type(keywords) is not dict or not all(type(keyword) is str for keyword in keywords):
            raise BadState("a pickle creates an object with keyword arguments that are not a dict with string keys")
        self._push_instance(cls, arguments, keywords)

    def _push_instance(self, cls: Any, arguments: Any, keywords: dict[str, Any] | None) -> None:
        if type(cls) is not Inert or type(arguments) is not tuple:
            raise BadState(f"a pickle calls a {type(cls).__name__} with a {type(arguments).__name__}")
        name = cls.class_name
        if cls.args is not None and not name.endswith(_CALLED):
            name += _CALLED
        self._push(Inert(name, arguments, keywords, cls if cls.args is None else None))

    def _create_of_mark(self) -> None:
        cls, *arguments = self._since_mark()
        self._push_call(cls, tuple(arguments))

    def _create_of_lines(self) -> None:
        arguments = self._since_mark()
        self._push_global_of_lines()
        self._push_call(self._stack.pop(), tuple(arguments))

    def _build(self) -> None:
        state = self._stack.pop()
        target = self._stack[-1]
        if type(target) is Inert:
            self._give_state(target, state)
        elif type(target) is not OrderedDict and type(target) is not Counter:
            # Those two may have attributes besides their keys, which a reading leaves out.
            raise BadState(f"a pickle gives a state to a {type(target).__name__}")

    def _give_state(self, record: Inert, state: Any) -> None:
        if record.state is not None:
            raise BadState(f"a pickle gives two states to one {record.class_name}")
        made = build(record, state, self._limits)
        if made is NOT_MADE:
            record.state = state
            return
        record.state = made  # what refers to the record from inside its own state finds the value there
        self._stack[-1] = made
        for index in self._memo_of_unfinished.pop(id(record), ()):
            self._memo[index] = made

    # Classes by value. ----------------------------------------------------------------------------------------------

    def _take_kept_class(self, start: int) -> None:
        """Go on behind the class definition that begins at `start`, if the class can be kept."""
        before = len(self._memo)
        if before > MEMO_BEFORE_MAX or self._memo.keys() != set(range(before)) or self._data[start] != _SHORT_TEXT:
            return
        kept = find_kept(self._data, start, before)
        if kept is None:
            kept = PickleMachine(self._data, ()).read_class(start, before)
            if kept is None:
                return
            keep(kept)
        self._limits.charge(kept.work)
        record = self._stack[-1] = own_record(kept.record)
        self._memo |= kept.memo
        self._memo |= dict.fromkeys(kept.places, record)
        self._at = start + len(kept.definition)

    def read_class(self, start: int, before: int) -> KeptClass | None:
        """Read the class definition that begins at `start` alone; None if there is no whole definition."""
        self._at = start
        self._memo = {(index,): None for index in range(before)}  # type: ignore[misc]  # no opcode names such keys
        budget = self._limits.left
        end = min(len(self._data), start + DEFINITION_BYTES_MAX)
        try:
            while self._at < end and (code := self._data[self._at]) != _FRAME:  # it looks at what is behind it
                self._at += 1
                _OPERATION_BY_CODE[code](self)
                if code == _POP and len(self._stack) == 1 and not self._marked and _is_class(self._stack[0]):
                    return self._kept_class(start, before, budget - self._limits.left)
        except (BadState, LimitExceeded, *NONSENSE):
            return None  # the ordinary reading finds the damage
        return None

    def _kept_class(self, start: int, before: int, work: int) -> KeptClass | None:
        (record,) = self._stack
        memo = dict(islice(self._memo.items(), before, None))
        if memo.keys() != set(range(before, before + len(memo))) or self._memo_of_unfinished:
            return None
        places = tuple(index for index, value in memo.items() if value is record)
        shared = {index: shareable(value) for index, value in memo.items()}
        return KeptClass(self._data[start : self._at], before, record, shared, places, work)

    # Ends. ----------------------------------------------------------------------------------------------------------

    def _check_protocol(self) -> None:
        protocol = self._byte()
        if protocol > PROTOCOL_MAX:
            raise BadState(f"a pickle has protocol {protocol}; this reader knows up to {PROTOCOL_MAX}")

    def _check_frame(self) -> None:
        if self._number(_U8) > len(self._data) - self._at:
            raise BadState("a pickle is cut: a frame is longer than what is left")

    def refuse(self) -> None:
        """Stand in for every opcode that is not in `operations`."""
        code = bytes([self._data[self._at - 1]])
        raise BadState(f"a pickle holds {code!r}, which is not an opcode, or asks its reader for objects")

    operations: ClassVar[dict[bytes, Callable[["PickleMachine"], None]]] = {
        pickle.PROTO: _check_protocol,
        pickle.FRAME: _check_frame,
        # The stack, its marks and the memo.
        pickle.MARK: _mark,
        pickle.POP: _pop,
        pickle.POP_MARK: _pop_mark,
        pickle.DUP: _duplicate,
        pickle.MEMOIZE: _memoize,
        pickle.PUT: lambda self: self._remember(_index(self._line())),
        pickle.BINPUT: lambda self: self._remember(self._byte()),
        pickle.LONG_BINPUT: lambda self: self._remember(self._number(_U4)),
        pickle.GET: lambda self: self._recall(_index(self._line())),
        pickle.BINGET: lambda self: self._recall(self._byte()),
        pickle.LONG_BINGET: lambda self: self._recall(self._number(_U4)),
        # Scalars.
        pickle.NONE: lambda self: self._push(None),
        pickle.NEWTRUE: lambda self: self._stack.append(True),
        pickle.NEWFALSE: lambda self: self._stack.append(False),
        pickle.INT: _push_integer_line,
        pickle.LONG: lambda self: self._push(_integer(self._line().removesuffix(b"L"))),
        pickle.BININT: lambda self: self._push(self._number(_I4)),
        pickle.BININT1: lambda self: self._push(self._byte()),
        pickle.BININT2: lambda self: self._push(self._number(_U2)),
        pickle.LONG1: lambda self: self._push_long(self._byte()),
        pickle.LONG4: lambda self: self._push_long(self._number(_I4)),
        pickle.FLOAT: lambda self: self._push(float(self._line())),
        pickle.BINFLOAT: lambda self: self._push(self._number(_F8)),
        pickle.STRING: _push_quoted_line,
        pickle.BINSTRING: lambda self: self._push(str(self._take(self._number(_I4)), "ascii")),
        pickle.SHORT_BINSTRING: lambda self: self._push(str(self._take(self._byte()), "ascii")),
        pickle.UNICODE: lambda self: self._push(str(self._line(), _RAW_TEXT)),
        pickle.SHORT_BINUNICODE: lambda self: self._push_text(self._byte()),
        pickle.BINUNICODE: lambda self: self._push_text(self._number(_U4)),
        pickle.BINUNICODE8: lambda self: self._push_text(self._number(_U8)),
        pickle.SHORT_BINBYTES: lambda self: self._push(bytes(self._take(self._byte()))),
        pickle.BINBYTES: lambda self: self._push(bytes(self._take(self._number(_U4)))),
        pickle.BINBYTES8: lambda self: self._push(bytes(self._take(self._number(_U8)))),
        pickle.BYTEARRAY8: lambda self: self._push(bytearray(self._take(self._number(_U8)))),
        pickle.NEXT_BUFFER: _push_next_buffer,
        pickle.READONLY_BUFFER: _make_top_read_only,
        # Containers.
        pickle.EMPTY_TUPLE: lambda self: self._push(()),
        pickle.TUPLE: lambda self: self._push(tuple(self._since_mark())),
        pickle.TUPLE1: lambda self: self._push_tuple_of(1),
        pickle.TUPLE2: lambda self: self._push_tuple_of(2),
        pickle.TUPLE3: lambda self: self._push_tuple_of(3),
        pickle.EMPTY_LIST: lambda self: self._push([]),
        pickle.LIST: lambda self: self._push(self._since_mark()),
        pickle.APPEND: _append,
        pickle.APPENDS: _append_many,
        pickle.EMPTY_DICT: lambda self: self._push({}),
        pickle.DICT: _push_dict,
        pickle.SETITEM: _set_item,
        pickle.SETITEMS: _set_items,
        pickle.EMPTY_SET: lambda self: self._push(set()),
        pickle.ADDITEMS: _add_items,
        pickle.FROZENSET: _push_frozenset,
        # Objects.
        pickle.GLOBAL: _push_global_of_lines,
        pickle.STACK_GLOBAL: _push_global_of_stack,
        pickle.EXT1: lambda self: self._push_extension(self._byte()),
        pickle.EXT2: lambda self: self._push_extension(self._number(_U2)),
        pickle.EXT4: lambda self: self._push_extension(self._number(_I4)),
        pickle.REDUCE: _call,
        pickle.NEWOBJ: _create,
        pickle.NEWOBJ_EX: _create_with_keywords,
        pickle.OBJ: _create_of_mark,
        pickle.INST: _create_of_lines,
        pickle.BUILD: _build,
    }
    """Opcode -> its method. Opcodes that ask the reader for an object outside of the bytes are missing."""


def _is_class(value: Any) -> bool:
    """Whether a value is the record of a class that got its members, and nothing else yet."""
    bare = type(value) is Inert and value.args is None and not (value.kwargs or value.items or value.entries)
    return bare and value.state is not None


def _integer(line: bytes) -> int:
    if len(line) > _DIGITS_MAX:
        raise BadState(f"a pickle holds an integer of {len(line)} decimal digits")
    return int(line)


def _index(line: bytes) -> int:
    """A place in the memo: small, as numbers of many digits can be chosen to have the same hash."""
    index = _integer(line)
    if not 0 <= index <= _INDEX_MAX:
        raise BadState(f"a pickle numbers a value of its memo with {len(line)} digits")
    return index


def _read_inner(stream: bytes) -> Any:
    return PickleMachine(stream, (), inner=True).run()


_OPERATION_BY_CODE = [PickleMachine.operations.get(bytes([code]), PickleMachine.refuse) for code in range(256)]
