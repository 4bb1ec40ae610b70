"""What a snapshot needs from a class and what the class here offers; a mismatch is reported with both sides.

A class of values may have another shape today than when a snapshot recorded it. That is compared without reading any
state, and imports the modules of the recorded classes. Only where a class lost a member or a field, requires a new one,
or is of another kind, the states of the actors that may hold its objects are read, inertly.
"""

import logging
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rayshot.errors import BadState, PythonMismatch
from rayshot.format.classes_by_value import Names
from rayshot.format.codec import read_frames, read_messages
from rayshot.format.entries import ActorEntry, Blob, CapturedState
from rayshot.format.manifest import Manifest
from rayshot.format.outline import UNREADABLE, outline, uses_of
from rayshot.format.pickle_bytes import holds_code, holds_references, is_pickle
from rayshot.format.pickling import CLOUDPICKLE
from rayshot.format.reshaping import Reshaped
from rayshot.format.shapes import ENUM, FIELDS, FLAG, MEMBERS, NAMED, ROW, Shape
from rayshot.model.specification import ActorSpecification, user_class_of
from rayshot.model.versions import attributes_of, migration_of, options_of, required_fields

NAMES_SHOWN_MAX = 10
log = logging.getLogger("rayshot")
_PARTS_SHOWN_MAX = 20
_WHAT_IT_IS = {
    ENUM: ", an enum",
    FLAG: ", a flag",
    FIELDS: ", a named tuple or struct",
    ROW: ", a frozen dataclass with slots",
    NAMED: ", a dataclass",
}
_AT_ODDS = "%s was not the same class in %s: its values are loaded as they are recorded, by value and by place"
Read = Callable[[Blob], bytes]


class Cast(NamedTuple):
    """A recorded actor and what it is made of here; `user_class` is None for the recorded class itself, by value."""

    actor: ActorEntry
    specification: ActorSpecification
    user_class: type | None


def unmet(manifest: Manifest, cast: Cast, read: Read) -> Iterator[str]:
    """One sentence for each thing that the snapshot has of an actor and that its class here does not accept.

    Checked are: a lower version without a migration, or a higher version; methods that messages in flight, timers and
    pending replies call; and dataclass fields without a default. A migration's result is checked after it has run.
    """
    actor, specification, user_class = cast
    if user_class is None:
        return
    whose = f"{actor.name} of class {recorded_class(actor)}"
    lower = actor.version < specification.version
    if actor.version > specification.version:
        yield (
            f"the snapshot has {whose} at version {actor.version}, the program has {_name(specification)} at version "
            f"{specification.version}: restore it with a program that is as new"
        )
    elif lower and actor.state is not None and not migration_of(user_class, specification.version):
        yield (
            f"the snapshot has {whose} at version {actor.version}, the program has {_name(specification)} at version "
            f"{specification.version} without migrate(state, from_version)"
        )
    lost = set(actor.methods) - set(specification.methods)
    if lost:
        for what, methods in _calls(manifest, actor, read):
            if missing := sorted(lost & methods):
                yield (
                    f"the snapshot has {what} of {whose} that call {', '.join(missing)}, the program has "
                    f"{_name(specification)} with {_some(specification.methods)}"
                )
    if actor.state is not None and actor.version == specification.version:
        yield from _attributes(actor, whose, user_class, read)


def check_python(manifest: Manifest, casts: Iterable[Cast], read: Read) -> None:
    """Raise PythonMismatch if the restore needs code by value that another minor version of Python wrote."""
    here = platform.python_version_tuple()[:2]
    if tuple(manifest.python_version.split(".")[:2]) == here:
        return
    found = list(dict.fromkeys(where for where, _ in code_by_value(manifest, casts, read)))
    if found:
        raise PythonMismatch(
            f"snapshot {manifest.snapshot} was written by Python {manifest.python_version} and this is Python "
            f"{'.'.join(here)}; code by value is in {_some(found)}: restore it with Python {manifest.python_version}, "
            "or put classes and functions into a module that can be imported",
            python_version=manifest.python_version,
            found=found,
        )


def code_by_value(manifest: Manifest, casts: Iterable[Cast], read: Read) -> Iterator[tuple[str, bytes]]:
    """The places where classes and functions by value are needed, each with the bytes of the pickles that hold them."""
    for actor, _, user_class in casts:
        if user_class is None and actor.class_pickle is not None:
            yield f"the class {recorded_class(actor)} of {actor.name}", read(actor.class_pickle)
    for actor in manifest.actors:
        if actor.state is not None and actor.state.codec == CLOUDPICKLE:
            for pickled in _pickles_of(actor.state, read):
                if holds_code(pickled):
                    yield f"the state of {actor.name}", pickled
    for channel in manifest.channels:
        for blob in channel.blobs():
            if holds_code(frames := read(blob)):
                yield f"messages from {channel.sender} to {channel.receiver}", frames
        for content in channel.contents():
            for pickled in _pickles_of(content, read) if content.codec == CLOUDPICKLE else ():
                if holds_code(pickled):
                    yield f"messages from {channel.sender} to {channel.receiver}", pickled


def _pickles_of(state: CapturedState, read: Read) -> Iterator[bytes]:
    """The pickle of a state or a value, then the pickles of values that it refers to, which are among its buffers."""
    stream = read(state.stream)
    yield stream
    for buffer in state.buffers if holds_references(stream) else ():
        if is_pickle(read(Blob(buffer.spans[:2]))):  # others, as those of arrays, may be large
            yield read(buffer)


def recorded_class(actor: ActorEntry) -> str:
    """The name of an actor's class as the snapshot has it."""
    return f"{actor.class_module}.{actor.class_name}"


def what_is_there(manifest: Manifest, recorded: Sequence[str]) -> list[str]:
    """The actor classes that this program has in the modules of the recorded classes, a phrase for each module."""
    modules = {actor.class_module for actor in manifest.actors if recorded_class(actor) in recorded}
    return [_contents(module) for module in sorted(modules)]


def _contents(module: str) -> str:
    if module not in sys.modules:
        return f"no module {module}"
    there = vars(sys.modules[module]).values()
    classes = {
        user.__qualname__
        for found in tuple(there)
        if (user := user_class_of(found)) is not None and options_of(user) is not None
    }
    return f"in {module} {_some(sorted(classes)) if classes else 'no actor class'}"


def _calls(manifest: Manifest, actor: ActorEntry, read: Read) -> Iterator[tuple[str, set[str]]]:
    """Everything that will call methods of an actor, each with the names of these methods."""
    for channel in manifest.channels:
        if channel.receiver == actor.name:
            frames = (frame for blob in channel.blobs() for frame in read_frames(read(blob)))
            methods = {message.method for frame in frames for message in read_messages(frame)}
            yield f"messages in flight from {channel.sender}", methods
    if actor.state is not None:
        recorded = _outline(actor, read)
        calls, timers = recorded.get("calls", {}).values(), recorded.get("timers", ())
        yield "pending replies", {method for call in calls for method in call[:2] if method is not None}
        yield "timers", {timer[1] for timer in timers}


def _attributes(actor: ActorEntry, whose: str, user_class: type, read: Read) -> Iterator[str]:
    required = required_fields(user_class)
    if not required:
        return
    there = attributes_of(_outline(actor, read)["state"])
    if there is not None and required - there:
        yield (
            f"the snapshot has {whose} with {_some(sorted(there))}, the program has {user_class.__module__}."
            f"{user_class.__qualname__}, which requires {_some(sorted(required))}"
        )


def _outline(actor: ActorEntry, read: Read) -> Mapping[str, Any]:
    assert actor.state is not None
    stream = read(actor.state.stream)
    try:
        recorded = outline(stream)
    except UNREADABLE as error:
        raise BadState(f"the state of {actor.name} cannot be read: {error!r}", actor=actor.name) from error
    if not isinstance(recorded, dict) or "state" not in recorded:
        raise BadState(f"the state of {actor.name} is not what an actor writes", actor=actor.name)
    return recorded


def _name(specification: ActorSpecification) -> str:
    return f"{specification.class_module}.{specification.class_name}"


def _some(names: Iterable[str]) -> str:
    known = list(names)
    more = len(known) - NAMES_SHOWN_MAX
    return (", ".join(known[:NAMES_SHOWN_MAX]) or "none") + (f" and {more} more" if more > 0 else "")


def changed_shapes(manifest: Manifest, names: Names) -> dict[str, Reshaped]:
    """The recorded classes whose values change, by name; also those that this process cannot find, but actors may.

    `names` are those that stand for moved globals. It logs what was renamed, and classes that processes of one snapshot
    recorded with different shapes: such a class is left as it is recorded.
    """
    recorded: dict[str, dict[Shape, str]] = {}
    for actor in manifest.actors:
        for name, shape in actor.shapes.items():
            recorded.setdefault(name, {}).setdefault(shape, actor.name)
    found = {}
    for name, shapes in recorded.items():
        changed = [one for shape in shapes if (one := _changed(name, shape, names)) is not None]
        if len(shapes) == 1 and changed:
            (found[name],) = changed
        elif changed:
            log.warning(_AT_ODDS, name, " and ".join(shapes.values()))
    return found


def _changed(name: str, shape: Shape, names: Names) -> Reshaped | None:
    to = user_class_of(names.get(name))
    if to is None and (name.startswith("__main__.") or "<locals>" in name):
        return None  # the recorded class itself, by value
    one = Reshaped(name, shape, to)
    if one.kind is None:
        return one
    if one.reshaping is None:
        return None
    for old, new in one.reshaping.renamed:
        log.warning("%s: %s is taken for the new name of %s, which is gone", name, new, old)
    return one if one.changes else None


def lost_parts(actor: ActorEntry, changed: dict[str, Reshaped], read: Callable[[Blob], bytes]) -> Iterator[str]:
    """One sentence for each class of which the state of an actor holds what has no place any more."""
    doubtful = {
        name: reshaping
        for name in actor.shapes
        if name in changed and (reshaping := changed[name].reshaping) and reshaping.may_lose
    }
    if actor.state is None or not doubtful:
        return
    uses = uses_of(read(actor.state.stream), {name: one.is_lost for name, one in doubtful.items()})
    for name, lost in uses.items():
        if lost:
            one = changed[name]
            same = one.today is not None and one.today.kind == one.shape.kind
            was = _described(name, one.shape, same=same)
            today = _described(f"{one.kind.__module__}.{one.kind.__qualname__}", one.today, same=same)
            yield f"the snapshot has {actor.name} with {', '.join(sorted(lost))} in {was}, the program has {today}"


def _described(name: str, shape: Shape | None, *, same: bool) -> str:
    """A class with its fields, or with its members and their values; and what it is, if that is not the same."""
    if shape is None:
        return f"{name}, which has no such parts"
    with_values = shape.kind in MEMBERS
    parts = [f"{part}={value!r}" if with_values else part for part, value in shape.parts[:_PARTS_SHOWN_MAX]]
    more: list[Any] = ["..."] if len(shape.parts) > _PARTS_SHOWN_MAX else []
    return f"{name}({', '.join([*parts, *more])}){'' if same else _WHAT_IT_IS[shape.kind]}"
