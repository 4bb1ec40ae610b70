"""Pickles of states, messages, exceptions and classes.

`load_state` and `load_message` run code that the bytes choose, see `unpickling`.

References to objects (Ray's ObjectRefs) mean nothing after a restore, so their values are stored. A state's pickle
holds `put_again(buffer)` in the place of each reference, and the writer of the state fills the buffer with
`dump_object` of the value. The runtime defines with `provide_references` what a reference is, how to get its value and
how to put a value again.

A message's pickle holds `slot(i)` in the place of each reference, and of large arguments. The contents are outside of
the message, see `slots`.
"""

import copyreg
import io
import pickle
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import cloudpickle

from rayshot.errors import CodeMismatch, MessageNotSerializable, RayshotError, StateNotSerializable
from rayshot.format.classes_by_value import Names, with_qualified_name
from rayshot.format.entries import StateCodec
from rayshot.format.exceptions import is_same, learn
from rayshot.format.external_values import may_be_outside, outside_types, refuse_outside
from rayshot.format.paths import find_culprit, find_paths, in_words
from rayshot.format.pickled_state import PickledState, Referenced
from rayshot.format.references import reducer_of_handles
from rayshot.format.references import references as _references
from rayshot.format.shapes import NotedInMessages, Shapes
from rayshot.format.slots import FAILED, LARGE, LARGE_BYTES, OBJECT, VALUE, Everywhere, Slot, SlotKind, StoredValue
from rayshot.format.special_parts import SpecialParts, reduce_without_loop
from rayshot.format.unpickling import Keeping as Keeping  # noqa: PLC0414 - for whoever loads for trial
from rayshot.format.unpickling import unpickle
from rayshot.inert.redaction import name_taken

PICKLE: StateCodec = "pickle"
CLOUDPICKLE: StateCodec = "cloudpickle"

_REFUSALS = (Exception, SystemExit)
"""The exceptions that pickling may raise: it runs code of any class."""


class _Own(threading.local):
    """The load that runs on this thread: the instance of a state, the slots of a message, and the moved globals.

    `dumps`: this thread pickles a state.
    """

    instance: object = None
    names: Names | None = None
    slots: "Sequence[Slot]" = ()
    dumps: bool = False


_own = _Own()
_NO_LOCK = ". Handlers of one actor run one at a time, and need no lock among each other"


def own_instance() -> object:
    """Stands in a state for the actor's own instance. Snapshots hold this function by name: keep it here."""
    if _own.instance is None:
        raise pickle.UnpicklingError("this state refers to its own actor, so only a restore can load it")
    return _own.instance


def is_dumping_state() -> bool:
    """Whether this thread pickles a state now, and not a message: some things are part of a state only."""
    return _own.dumps


def dump_state(state: object, name: str, own: object = None) -> PickledState:
    """Pickle a state. It tries plain pickle first, and cloudpickle if a class or function has no importable name.

    `own` is the instance of the state. If the state refers to it, for example with a bound method as a callback, the
    loaded state refers to the new instance, not to a copy.

    Raises StateNotSerializable with the path to the part that cannot be pickled; the path begins with `name`.
    """
    special = SpecialParts(own, (own_instance, ()))
    _own.dumps = True
    try:
        pickled = _pickled(state, name, special)
        if special.arrays.are_found():
            pickled = _pickled(state, name, special)
    except _REFUSALS as error:
        path = find_culprit(state, name, partial(_can_pickle, own=own))
        why = _why(error)
        hint = _NO_LOCK if "'_thread." in why else ""
        raise StateNotSerializable(
            f"{path} cannot be captured: {why}. Leave it out in __getstate__ and make it again in on_restore{hint}",
            path=path,
        ) from error
    finally:
        _own.dumps = False
    return pickled._replace(comes_apart=True) if special.arrays.come_apart else pickled


def _pickled(state: object, name: str, special: SpecialParts) -> PickledState:
    """A state by plain pickle, else by cloudpickle."""
    buffers: list[pickle.PickleBuffer] = []
    references: tuple[Referenced, ...] = ()
    stream = _by_reference(state, buffers.append, special)
    codec = PICKLE
    if stream is None:
        codec = CLOUDPICKLE
        try:
            stream, buffers, places = _with_places(state, special)
        except _REFUSALS:
            if special.errors.leave_out():
                return _pickled(state, name, special)
            raise
        paths = find_paths(state, name, [found for _, found in places])
        references = tuple(Referenced(at, path, one) for path, (at, one) in zip(paths, places, strict=True))
    raw = tuple(buffer.raw() for buffer in buffers)
    return PickledState(codec, stream, raw, references, shapes=special.shapes, handles=tuple(special.handles.found))


def load_state(
    stream: bytes | memoryview,
    buffers: Sequence[bytes | bytearray | memoryview] = (),
    own: object = None,
    names: Names | None = None,
) -> Any:
    """Unpickle the result of `dump_state`, of either codec, as the state of the instance `own`."""
    _own.instance, _own.names = own, names
    try:
        return unpickle(stream, buffers, names, own)
    finally:
        _own.instance = _own.names = None


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
    """What `carry` pickled; None if its class does not exist here, or does not make it."""
    try:
        error = unpickle(pickled)
    except _REFUSALS:
        return None
    assert isinstance(error, BaseException)
    return error


def dump_object(value: object, get: Callable[[Any], Any]) -> bytes:
    """Pickle the value of a reference. `get` returns the values of further references in it."""
    stream = _by_reference(value, None)
    if stream is None:
        stream = _Pickler(lambda reference: (put_again, (dump_object(get(reference), get),))).pickle(value)
    return stream


def put_again(pickled: bytes | memoryview) -> Any:
    """Make a new reference to a value that `dump_object` pickled. Snapshots hold this function by name: keep it."""
    return _references.put(unpickle(pickled, (), _own.names))


Heed = tuple[type, Callable[[Any], object]]
"""A type, and a function that is called with each pickled instance of it and may refuse it."""


def _is_to_be_heeded(heed: Heed | None, pickled: bytes) -> bool:
    return heed is not None and heed[0].__module__.encode() in pickled


def dump_message(
    method: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    heed: Heed | None = None,
    *,
    as_they_are: bool = False,
) -> tuple[str, bytes, tuple[Slot, ...]]:
    """Pickle a call's arguments; returns (codec, payload, slots). Raises MessageNotSerializable with a path.

    `heed` refuses instances among the arguments and inside of them with an error of ours.

    If an argument is a reference, the handler gets its value, as in Ray; if a reference is inside of another value, the
    handler gets the reference. With `as_they_are` it gets the reference in both cases.

    All large arguments together are one slot. Raises the errors of putting them.
    """
    slots: list[Slot] = []
    kind = None if as_they_are else _references.kind
    if kind is not None and (kind in map(type, args) or kind in map(type, kwargs.values())):
        args = tuple(_with_value(f"argument {place}", one, slots) for place, one in enumerate(args, 1))
        kwargs = {key: _with_value(f"argument {key}", one, slots) for key, one in kwargs.items()}
    call, values = (method, args, kwargs), len(slots)
    buffers: list[pickle.PickleBuffer] = []

    def is_small(buffer: pickle.PickleBuffer) -> bool:  # it goes into the pickle itself then
        if _references.kind is None or memoryview(buffer).nbytes < LARGE_BYTES:
            return True
        buffers.append(buffer)
        return False

    try:
        payload = _by_reference(call, is_small)
        codec = PICKLE
        if payload is None or _is_to_be_heeded(heed, payload):
            del slots[values:], buffers[:]
            payload, codec = _Pickler(_leaving_places(slots), is_small, heed=heed).pickle(call), CLOUDPICKLE
    except RayshotError:
        raise  # a value of ours says by itself why it cannot be sent
    except _REFUSALS as error:
        given, secret = {"args": args, "kwargs": kwargs}, name_taken(method) is not None
        path = find_culprit(given, f".{method}", _can_pickle, secret=secret)
        raise MessageNotSerializable(
            f"{path} cannot be sent: {_why(error)}. Nothing was sent", path=path, method=method
        ) from error
    if _references.kind is not None and (buffers or len(payload) > LARGE_BYTES):
        parts = [pickle.PickleBuffer(payload), *buffers]
        slots.append(Slot(LARGE, _references.put(parts), size=sum(memoryview(part).nbytes for part in parts)))
        payload = pickle.dumps((method, _Place(len(slots) - 1), None), protocol=5)
    return codec, payload, tuple(slots)


def load_message(
    codec: str, payload: bytes, names: Names | None = None, slots: Sequence[Slot] = ()
) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """Unpickle the result of `dump_message`: (method, args, kwargs). Raises the error of a failed slot."""
    del codec  # both codecs write pickles; the name stands in the frame for readers in other languages
    if not slots:
        method, args, kwargs = unpickle(payload, (), names)
        return method, args, kwargs
    _own.slots = slots
    try:
        method, args, kwargs = unpickle(payload, (), names)
    finally:
        _own.slots = ()
    return (method, args, kwargs) if kwargs is not None else args


def copy_value(value: object, heed: Heed | None = None) -> tuple[Any, int]:
    """A copy as a message makes it, and its bytes; references stay references. Raises the errors of pickling."""
    buffers: list[pickle.PickleBuffer] = []
    slots: list[Slot] = []
    stream = _by_reference(value, buffers.append)
    if stream is None or _is_to_be_heeded(heed, stream):
        del buffers[:]
        stream = _Pickler(_leaving_places(slots), buffers.append, heed=heed).pickle(value)
    _own.slots, before = slots, _own.slots
    try:
        copies = [_copied(buffer.raw()) for buffer in buffers]
        return unpickle(stream, copies), len(stream) + sum(copy.nbytes for copy in copies)
    finally:
        _own.slots = before


def _leaving_places(slots: list[Slot]) -> Callable[[Any], Any]:
    """What stands for references: places of slots that are added to these."""

    def leave_place(reference: Any) -> Any:
        slots.append(Slot(OBJECT, reference, where="an object inside an argument or a result"))
        return slot, (len(slots) - 1,)

    return leave_place


ALL_PLACES = Everywhere(lambda index: Slot(VALUE, content=_Place(index)))
"""Each slot of a message stands for itself: what is loaded with these is pickled again as it was."""


def recast_parts(parts: Sequence[Any], names: Names) -> list[Any]:
    """The parts of a slot's pickle with what stands for globals that moved. Runs what it holds."""
    _own.slots, _own.names = ALL_PLACES, names
    try:
        value = unpickle(parts[0], parts[1:], names)
    finally:
        _own.slots, _own.names = (), None
    buffers: list[pickle.PickleBuffer] = []
    pickled = _Pickler(_as_it_is, buffers.append).pickle(value)
    return [pickled, *(buffer.raw() for buffer in buffers)]


def with_values(payload: bytes, slots: Sequence[Slot]) -> bytes:
    """A message's payload with the values that lie beside it inside. Places of references and failures stay.

    Runs what the payload and the slots hold.
    """
    inside = [one if one.kind in {VALUE, LARGE} else Slot(VALUE, content=_Place(at)) for at, one in enumerate(slots)]
    return _Pickler(_as_it_is).pickle(load_message("", payload, None, inside))


class _Place:
    def __init__(self, index: int) -> None:
        self._index = index

    def __reduce__(self) -> Any:
        return slot, (self._index,)


def _with_value(where: str, argument: Any, slots: list[Slot]) -> Any:
    """The argument, or a place for its value if it is a reference."""
    if _references.kind is None or not isinstance(argument, _references.kind):
        return argument
    slots.append(Slot(VALUE, argument, where=where))
    return _Place(len(slots) - 1)


def slot(index: int) -> Any:
    """The content of this slot of the message that loads now. Snapshots hold this function by name: keep it."""
    if not _own.slots:
        raise pickle.UnpicklingError("a message holds an ObjectRef, or what failed, and is read without Ray")
    found = _own.slots[index]
    if found.kind == OBJECT:
        found.reference = found.reference or _load_stored(OBJECT, found.content)  # a state may hold it: see LoopState
        return found.reference
    content = found.content
    if isinstance(content, StoredValue):
        return _load_stored(found.kind, content)
    if found.reference is not None:
        content = _references.get(found.reference)
    if found.kind == FAILED:
        raise unpickle(content)
    return _load_parts(content) if found.kind == LARGE else content


def _load_stored(kind: SlotKind, stored: StoredValue) -> Any:
    value = _load_parts(_references.get(stored.reference) if stored.parts is None else stored.parts)
    if kind == FAILED:
        raise value
    return _references.put(value) if kind == OBJECT else value


def _load_parts(parts: Sequence[Any]) -> Any:
    """A value that was passed by value belongs to the handler, which may change it."""
    return unpickle(parts[0], [_copied(buffer) for buffer in parts[1:]])


def _copied(buffer: Any) -> memoryview:
    """A copy that can be written to. Numpy takes large pages, and so a third of the time."""
    import numpy as np  # noqa: PLC0415 - late: who reads snapshots needs none

    return np.frombuffer(buffer, np.uint8).copy().data


def dump_class(cls: type) -> bytes:
    """Pickle a class by value that no other process can import, because a script or a notebook defines it."""
    return _Pickler(_as_it_is).pickle(cls)


def load_class(payload: bytes, names: Names | None = None) -> type:
    """The class in the result of `dump_class`."""
    cls = unpickle(payload, (), names)
    assert isinstance(cls, type)
    return cls


def dump_names(names: Names) -> bytes:
    """What stands for globals that moved, for another process. Raises CodeMismatch where it cannot be brought there."""
    try:
        return _Pickler(_as_it_is).pickle(dict(names))
    except _REFUSALS as error:
        path = find_culprit(dict(names), "rename_classes", _can_pickle)
        raise CodeMismatch(
            f"{path}, which stands for a class of the snapshot, cannot be brought to the actors' processes: {error}. "
            "Keep out of its methods what cannot be pickled, or say what else stands for it with "
            "rename_classes={'old.module.Class': NewClass}",
            path=path,
        ) from error


def load_names(payload: bytes) -> Names:
    """What `dump_names` wrote. Imports modules, and runs what makes classes."""
    names = unpickle(payload)
    assert isinstance(names, dict)
    return names


def _by_reference(
    value: object,
    buffer_callback: Callable[[pickle.PickleBuffer], Any] | None,
    special: SpecialParts | None = None,
) -> bytes | None:
    """A plain pickle, or None if only cloudpickle can pickle the value.

    A class of `__main__` pickles here by its name, but means another module in the process that reads it. References
    and what is outside of the value must not be pickled plainly; a look at the pickle tells whether to search for them.
    """
    file = io.BytesIO()
    pickler = pickle.Pickler(file, protocol=5, buffer_callback=buffer_callback)
    pickler.dispatch_table = _in_messages.table if special is None else special.table(pickler, copyreg.dispatch_table)
    try:
        pickler.dump(value)
        stream = file.getvalue()
    except _REFUSALS:
        return None
    kind = _references.kind
    if b"__main__" in stream or (kind is not None and kind.__name__.encode() in stream) or may_be_outside(stream):
        return None
    return stream


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """Pickles into memory; `reduce_reference` says what stands for a reference, as `__reduce__` would."""

    def __init__(
        self,
        reduce_reference: Callable[[Any], Any],
        buffer_callback: Callable[[pickle.PickleBuffer], Any] | None = None,
        heed: Heed | None = None,
        special: SpecialParts | None = None,
    ) -> None:
        self._own = None if special is None else special.own
        self._file = io.BytesIO()
        self._reduce_reference = reduce_reference
        self._heed = heed
        self._outside = outside_types()
        self.dispatch_table = _in_messages_by_value.table if special is None else special.table(self, _by_cloudpickle())
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


def _by_cloudpickle() -> dict[type, Any]:
    """Its reducers. They are chained there, and a look into them would be half the time of all."""
    chained = cloudpickle.Pickler.dispatch_table.maps
    return {kind: reduce for table in reversed(chained) for kind, reduce in table.items()}


_in_messages = NotedInMessages(lambda: copyreg.dispatch_table, reducer_of_handles)
_in_messages_by_value = NotedInMessages(_by_cloudpickle, reducer_of_handles)


def shapes_in_messages() -> Shapes:
    """The shapes of what this process has pickled, except its state."""
    return {**_in_messages.table.shapes, **_in_messages_by_value.table.shapes}


def _as_it_is(_reference: Any) -> Any:
    """A class keeps the references that it has: its own process, which goes on, keeps what they refer to."""
    return NotImplemented


def _refuse(reference: Any) -> Any:
    """Refuse it: its pickle would be an id that means nothing elsewhere."""
    raise pickle.PicklingError(f"an {type(reference).__name__} inside an error")


def _with_places(
    state: object, special: SpecialParts
) -> tuple[bytes, list[pickle.PickleBuffer], list[tuple[int, Any]]]:
    """Pickle a state with an empty place among the buffers for the value of each reference: (place, reference)."""
    buffers: list[pickle.PickleBuffer] = []
    references: list[tuple[int, Any]] = []

    def leave_place(reference: Any) -> Any:
        references.append((len(buffers), reference))  # the pickler takes the place right after this
        return put_again, (pickle.PickleBuffer(b"\0"),)

    return _Pickler(leave_place, buffers.append, special=special).pickle(state), buffers, references


def _why(error: BaseException) -> str:
    """What an error says; of one that would end the program, its code alone says nothing."""
    return in_words(error, repr if isinstance(error, SystemExit) else str)


def _can_pickle(value: object, own: object = None) -> bool:
    special = SpecialParts(own, (own_instance, ()))
    special.errors.leave_out()
    try:
        _Pickler(lambda _reference: (slot, (0,)), special=special).pickle(value)
    except _REFUSALS:
        return False
    return True
