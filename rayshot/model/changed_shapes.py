"""Classes of values whose shape is another one today than when a snapshot recorded them.

The comparison reads no state, and imports the modules of the recorded classes. Only where a class lost a member or a
field, requires a new one, or is of another kind, the states of the actors that may hold its objects are read, inertly.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Any

from rayshot.format.by_value import Names
from rayshot.format.manifest import ActorEntry, Blob, Manifest
from rayshot.format.outline import uses_of
from rayshot.format.reshaping import Reshaped
from rayshot.format.shapes import ENUM, FIELDS, FLAG, MEMBERS, NAMED, ROW, Shape
from rayshot.model.specification import user_class_of

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
