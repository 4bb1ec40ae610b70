"""What changed between two snapshots."""

from itertools import takewhile
from typing import Any

from rayshot.documents import words
from rayshot.documents.snapshots import counters
from rayshot.inert.jsonable import jsonable
from rayshot.inert.likeness import alike
from rayshot.snapshots.diff import ABSENT, SnapshotDiff, ValueChange


def diff_document(system: str, diff: SnapshotDiff) -> dict[str, Any]:
    """The document of `diff`."""
    return {
        "system": system,
        "old": str(diff.old),
        "new": str(diff.new),
        "relation": diff.relation.name,
        "same": diff.same,
        "actors_added": list(diff.actors_added),
        "actors_removed": list(diff.actors_removed),
        "actors_changed": [
            {"actor": actor.name, "changes": [change_document(change) for change in actor.values]}
            for actor in diff.actors_changed
        ],
        "channels_changed": [
            {
                **change.channel._asdict(),
                "old": None if change.old is None else counters(change.old),
                "new": None if change.new is None else counters(change.new),
            }
            for change in diff.channels_changed
        ],
    }


def change_document(change: ValueChange) -> dict[str, Any]:
    """A change; `old` or `new` is left out if the attribute did not exist there."""
    sides = {
        side: jsonable(what) for side, what in zip(("old", "new"), change.shown, strict=True) if what is not ABSENT
    }
    return {"name": change.name, **sides}


def sides(change: ValueChange) -> tuple[str, str]:
    """Old and new; for two dicts the items that differ, for two lists the items after their common start."""
    old, new = change.shown
    if type(old) is dict and type(new) is dict:
        same = {key for key in old.keys() & new if alike(old[key], new[key])}
        return _rest(_without(old, same), len(same)), _rest(_without(new, same), len(same))
    if type(old) is list and type(new) is list:
        start = sum(1 for _ in takewhile(lambda pair: alike(*pair), zip(old, new, strict=False)))
        return _rest(old[start:], start), _rest(new[start:], start)
    return _side(old), _side(new)


def _side(value: Any) -> str:
    return "(absent)" if value is ABSENT else words.value(value)


def _without(mapping: dict[Any, Any], keys: set[Any]) -> dict[Any, Any]:
    return {key: value for key, value in mapping.items() if key not in keys}


def _rest(rest: Any, same: int) -> str:
    return f"({same:,} same) {words.value(rest)}" if same else words.value(rest)
