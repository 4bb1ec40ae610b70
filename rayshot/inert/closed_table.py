"""The closed table: the only types that the inert reader builds from a pickle's calls, and its checks before.

Each maker gets the arguments of one call. It returns the result of the type's own function, or raises TypeError,
ValueError or ArithmeticError; then the call becomes a record. So a maker accepts exactly the arguments that the type's
`__reduce__` writes, only of exact and cheap types, and charges for its copies. The values made here never call back,
open files or hold more than their arguments.
"""

import array
import collections
import decimal
import fractions
import pathlib
import re
import struct
import sys
import uuid
from collections.abc import Callable
from typing import Any, Final

from rayshot.errors import BadState
from rayshot.inert import arrays, times
from rayshot.inert.inert_object import HandleRecord, Inert
from rayshot.inert.limits import ReadingLimits, checked_set

NOT_MADE: Final = object()
"""The table has no such name, or it does not accept these arguments."""

_Arguments = tuple[Any, ...]
_Maker = Callable[[_Arguments, ReadingLimits], Any]
_REFUSALS = (TypeError, ValueError, ArithmeticError)
_INTEGER_BITS_MAX = 4_096
_TEXT_LENGTH_MAX = 10_000
_FRACTION = re.compile(r"-?\d{1,1000}(/\d{1,1000})?", re.ASCII)
_FACTORIES: dict[str, type] = {
    f"builtins.{kind.__name__}": kind for kind in (list, dict, set, tuple, int, float, str, bool)
}
_ARRAY_FORMATS = {
    0: "B", 1: "b", 2: "H", 4: "h", 6: "I", 8: "i", 10: "Q", 12: "q", 14: "f", 16: "d",
}  # fmt: skip
"""Little-endian machine formats of array.array, as its `__reduce_ex__` numbers them -> a type code of that format."""


def make(name: str, arguments: _Arguments, limits: ReadingLimits) -> Any:
    """The result of calling `name` with `arguments`, or NOT_MADE."""
    maker = _MAKERS.get(name)
    if maker is None:
        return NOT_MADE
    try:
        return maker(arguments, limits)
    except _REFUSALS:
        return NOT_MADE


def is_finished_by_build(record: Inert) -> bool:
    """Whether a type of the table is a record first, and is made from its state."""
    return record.class_name in _BUILDERS


def build(record: Inert, state: Any, limits: ReadingLimits) -> Any:
    """The value of `record` with `state`, or NOT_MADE."""
    builder = _BUILDERS.get(record.class_name)
    if builder is None or record.args is None:
        return NOT_MADE
    try:
        return builder(record, state, limits)
    except _REFUSALS:
        return NOT_MADE


def _refused() -> TypeError:
    return TypeError("not the arguments that this type writes")


def _check_small(*integers: Any) -> None:
    for integer in integers:
        if type(integer) is not int or integer.bit_length() > _INTEGER_BITS_MAX:
            raise _refused()


def _make_complex(arguments: _Arguments, _: ReadingLimits) -> complex:
    match arguments:
        case (float(real), float(imaginary)):
            return complex(real, imaginary)
    raise _refused()


def _make_range(arguments: _Arguments, _: ReadingLimits) -> range:
    start, stop, step = arguments
    _check_small(start, stop, step)
    return range(start, stop, step)


def _make_slice(arguments: _Arguments, _: ReadingLimits) -> slice:
    """A slice, only of integers: slices inside slices are freed by recursion."""
    start, stop, step = arguments
    _check_small(*(part for part in arguments if part is not None))
    return slice(start, stop, step)


def _make_bytes(arguments: _Arguments, _: ReadingLimits) -> bytes:
    match arguments:
        case ():
            return b""
        case (bytes(data),):  # cloudpickle makes them of a memoryview
            return data
    raise _refused()


def _make_encoded(arguments: _Arguments, limits: ReadingLimits) -> bytes:
    match arguments:
        case (str(text), "latin1" | "latin-1"):
            limits.charge(len(text))
            return text.encode("latin-1")
    raise _refused()


def _make_bytearray(arguments: _Arguments, limits: ReadingLimits) -> bytearray:
    match arguments:
        case ():
            return bytearray()
        case (bytes(data),):
            limits.charge(len(data))
            return bytearray(data)
    raise _refused()


def _make_set(arguments: _Arguments, limits: ReadingLimits) -> set[Any]:
    match arguments:
        case (list(items),):
            limits.charge_copy(len(items))
            return checked_set(items, limits)
    raise _refused()


def _make_frozenset(arguments: _Arguments, limits: ReadingLimits) -> frozenset[Any]:
    return frozenset(_make_set(arguments, limits))


def _make_ordered_dict(arguments: _Arguments, _: ReadingLimits) -> collections.OrderedDict[Any, Any]:
    if arguments:
        raise _refused()
    return collections.OrderedDict()


def _make_counter(arguments: _Arguments, limits: ReadingLimits) -> collections.Counter[Any]:
    counter: collections.Counter[Any] = collections.Counter()
    (counts,) = arguments
    if type(counts) is not dict:
        raise _refused()
    limits.charge_copy(len(counts))
    dict.update(counter, counts)
    return counter


def _make_default_dict(arguments: _Arguments, _: ReadingLimits) -> collections.defaultdict[Any, Any]:
    match arguments:
        case () | (None,):
            return collections.defaultdict(None)
        case (Inert(class_name=name, args=None),) if name in _FACTORIES:
            return collections.defaultdict(_FACTORIES[name])
    raise _refused()


def _make_deque(arguments: _Arguments, limits: ReadingLimits) -> collections.deque[Any]:
    items: Any = arguments[0] if arguments else ()
    length_max = None
    if len(arguments) > 1:
        _, length_max = arguments
        _check_small(0 if length_max is None else length_max)
    if type(items) not in {list, tuple}:
        raise _refused()
    limits.charge_copy(len(items))
    return collections.deque(items, length_max)


def _make_array(arguments: _Arguments, limits: ReadingLimits) -> "array.array[Any]":
    match arguments:
        case (Inert(class_name="array.array", args=None), str(code), int(form), bytes(data)):
            known = _ARRAY_FORMATS.get(form)
            if sys.byteorder != "little" or known is None or _array_form(known) != _array_form(code):
                raise _refused()
            limits.charge(len(data))
            return array.array(code, data)
    raise _refused()


def _make_old_array(arguments: _Arguments, limits: ReadingLimits) -> "array.array[Any]":
    match arguments:
        case (str(code), list(items)):
            limits.charge_copy(len(items))
            return array.array(code, items)
    raise _refused()


def _array_form(code: str) -> tuple[int, bool, bool]:
    """Size, signedness and floatness of a type code."""
    return array.array(code).itemsize, code.islower(), code in "fd"


def _make_decimal(arguments: _Arguments, limits: ReadingLimits) -> decimal.Decimal:
    match arguments:
        case (str(text),) if len(text) <= _TEXT_LENGTH_MAX:
            limits.charge(len(text))
            return decimal.Decimal(text)
    raise _refused()


def _make_fraction(arguments: _Arguments, _: ReadingLimits) -> fractions.Fraction:
    match arguments:
        case (str(text),) if _FRACTION.fullmatch(text):
            return fractions.Fraction(text)
        case (int(numerator), int(denominator)):
            _check_small(numerator, denominator)
            return fractions.Fraction(numerator, denominator)
    raise _refused()


def _path_maker(kind: type[pathlib.PurePath]) -> _Maker:
    def make_path(arguments: _Arguments, limits: ReadingLimits) -> pathlib.PurePath:
        if not all(type(part) is str for part in arguments):
            raise _refused()
        limits.charge(sum(map(len, arguments)))
        return kind(*arguments)

    return make_path


def _make_handle(arguments: _Arguments, _: ReadingLimits) -> HandleRecord:
    match arguments:
        case (str(system), str(name), *_):
            return HandleRecord(system, name)
    raise _refused()


def _make_plain_handle(arguments: _Arguments, _: ReadingLimits) -> Inert:
    """A handle of a plain Ray actor, by what people can read."""
    match arguments:
        case (bytes(), bool(), str(), str(actor), str(class_name), str(name), str(namespace)):
            record = Inert("ray.actor.ActorHandle", ())
            record.state = {"actor": actor, "class": class_name, "name": name, "namespace": namespace}
            return record
    raise _refused()


def _make_named(arguments: _Arguments, _: ReadingLimits) -> Inert:
    """An object that stands for itself, as what its first name says."""
    match arguments:
        case (((str(module), str(name)), *_),) | (((str(module), str(name)), *_), _):
            return Inert(checked_name(module, name))
    raise _refused()


def _make_class(arguments: _Arguments, _: ReadingLimits) -> Inert:
    """A class that cloudpickle wrote by value. `_give_state` adds its members."""
    match arguments:
        case (_, str(name), tuple(bases), {"__module__": str(module), **others}, *_):
            qualified_name = others.get("__qualname__", name)  # rayshot did not always write it
            record = Inert(checked_name(module, qualified_name if isinstance(qualified_name, str) else name))
            record.bases = bases
            return record
    raise _refused()


def _make_enum(arguments: _Arguments, limits: ReadingLimits) -> Inert:
    match arguments:
        case (tuple(), str(), str(qualified_name), dict(members), str(module), *_):
            limits.charge_copy(len(members))
            plain = (
                (name, value) for name, value in members.items() if type(name) is str and type(value) in {int, str}
            )
            names: dict[tuple[type, Any], str] = {}
            for name, value in plain:
                limits.check_key((type(value), value), names)
                names[type(value), value] = name
            record = Inert(checked_name(module, qualified_name))
            record.members = names
            return record
    raise _refused()


def _give_state(arguments: _Arguments, _: ReadingLimits) -> Inert:
    match arguments:
        case (Inert(state=None) as record, state):
            record.state = state
            return record
    raise _refused()


def _instance_of(cls: Any, arguments: Any, keywords: Any = None) -> Inert:
    match cls, arguments, keywords:
        case Inert(class_name=name, args=None), tuple(), None | dict():
            return Inert(name, arguments, keywords, cls)
    raise _refused()


def _make_instance(arguments: _Arguments, limits: ReadingLimits) -> Inert:
    cls, *rest = arguments
    limits.charge(len(rest))
    return _instance_of(cls, tuple(rest))


def _make_instance_with_keywords(arguments: _Arguments, _: ReadingLimits) -> Inert:
    cls, inner, keywords = arguments
    return _instance_of(cls, inner, keywords)


def _make_old_instance(arguments: _Arguments, _: ReadingLimits) -> Inert:
    cls, base, value = arguments
    plain = isinstance(base, Inert) and base.class_name == "builtins.object"
    return _instance_of(cls, () if plain else (value,))


def checked_name(module: str, name: str) -> str:
    """`module.name`, if both can be names; raises ValueError. It will be shown, so it must be printable and short."""
    full = f"{module}.{name}"
    if not module or not name or len(full) > _TEXT_LENGTH_MAX // 10 or not full.isprintable():
        raise ValueError("a global has a name that no class or function can have")
    return full


def _build_uuid(record: Inert, state: Any, _: ReadingLimits) -> uuid.UUID:
    match record.args, state:
        case (), {"int": int(number), **rest} if rest.keys() <= {"is_safe"}:
            return uuid.UUID(int=number)
    raise _refused()


def _make_referenced(arguments: _Arguments, limits: ReadingLimits) -> Any:
    """The value of a reference."""
    match arguments:
        case (bytes() | memoryview() as pickled,) if limits.read_inner is not None:
            limits.charge(len(pickled))  # bytes, of which the budget has some for each
            try:
                return limits.read_inner(bytes(pickled))
            except (BadState, LookupError, struct.error) as error:
                raise _refused() from error
    raise _refused()


def _make_slot(arguments: _Arguments, limits: ReadingLimits) -> Any:
    """The content of a slot."""
    match arguments:
        case (int(index),) if type(index) is int and 0 <= index < len(limits.slots):
            return limits.slots[index]
    raise _refused()


_MAKERS: dict[str, _Maker] = {
    "_codecs.encode": _make_encoded,
    "array._array_reconstructor": _make_array,
    "array.array": _make_old_array,
    "builtins.bytearray": _make_bytearray,
    "builtins.bytes": _make_bytes,
    "builtins.complex": _make_complex,
    "builtins.frozenset": _make_frozenset,
    "builtins.getattr": times.make_attribute,
    "builtins.range": _make_range,
    "builtins.set": _make_set,
    "builtins.slice": _make_slice,
    "cloudpickle.cloudpickle._class_setstate": _give_state,
    "cloudpickle.cloudpickle._function_setstate": _give_state,
    "cloudpickle.cloudpickle._make_skeleton_class": _make_class,
    "cloudpickle.cloudpickle._make_skeleton_enum": _make_enum,
    "collections.Counter": _make_counter,
    "collections.OrderedDict": _make_ordered_dict,
    "collections.defaultdict": _make_default_dict,
    "collections.deque": _make_deque,
    "copyreg.__newobj__": _make_instance,
    "copyreg.__newobj_ex__": _make_instance_with_keywords,
    "copyreg._reconstructor": _make_old_instance,
    "datetime.date": times.make_date,
    "datetime.datetime": times.make_datetime,
    "datetime.time": times.make_time,
    "datetime.timedelta": times.make_timedelta,
    "datetime.timezone": times.make_timezone,
    "decimal.Decimal": _make_decimal,
    "fractions.Fraction": _make_fraction,
    "pytz.FixedOffset": times.make_pytz_offset,
    "pytz._UTC": times.make_pytz_utc,
    "pytz._p": times.make_pytz_zone,
    "rayshot.format.exceptions.exception_again": _make_instance_with_keywords,
    "rayshot.format.pickling.put_again": _make_referenced,
    "rayshot.format.pickling.slot": _make_slot,
    "rayshot.format.sentinels.named": _make_named,
    "rayshot.format.shared_arrays.view": arrays.make_view,
    "rayshot.model.handle._rebind": _make_handle,
    "rayshot.runtime.door.plain_handles.plain_handle": _make_plain_handle,
    "rayshot.runtime.ray.plain_handles.plain_handle": _make_plain_handle,  # an older rayshot wrote it
    "zoneinfo.ZoneInfo._unpickle": times.make_zone_info,
    **{
        f"{module}.{name}": _path_maker(kind)
        for module in ("pathlib", "pathlib._local")
        for name, kind in {
            "PosixPath": pathlib.PurePosixPath,
            "PurePosixPath": pathlib.PurePosixPath,
            "PureWindowsPath": pathlib.PureWindowsPath,
            "WindowsPath": pathlib.PureWindowsPath,
        }.items()
    },
    **{
        f"numpy.{core}.{name}": maker
        for core in ("core", "_core")
        for name, maker in {
            "multiarray._reconstruct": arrays.begin_array,
            "multiarray.scalar": arrays.make_scalar,
            "numeric._frombuffer": arrays.make_array_on_buffer,
        }.items()
    },
}

_BUILDERS: dict[str, Callable[[Inert, Any, ReadingLimits], Any]] = {
    "dateutil.tz.tz.tzfile": times.build_zone_of_file,
    "dateutil.tz.tz.tzoffset": times.build_offset,
    "dateutil.zoneinfo.tzfile": times.build_zone_of_file,
    "numpy.dtype": arrays.build_dtype,
    "numpy.ndarray": arrays.build_array,
    "numpy._core.multiarray._reconstruct": arrays.build_array_of_class,
    "numpy.core.multiarray._reconstruct": arrays.build_array_of_class,
    "numpy.ma.core._mareconstruct": arrays.build_masked_array,
    "uuid.UUID": _build_uuid,
}
