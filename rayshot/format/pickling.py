"""The one module that unpickles: states and messages become live objects here and nowhere else.

Whoever calls `load_state` or `load_message` runs code that the bytes choose. At restore the bytes' signature was
checked before; between the processes of one Ray cluster they are trusted as Ray trusts its own.

References to objects that live elsewhere (Ray's ObjectRefs) mean nothing after a restore, so their values are stored:
a state's pickle holds `put_again(buffer)` in the place of each, and whoever stores the state fills the buffer with
`dump_object` of the value. What a reference is, how to get its value and how to put a value again, the runtime says
with `provide_references`.
"""

import copyreg
import io
import pickle
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import cloudpickle

from rayshot.errors import CodeMismatch, MessageNotSerializable, RayshotError, StateNotSerializable
from rayshot.format.by_value import CLOUDPICKLE_MODULE, ClassMakers, with_qualified_name
from rayshot.format.entries import StateCodec
from rayshot.format.exceptions import fill_leniently, is_same, learn, make_leniently
from rayshot.format.loop_bound import reduce_without_loop
from rayshot.format.outside import may_be_outside, outside_types, refuse_outside
from rayshot.format.redaction import REDACTED, is_secret_path, name_taken

PICKLE: StateCodec = "pickle"
CLOUDPICKLE: StateCodec = "cloudpickle"
PICKLE_START = b"\x80\x05"
"""How a pickle of protocol 5 begins."""

_SHORT_BYTES_MAX = 255
_PATH_DEPTH_MAX = 20
_PATH_PARTS_MAX = 100_000
_REFUSALS = (Exception,)
"""Pickling runs code of any class: whatever it raises means that the value cannot be pickled."""


class Referenced(NamedTuple):
    """A reference in a state: its value belongs into the buffer number `position`; `path` leads to it."""

    position: int
    path: str
    reference: Any


class PickledState(NamedTuple):
    """A captured state: `stream` is a pickle (protocol 5), `buffers` what it keeps out of band, in order.

    The buffers of `references` are empty places.
    """

    codec: StateCodec
    stream: bytes
    buffers: tuple[memoryview, ...]
    references: tuple[Referenced, ...] = ()


class _References:
    """What the runtime provided; without it nothing is a reference."""

    kind: type | None = None
    get: Callable[[Any], Any]
    put: Callable[[Any], Any]


_references = _References()


def provide_references(kind: type, get: Callable[[Any], Any], put: Callable[[Any], Any]) -> None:
    """Say what a reference is; `get(reference)` waits for its value, `put(value)` makes a new one."""
    _references.kind, _references.get, _references.put = kind, get, put


class _Own(threading.local):
    """The instance whose state is being loaded on this thread, and which of its globals have moved."""

    instance: object = None
    names: "Names | None" = None


_own = _Own()


def own_instance() -> object:
    """What stands in a state for the actor's own instance. Snapshots hold this function by name: keep it here."""
    if _own.instance is None:
        raise pickle.UnpicklingError("a state that refers to its own actor is read outside of one")
    return _own.instance


def dump_state(state: object, name: str, own: object = None) -> PickledState:
    """Pickle a state. Plain pickle first; cloudpickle where a class or function cannot be had by reference.

    `own` is the instance whose state it is: where the state refers to it - a callback that is a bound method, say - it
    will refer to the instance that the state is loaded into, and not to a copy.

    Raises StateNotSerializable with the path to what cannot be pickled, `name` at its head.
    """
    buffers: list[pickle.PickleBuffer] = []
    references: tuple[Referenced, ...] = ()
    try:
        stream = _by_reference(state, buffers, own)
        codec = PICKLE
        if stream is None:
            codec = CLOUDPICKLE
            stream, buffers, places = _with_places(state, own)
            references = tuple(Referenced(place, find_path(state, name, found), found) for place, found in places)
    except _REFUSALS as error:
        path = find_culprit(state, name)
        raise StateNotSerializable(
            f"{path} cannot be captured: {error}. Leave it out in __getstate__ and make it again in __setstate__",
            path=path,
        ) from error
    return PickledState(codec, stream, tuple(buffer.raw() for buffer in buffers), references)


Names = Mapping[str, object]
"""What stands for a global of a pickle, or a class by value, by its recorded name ("module.Qualname")."""


def load_state(
    stream: bytes | memoryview,
    buffers: Sequence[bytes | bytearray | memoryview] = (),
    own: object = None,
    names: Names | None = None,
) -> Any:
    """Unpickle what `dump_state` pickled, by either codec, to be the state of the instance `own`."""
    _own.instance, _own.names = own, names
    try:
        return _load(stream, buffers, names)
    finally:
        _own.instance = _own.names = None


def _load(stream: bytes | memoryview, buffers: Sequence[Any] = (), names: "Names | None" = None) -> Any:
    try:
        return _Unpickler(stream, buffers, names).load() if names else pickle.loads(stream, buffers=buffers)
    except (TypeError, AttributeError):  # maybe of an exception's class
        return _LenientUnpickler(stream, buffers, names or {}).load()


def carry(error: BaseException) -> bytes | None:
    """Pickle a user's exception for other processes, which it comes to as it is; None where that cannot be.

    From now on it comes through other pickles of this process too, also Ray's; see `exceptions`.
    """
    try:
        pickled = _Pickler(_refuse).pickle(error)
        if not is_same(error, load_exception(pickled)):
            learn(type(error))
        return _Pickler(_refuse).pickle(error)
    except _REFUSALS:
        return None


def load_exception(pickled: bytes) -> BaseException | None:
    """What `carry` pickled; None where its class cannot be had here, or does not make it."""
    try:
        error = _load(pickled)
    except _REFUSALS:
        return None
    assert isinstance(error, BaseException)
    return error


def dump_object(value: object, get: Callable[[Any], Any]) -> bytes:
    """Pickle the value of a reference, and in it the values that `get` gives for further references."""
    stream = _by_reference(value, None)
    if stream is None:
        stream = _Pickler(lambda reference: (put_again, (dump_object(get(reference), get),))).pickle(value)
    return stream


def put_again(pickled: bytes | memoryview) -> Any:
    """Make a new reference to a value that `dump_object` pickled. Snapshots hold this function by name: keep it."""
    return _references.put(_load(pickled, (), _own.names))


def dump_message(
    method: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    heed: tuple[type, Callable[[Any], object]] | None = None,
) -> tuple[str, bytes]:
    """Pickle a call's arguments; returns (codec, payload). Raises MessageNotSerializable with a path.

    `heed` is (type, function): the function is called with each instance of the type among the arguments and inside of
    them, and may refuse it with an error of ours.

    An argument that is a reference itself is waited for and its value sent, as Ray gives methods the value. One inside
    of another value is refused: Ray would pass it on, but a snapshot could not store the message without its value.
    """
    args, kwargs = tuple(map(_value_of, args)), {key: _value_of(value) for key, value in kwargs.items()}
    call = (method, args, kwargs)
    try:
        payload = _by_reference(call, None)
        codec = PICKLE
        if payload is None or (heed is not None and heed[0].__module__.encode() in payload):
            payload, codec = _Pickler(_refuse, heed=heed).pickle(call), CLOUDPICKLE
    except RayshotError:
        raise  # a value of ours says by itself why it cannot be sent
    except _REFUSALS as error:
        path = find_culprit({"args": args, "kwargs": kwargs}, f".{method}", secret=name_taken(method) is not None)
        raise MessageNotSerializable(
            f"{path} cannot be sent: {error}. Nothing was sent", path=path, method=method
        ) from error
    return codec, payload


def load_message(codec: str, payload: bytes, names: Names | None = None) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """Unpickle what `dump_message` pickled: (method, args, kwargs)."""
    del codec  # both codecs write pickles; the name stands in the frame for readers in other languages
    method, args, kwargs = _load(payload, (), names)
    return method, args, kwargs


def mentions(pickled: bytes, name: str) -> bool:
    """Whether a pickle could hold the global, or the class by value, "module.Qualname"; never False where it does.

    A pickle spells module and qualified name as two texts, each once, whatever stands between them.
    """
    parts = name.split(".")
    return any(
        _spelled(".".join(parts[:cut])) in pickled and _spelled(".".join(parts[cut:])) in pickled
        for cut in range(1, len(parts))
    )


def _spelled(text: str) -> bytes:
    """How a pickle of protocol 5 holds a text: a short one has its length before it."""
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) > _SHORT_BYTES_MAX:
        return encoded
    return pickle.SHORT_BINUNICODE + bytes([len(encoded)]) + encoded


def holds_code(pickled: bytes) -> bool:
    """Whether a pickle holds a class or function by value; never False where it does.

    cloudpickle rebuilds these with functions of its own module, which the pickle names.
    """
    return CLOUDPICKLE_MODULE.__name__.encode() in pickled


def holds_references(pickled: bytes) -> bool:
    """Whether a state's pickle holds references, whose values are pickles among its buffers; never False where so."""
    return put_again.__name__.encode() in pickled


def is_pickle(data: bytes) -> bool:
    """Whether these bytes, or what they are the beginning of, could be a pickle of ours."""
    return data.startswith(PICKLE_START)


def dump_class(cls: type) -> bytes:
    """A class by value, for one that no other process could import (it lives in a script or a notebook)."""
    return _Pickler(_as_it_is).pickle(cls)


def load_class(payload: bytes, names: Names | None = None) -> type:
    """The class that `dump_class` wrote."""
    cls = _load(payload, (), names)
    assert isinstance(cls, type)
    return cls


def dump_names(names: Names) -> bytes:
    """What stands for globals that moved, for another process. Raises CodeMismatch where it cannot be brought there."""
    try:
        return _Pickler(_as_it_is).pickle(dict(names))
    except _REFUSALS as error:
        path = find_culprit(dict(names), "class_map")
        raise CodeMismatch(
            f"{path}, which stands for a class of the snapshot, cannot be brought to the actors' processes: {error}. "
            "Keep out of its methods what cannot be pickled, or say what else stands for it with "
            "class_map={'old.module.Class': NewClass}",
            path=path,
        ) from error


def load_names(payload: bytes) -> Names:
    """What `dump_names` wrote. Imports modules, and runs what makes classes."""
    names = _load(payload)
    assert isinstance(names, dict)
    return names


def _by_reference(value: object, buffers: list[pickle.PickleBuffer] | None, own: object = None) -> bytes | None:
    """A plain pickle, or None where only cloudpickle serves.

    A class of `__main__` pickles here by its name, but means another module in the process that reads it. References
    and what is outside of the value must not be pickled plainly; a look at the pickle tells whether to search for them.
    """
    file = io.BytesIO()
    pickler = pickle.Pickler(file, protocol=5, buffer_callback=None if buffers is None else buffers.append)
    if own is not None:  # a table of types costs nothing for objects of all other types
        pickler.dispatch_table = {**copyreg.dispatch_table, type(own): _reducer_of_others_than(own)}
    try:
        pickler.dump(value)
        stream = file.getvalue()
    except _REFUSALS:
        return None
    kind = _references.kind
    if b"__main__" in stream or (kind is not None and kind.__name__.encode() in stream) or may_be_outside(stream):
        return None
    return stream


def _reducer_of_others_than(own: object) -> Callable[[Any], Any]:
    return lambda found: (own_instance, ()) if found is own else found.__reduce_ex__(5)


def _value_of(argument: Any) -> Any:
    kind = _references.kind
    return _references.get(argument) if kind is not None and isinstance(argument, kind) else argument


class _Unpickler(pickle.Unpickler):
    """Reads a pickle in which some globals and classes by value have moved."""

    def __init__(self, stream: bytes | memoryview, buffers: Sequence[Any], names: Names) -> None:
        super().__init__(io.BytesIO(stream), buffers=buffers)
        self._names = names
        self._makers = ClassMakers(names)

    def find_class(self, module: str, name: str) -> Any:
        """See pickle.Unpickler."""
        moved = self._names.get(f"{module}.{name}")
        if moved is None:
            moved = self._makers.find(module, name)
        return super().find_class(module, name) if moved is None else moved


_InPython: Any = pickle._Unpickler  # noqa: SLF001 - the other one's steps cannot be changed


class _LenientUnpickler(_InPython):  # type: ignore[misc]  # as far as types go, it is anything
    """As `_Unpickler`, but slow, and it makes exceptions that their classes refuse to make again."""

    dispatch: ClassVar = dict(_InPython.dispatch)

    def __init__(self, stream: bytes | memoryview, buffers: Sequence[Any], names: Names) -> None:
        super().__init__(io.BytesIO(stream), buffers=buffers)
        self.find_class = _Unpickler(b"", (), names).find_class

    def load_reduce(self) -> None:
        """Call a class or function."""
        arguments = self.stack.pop()
        called = self.stack[-1]
        is_exception = isinstance(called, type) and issubclass(called, BaseException)
        self.stack[-1] = make_leniently(called, arguments) if is_exception else called(*arguments)

    def load_build(self) -> None:
        """Give an object its state."""
        if isinstance(self.stack[-2], BaseException) and isinstance(self.stack[-1], dict):
            fill_leniently(self.stack[-2], self.stack.pop())
        else:
            super().load_build()

    dispatch[pickle.REDUCE[0]] = load_reduce
    dispatch[pickle.BUILD[0]] = load_build


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """Pickles into memory; `reduce_reference` says what stands for a reference, as `__reduce__` would."""

    def __init__(
        self,
        reduce_reference: Callable[[Any], Any],
        buffer_callback: Callable[[pickle.PickleBuffer], None] | None = None,
        heed: tuple[type, Callable[[Any], object]] | None = None,
        own: object = None,
    ) -> None:
        self._own = own
        self._file = io.BytesIO()
        self._reduce_reference = reduce_reference
        self._heed = heed
        self._outside = outside_types()
        chained = super().dispatch_table.maps  # as they are chained, a look into them is half the time of all
        self.dispatch_table = {kind: reduce for table in reversed(chained) for kind, reduce in table.items()}
        super().__init__(self._file, protocol=5, buffer_callback=buffer_callback)

    def pickle(self, value: object) -> bytes:
        self.dump(value)
        return self._file.getvalue()

    def reducer_override(self, obj: Any) -> Any:
        if obj is self._own and obj is not None:
            return own_instance, ()
        if _references.kind is not None and isinstance(obj, _references.kind):
            return self._reduce_reference(obj)
        if self._heed is not None and isinstance(obj, self._heed[0]):
            self._heed[1](obj)
        if type(obj) in self._outside:
            refuse_outside(obj)
        reduced = reduce_without_loop(obj)
        if reduced is NotImplemented:
            reduced = super().reducer_override(obj)
        return with_qualified_name(reduced, obj) if isinstance(obj, type) else reduced


def _as_it_is(_reference: Any) -> Any:
    """A class keeps the references that it has: its own process, which goes on, keeps what they refer to."""
    return NotImplemented


def _refuse(reference: Any) -> Any:
    """Its pickle would be an id that means nothing after a restore."""
    name = type(reference).__name__
    raise pickle.PicklingError(f"an {name} inside of another value: give it as an argument of its own, or its value")


def _with_places(state: object, own: object) -> tuple[bytes, list[pickle.PickleBuffer], list[tuple[int, Any]]]:
    """Pickle a state with an empty place among the buffers for the value of each reference: (place, reference)."""
    buffers: list[pickle.PickleBuffer] = []
    references: list[tuple[int, Any]] = []

    def leave_place(reference: Any) -> Any:
        references.append((len(buffers), reference))  # the pickler takes the place right after this
        return put_again, (pickle.PickleBuffer(b"\0"),)

    return _Pickler(leave_place, buffers.append, own=own).pickle(state), buffers, references


def find_path(value: object, path: str, wanted: object) -> str:
    """Path to `wanted` inside of `value`; `path` itself where it is not found among the plain parts."""
    start = len(path)
    waiting: list[tuple[str, object]] = [(path, value)]
    seen: set[int] = set()
    while waiting and len(seen) < _PATH_PARTS_MAX:
        at, part = waiting.pop()
        if part is wanted:
            return at
        if id(part) not in seen:
            seen.add(id(part))
            waiting += [(_deeper(at, step, start), inner) for step, inner in _parts(part)]
    return path


def find_culprit(value: object, path: str, *, secret: bool = False) -> str:
    """Path to the innermost part of `value` that cannot be pickled, such as `Worker.state['conn']`.

    `secret`: all of it is, so that the path tells no keys.
    """
    start = 0 if secret else len(path)
    for _ in range(_PATH_DEPTH_MAX):
        for step, part in [] if type(value) in outside_types() else _parts(value):
            if not _can_pickle(part):
                path, value = _deeper(path, step, start), part
                break
        else:
            return path
    return path


def _deeper(path: str, step: str, start: int) -> str:
    """One step on; what is named like a secret may be keyed by secrets, which errors do not tell."""
    return path + (f"[{REDACTED}]" if step[0] != "." and is_secret_path(path[start:]) else step)


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
        _Pickler(_refuse).pickle(value)
    except _REFUSALS:
        return False
    return True
