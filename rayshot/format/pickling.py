"""The one module that unpickles: states and messages become live objects here and nowhere else.

Whoever calls `load_state` or `load_message` runs code that the bytes choose. At restore the bytes' signature was
checked before; between the processes of one Ray cluster they are trusted as Ray trusts its own.
"""

import io
import pickle
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import cloudpickle

from rayshot.errors import MessageNotSerializable, StateNotSerializable
from rayshot.format.entries import StateCodec

PICKLE: StateCodec = "pickle"
CLOUDPICKLE: StateCodec = "cloudpickle"
_PATH_DEPTH_MAX = 20
_REFUSALS = (TypeError, ValueError, AttributeError, RecursionError, pickle.PicklingError, NotImplementedError)


class PickledState(NamedTuple):
    """A captured state: `stream` is a pickle (protocol 5), `buffers` what it keeps out of band, in order."""

    codec: StateCodec
    stream: bytes
    buffers: tuple[memoryview, ...]


def dump_state(state: object, name: str) -> PickledState:
    """Pickle a state. Plain pickle first; cloudpickle where a class or function cannot be had by reference.

    Raises StateNotSerializable with the path to what cannot be pickled, `name` at its head.
    """
    buffers: list[pickle.PickleBuffer] = []
    try:
        stream = _by_reference(state, buffers)
        codec = PICKLE
        if stream is None:
            buffers.clear()
            stream = cloudpickle.dumps(state, protocol=5, buffer_callback=buffers.append)
            codec = CLOUDPICKLE
        _refuse_references(state, stream)
    except _REFUSALS as error:
        path = find_culprit(state, name)
        raise StateNotSerializable(
            f"{path} cannot be captured: {error}. Leave it out in __getstate__ and make it again in __setstate__",
            path=path,
        ) from error
    return PickledState(codec, stream, tuple(buffer.raw() for buffer in buffers))


def load_state(stream: bytes | memoryview, buffers: Sequence[bytes | bytearray | memoryview] = ()) -> Any:
    """Unpickle what `dump_state` pickled, by either codec."""
    return pickle.loads(stream, buffers=buffers)


def dump_message(method: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str, bytes]:
    """Pickle a call's arguments; returns (codec, payload). Raises MessageNotSerializable with a path."""
    call = (method, args, kwargs)
    try:
        payload = _by_reference(call, None)
        codec = PICKLE
        if payload is None:
            payload, codec = cloudpickle.dumps(call, protocol=5), CLOUDPICKLE
        _refuse_references(call, payload)
    except _REFUSALS as error:
        path = find_culprit({"args": args, "kwargs": kwargs}, f".{method}")
        raise MessageNotSerializable(
            f"{path} cannot be sent: {error}. Nothing was sent", path=path, method=method
        ) from error
    return codec, payload


def load_message(codec: str, payload: bytes) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """Unpickle what `dump_message` pickled: (method, args, kwargs)."""
    del codec  # both codecs write pickles; the name stands in the frame for readers in other languages
    method, args, kwargs = pickle.loads(payload)
    return method, args, kwargs


def dump_class(cls: type) -> bytes:
    """A class by value, for one that no other process could import (it lives in a script or a notebook)."""
    payload = cloudpickle.dumps(cls, protocol=5)
    assert isinstance(payload, bytes)
    return payload


def load_class(payload: bytes) -> type:
    """The class that `dump_class` wrote."""
    cls = pickle.loads(payload)
    assert isinstance(cls, type)
    return cls


def _by_reference(value: object, buffers: list[pickle.PickleBuffer] | None) -> bytes | None:
    """A plain pickle, or None where only cloudpickle serves.

    A class of `__main__` pickles here by its name, but means another module in the process that reads it.
    """
    try:
        stream = pickle.dumps(value, protocol=5, buffer_callback=None if buffers is None else buffers.append)
    except _REFUSALS:
        return None
    return None if b"__main__" in stream else stream


class _ReferenceRefuser(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """A pickler that stops at an ObjectRef: its pickle would be an id that means nothing after a restore."""

    def reducer_override(self, obj: Any) -> Any:
        if (type(obj).__module__, type(obj).__qualname__) == ("ray", "ObjectRef"):
            raise pickle.PicklingError("an ObjectRef is only the name of a value: keep or send the value itself")
        return super().reducer_override(obj)


def _refuse_references(value: object, stream: bytes) -> None:
    """Raise PicklingError if `value` holds an ObjectRef. A look at its pickle tells whether to search at all."""
    if b"ObjectRef" in stream:
        _ReferenceRefuser(io.BytesIO(), protocol=5).dump(value)


def find_culprit(value: object, path: str) -> str:
    """Path to the innermost part of `value` that cannot be pickled, such as `Worker.state['conn']`."""
    for _ in range(_PATH_DEPTH_MAX):
        for step, part in _parts(value):
            if not _can_pickle(part):
                path, value = path + step, part
                break
        else:
            return path
    return path


def _parts(value: object) -> list[tuple[str, object]]:
    if isinstance(value, dict):
        return [(f"[{key!r}]", part) for key, part in value.items()]
    if isinstance(value, list | tuple):
        return [(f"[{index}]", part) for index, part in enumerate(value)]
    if isinstance(value, set | frozenset):
        return [(f"{{{part!r:.40}}}", part) for part in value]
    return [(f".{name}", part) for name, part in getattr(value, "__dict__", {}).items()]


def _can_pickle(value: object) -> bool:
    try:
        _ReferenceRefuser(io.BytesIO(), protocol=5).dump(value)
    except _REFUSALS:
        return False
    return True
