"""Classes of values whose shape is another one today than when a snapshot recorded them.

The comparison reads no state, and imports the modules of the recorded classes. Only where a class lost a member or a
field, or requires a new one, the states of the actors that may hold its objects are read, inertly.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Any

from rayshot.format.by_value import Names
from rayshot.format.manifest import ActorEntry, Blob, Manifest
from rayshot.format.outline import uses_of
from rayshot.format.reshaping import Reshaped
from rayshot.format.shapes import FIELDS, Shape, shape_of
from rayshot.model.specification import user_class_of

log = logging.getLogger("rayshot")
_PARTS_SHOWN_MAX = 20
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
        name: changed[name] for name in actor.shapes if name in changed and (r := changed[name].reshaping) and r.lost
    }
    if actor.state is None or not doubtful:
        return
    for name, rows in uses_of(read(actor.state.stream), doubtful).items():
        one = doubtful[name]
        assert one.reshaping is not None
        lost = sorted({words for row in rows if (words := one.reshaping.is_lost(row))})
        if lost:
            here = shape_of(one.kind)
            assert here is not None
            yield (
                f"the snapshot has {actor.name} with {', '.join(lost)} in {_described(name, one.shape)}, the program "
                f"has {_described(f'{one.kind.__module__}.{one.kind.__qualname__}', here)}"
            )


def _described(name: str, shape: Shape) -> str:
    """A class with its fields, or with its members and their values."""
    parts = [part if shape.kind == FIELDS else f"{part}={value!r}" for part, value in shape.parts[:_PARTS_SHOWN_MAX]]
    more: list[Any] = ["..."] if len(shape.parts) > _PARTS_SHOWN_MAX else []
    return f"{name}({', '.join([*parts, *more])})"
