"""numpy's part of the closed table: arrays, scalars and dtypes, rebuilt by public constructors from checked arguments.

numpy's own `__setstate__` of a dtype trusts its arguments, and a dtype that says "object" for plain bytes turns them
into pointers. So this module makes dtypes from their parts, and no array of bytes ever has a dtype with objects. Arrays
are views on the pickle's bytes, without a copy. numpy is imported for the first array; if it is not installed, arrays
stay records. An array of another class becomes a record of that class, which holds plain arrays.
"""

import array
import importlib
import math
import re
from typing import Any

from rayshot.inert.inert_object import Inert
from rayshot.inert.limits import ReadingLimits

_WORD_BYTES = 8
_DIMENSIONS_MAX = 32
_EXTENT_MAX = 2**48
_CODE_POINT_MAX = 0x10FFFF
_FIELDS_DEPTH_MAX = 16
_FIELDS_MAX = 1_000
_CODE = re.compile(r"[biufcSUV]\d{1,9}", re.ASCII)
_UNITS = frozenset(["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"])
_ORDERS = frozenset("<>|=")
_Arguments = tuple[Any, ...]


def begin_array(arguments: _Arguments, _: ReadingLimits) -> Inert:
    """`_reconstruct`: an empty array of a plain class, which its state will fill."""
    match arguments:
        case (Inert(class_name="numpy.ndarray", args=None), (0,), b"b"):
            return Inert("numpy.ndarray", ())
    raise _refused()


def build_array(_: Inert, state: Any, limits: ReadingLimits) -> Any:
    """The state of an array: (version, shape, dtype, whether in Fortran's order, bytes or a list of objects)."""
    match state:
        case (1, tuple(shape), dtype, bool(fortran), bytes() | bytearray() as data):
            return _array(data, dtype, shape, "F" if fortran else "C", limits)
        case (1, tuple(shape), dtype, bool(fortran), list(items)):
            return _object_array(items, dtype, shape, fortran=fortran, limits=limits)
    raise _refused()


def build_array_of_class(begun: Inert, state: Any, limits: ReadingLimits) -> Inert:
    """The state of an array of a class of its own, such as numpy.matrix, that has no other state than a plain one."""
    match begun.args:
        case (Inert(args=None) as cls, (0,), b"b"):
            return Inert(cls.class_name, (build_array(begun, state, limits),), cls=cls)
    raise _refused()


def build_masked_array(begun: Inert, state: Any, limits: ReadingLimits) -> Inert:
    """The state of a masked array: that of an array, the bytes of its mask, and the value that fills holes or None."""
    match begun.args, state:
        case (Inert(args=None) as cls, _, (0,), _), (_, shape, _, fortran, _, bytes(mask), fill_value):
            data = build_array(begun, state[:5], limits)
            limits.charge_copy(_check_fields([data.dtype]))
            mask_dtype = importlib.import_module("numpy.ma").make_mask_descr(data.dtype)
            record = Inert(cls.class_name, (), cls=cls)
            record.state = {
                "data": data,
                "mask": _array(mask, mask_dtype, shape, "F" if fortran else "C", limits),
                "fill_value": fill_value,
            }
            return record
    raise _refused()


def make_array_on_buffer(arguments: _Arguments, limits: ReadingLimits) -> Any:
    """`_frombuffer`: an array on a buffer that is in the pickle or beside it."""
    match arguments:
        case (bytes() | bytearray() | memoryview() as data, dtype, tuple(shape), "C" | "F" as order):
            return _array(data, dtype, shape, order, limits)
        case (bytes() | bytearray() | memoryview() as data, dtype, tuple(shape), "K", tuple(axes)):
            return _array(data, dtype, shape, "C", limits).transpose(axes)
    raise _refused()


def make_view(arguments: _Arguments, limits: ReadingLimits) -> Any:
    """`shared_arrays.view`: an array on memory that it shares with others, nowhere outside of it."""
    match arguments:
        case (tuple(shape), dtype, memory, int(offset), tuple(strides), bool()) if len(shape) == len(strides):
            count = _check_shape(shape)
            if not count or not all(type(stride) is int for stride in strides) or _checked(dtype).itemsize == 0:
                raise _refused()
            reaches = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
            low = offset + sum(reach for reach in reaches if reach < 0)
            high = offset + sum(reach for reach in reaches if reach > 0) + dtype.itemsize
            work = max(count, _work(count * dtype.itemsize))  # a few strides make many items of few bytes
            if low < 0 or high > _size_of_memory(memory) or work > limits.left:
                raise _refused()
            limits.charge(work)
            view = _numpy().ndarray(shape, dtype, memory, offset, strides)
            _check_characters(view, limits)
            return view
    raise _refused()


def _size_of_memory(memory: Any) -> int:
    """The bytes of what may be the memory of views: bytes, and numbers of `array.array`."""
    numpy = _numpy()
    if type(memory) is numpy.ndarray and memory.dtype == numpy.uint8 and memory.ndim == 1:
        return int(memory.nbytes) if memory.flags.c_contiguous else 0
    return memoryview(memory).nbytes if type(memory) in {bytearray, array.array} else 0


def _work(size_bytes: int) -> int:
    """What an array costs those who read it: they copy all of it, also where other arrays have the same bytes."""
    return size_bytes // _WORD_BYTES


def make_scalar(arguments: _Arguments, limits: ReadingLimits) -> Any:
    """`scalar`: one value of a dtype."""
    match arguments:
        case (dtype, bytes(data)):
            return _array(data, dtype, (), "C", limits)[()]
    raise _refused()


def build_dtype(record: Inert, state: Any, limits: ReadingLimits) -> Any:
    """The state of a dtype: (version, byte order, sub-dtype, names, fields, size, alignment, flags[, metadata])."""
    numpy = _numpy()
    match record.args, state:
        case (str(), _, _), (3 | 4, str(), (base, tuple(shape)), None, None, *_):
            _check_shape(shape)
            return numpy.dtype((_checked(base), shape))
        case (str() | Inert(class_name="numpy.record"), _, _), (
            3 | 4,
            str(),
            None,
            tuple(names),
            dict(fields),
            int(size),
            *_,
        ):
            return _structured(names, fields, size, limits)
        case ("O8" | "O4", _, _), (3 | 4, "|", None, None, None, *_):
            return numpy.dtype(object)
        case ("M8" | "m8" as code, _, _), (4, str(order), None, None, None, _, _, _, (_, (unit, step, 1, _))):
            return numpy.dtype(_checked_order(order) + code + _unit(code, unit, step))
        case (str(code), _, _), (3 | 4, str(order), None, None, None, *_) if _CODE.fullmatch(code):
            return numpy.dtype(_checked_order(order) + code)
    raise _refused()


def _structured(names: tuple[Any, ...], fields: dict[Any, Any], size: int, limits: ReadingLimits) -> Any:
    """A dtype of fields, each within `size`: the constructor checks that too, but in integers that overflow."""
    if set(names) != set(fields) or len(names) != len(fields):
        raise _refused()
    parts = [fields[name] for name in names]
    if not all(type(part) is tuple and type(part[1]) is int for part in parts):
        raise _refused()
    formats, offsets = [_checked(part[0]) for part in parts], [part[1] for part in parts]
    if not all(0 <= offset <= size - inner.itemsize for offset, inner in zip(offsets, formats, strict=True)):
        raise _refused()
    limits.charge(_check_fields(formats))
    layout = {"names": list(names), "formats": formats, "offsets": offsets, "itemsize": size}
    return _numpy().dtype(layout)


def _check_fields(dtypes: list[Any]) -> int:
    """The number of dtypes in `dtypes`, as a tree; raises where it is too deep or large to be shown."""
    count, level = 0, dtypes
    for _ in range(_FIELDS_DEPTH_MAX):
        count += len(level)
        if count > _FIELDS_MAX:
            raise _refused()
        structured = (dtype.base for dtype in level if dtype.base.names is not None)
        level = [dtype.fields[name][0] for dtype in structured for name in dtype.names]
        if not level:
            return count
    raise _refused()


def _array(
    data: bytes | bytearray | memoryview, dtype: Any, shape: tuple[Any, ...], order: str, limits: ReadingLimits
) -> Any:
    """A view on `data` that covers exactly all of it."""
    numpy = _numpy()
    count = _check_shape(shape)
    if _checked(dtype).itemsize == 0 or count * dtype.itemsize != memoryview(data).nbytes:
        raise _refused()
    if count == 0:
        return numpy.zeros(shape, dtype, order)
    limits.charge(_work(count * dtype.itemsize))
    array = numpy.ndarray(shape, dtype, data, order=order)
    _check_characters(array, limits)
    return array


def _check_characters(array: Any, limits: ReadingLimits) -> None:
    """Every character is one: numpy would make strings of any 32 bits, which Python's own functions take for sound."""
    if array.dtype.names is not None:
        for name in array.dtype.names:
            _check_characters(array[name], limits)
    elif array.dtype.kind == "U" and array.size:
        limits.charge(array.nbytes // 4)
        points = _numpy().ascontiguousarray(array).reshape(-1).view(f"{array.dtype.str[0]}u4")
        if points.max() > _CODE_POINT_MAX:
            raise _refused()


def _object_array(
    items: list[Any],
    dtype: Any,
    shape: tuple[Any, ...],
    *,
    fortran: bool,
    limits: ReadingLimits,
) -> Any:
    numpy = _numpy()
    if dtype is not numpy.dtype(object) or _check_shape(shape) != len(items):
        raise _refused()
    limits.charge_copy(len(items))
    array = numpy.empty((0,), dtype)
    limits.check_array(array, items)
    array.__setstate__((1, shape, dtype, fortran, items))
    return array


def _check_shape(shape: tuple[Any, ...]) -> int:
    """The number of items; raises where numpy could not count them."""
    if len(shape) > _DIMENSIONS_MAX or not all(type(extent) is int and extent >= 0 for extent in shape):
        raise _refused()
    if max(shape, default=0) > _EXTENT_MAX:
        raise _refused()
    return math.prod(shape)


def _checked(dtype: Any) -> Any:
    """A dtype whose items are nothing but their bytes."""
    if not isinstance(dtype, _numpy().dtype) or dtype.hasobject:
        raise _refused()
    return dtype


def _checked_order(order: str) -> str:
    if order not in _ORDERS:
        raise _refused()
    return order


def _unit(code: str, unit: Any, step: Any) -> str:
    """The unit of times, as dtypes spell it. A point in time without a unit cannot be shown, so it stays a record."""
    name = unit.decode("ascii") if isinstance(unit, bytes) else unit
    if name == "generic" and code == "m8":
        return ""
    if name not in _UNITS or type(step) is not int or step < 1:
        raise _refused()
    return f"[{step}{name}]"


def _numpy() -> Any:
    try:
        return importlib.import_module("numpy")
    except ImportError as error:
        raise TypeError("numpy is not installed") from error


def _refused() -> TypeError:
    return TypeError("not the arguments that numpy writes")
