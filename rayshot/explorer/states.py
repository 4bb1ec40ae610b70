"""States as trees, and what changed since another snapshot: bounded, redacted as `show` does, never executed."""

import json
from collections.abc import Collection, Iterator
from dataclasses import asdict
from typing import Any

from rayshot.documents.changes import sides
from rayshot.documents.snapshots import actor, recorded
from rayshot.documents.words import plural, printable, size, value
from rayshot.errors import Damaged
from rayshot.format.entries import ActorEntry
from rayshot.inert.jsonable import jsonable
from rayshot.snapshots.diff import actor_changes
from rayshot.snapshots.snapshot import Snapshot
from rayshot.snapshots.state import captured_bytes

STATE_READ_BYTES_MAX = 8 << 20
"""A page does not read a larger state."""
NODES_MAX, FEW_NODES_MAX = 200, 40
TREE_CHARACTERS_MAX = 24_000
DEPTH_MAX = 6
TEXT_LENGTH_MAX = 120
CHANGES_MAX = 60
PARTS = {"state": "state", "calls": "awaited replies", "timers": "timers", "dead_letters": "dead letters"}
"""What is shown of an actor's record, and how it is called. All but the state only if there is any."""


def actor_document(snapshot: Snapshot, entry: ActorEntry) -> dict[str, Any]:
    """One actor: its data, and its `state` as a tree, or `unread`, the reason why the state was not read."""
    recording = None if entry.recording is None else asdict(entry.recording)
    document = {**actor(snapshot, entry.name), "recording": recording}
    if (outside := document["outside"]) is not None:
        files = {printable(file["path"]): size(file["bytes"]) for file in outside["files"]}
        document["outside"] = {
            "said": f"{plural(len(files), 'file')} with {size(outside['bytes'])} in {printable(outside['folder'])}"
            if files
            else "no files",
            "tree": tree({"payload": outside["payload"], "files": files}),
        }
    if document["status"] != "born":
        return {**document, "unread": f"it is {document['status']}: only messages to it are there"}
    if document["state_bytes"] > STATE_READ_BYTES_MAX:
        return {**document, "unread": "it is larger than this page reads; `rayshot show --json` prints it"}
    try:
        parts = recorded(snapshot, entry.name)
    except Damaged as error:
        return {**document, "unread": f"it cannot be read: {error.message}", "damaged": True}
    shown = {words: tree(parts[part]) for part, words in PARTS.items() if parts[part] or part == "state"}
    return {**document, "state": shown}


def tree(anything: Any) -> Any:
    """A value as JSON, cut so that a page can hold many of them."""
    for nodes in (NODES_MAX, FEW_NODES_MAX):
        found = _cut(jsonable(anything, nodes_max=nodes, depth_max=DEPTH_MAX))
        if len(json.dumps(found)) <= TREE_CHARACTERS_MAX:
            return found
    return value(anything)


def _cut(rendered: Any) -> Any:
    """The same with short texts."""
    if isinstance(rendered, str):
        more = len(rendered) - TEXT_LENGTH_MAX
        return rendered if more <= 0 else f"{rendered[:TEXT_LENGTH_MAX]}… ({more:,} more characters)"
    if isinstance(rendered, list):
        return [_cut(item) for item in rendered]
    if isinstance(rendered, dict):
        return {_cut(name): _cut(item) for name, item in rendered.items()}
    return rendered


def changes(old: Snapshot, new: Snapshot, names: Collection[str]) -> dict[str, Any]:
    """What changed in the actors `names`, and the relation of the two cuts."""
    relation = old.relation(new)
    before = {actor.name: actor for actor in old.manifest.actors}
    after = {actor.name: actor for actor in new.manifest.actors}
    document: dict[str, Any] = {
        "since": str(old.id),
        "relation": relation.name,
        "forward": len(relation.forward),
        "back": len(relation.back),
        "added": len(after.keys() - before),
        "removed": len(before.keys() - after),
        "rows": [],
        "row_count": 0,
    }
    if not relation.comparable:
        return document

    def rows() -> Iterator[dict[str, str]]:
        for name in sorted({*names} & (before.keys() & after.keys())):
            one, other = before[name], after[name]
            if max(captured_bytes(actor.state) for actor in (one, other)) > STATE_READ_BYTES_MAX:
                yield {"actor": name, "attribute": "(state)", "old": "(too large)", "new": "(too large)"}
                continue
            for change in actor_changes(one, other, old, new):
                left, right = sides(change)
                attribute = printable(change.name)
                yield {
                    "actor": name,
                    "attribute": attribute,
                    "old": left[:TEXT_LENGTH_MAX],
                    "new": right[:TEXT_LENGTH_MAX],
                }

    found = list(rows())
    return {**document, "rows": found[:CHANGES_MAX], "row_count": len(found)}
