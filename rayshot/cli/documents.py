"""Snapshots as JSON documents: everything that the tables show, and all that they leave out.

If a command refuses, it prints `{"error": {"kind": ..., "message": ...}}` instead of its document.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rayshot.audit import Findings
from rayshot.cli.exits import error_document
from rayshot.errors import RayshotError
from rayshot.format.codec import RecordedMessage
from rayshot.format.jsonable import jsonable
from rayshot.format.manifest import ChannelEntry
from rayshot.format.redaction import shown_call, shown_calls, shown_timers
from rayshot.snapshots.diff import ABSENT, SnapshotDiff, ValueChange
from rayshot.snapshots.snapshot import Snapshot
from rayshot.snapshots.state import read_dead_letters
from rayshot.snapshots.verification import Verification


def dump(document: Mapping[str, Any]) -> str:
    """One JSON document as text, in ASCII, so that it works on every terminal and in every locale."""
    return json.dumps(document, indent=2, allow_nan=False)


def listing(storage: str, systems: Mapping[str, Sequence[Snapshot]]) -> dict[str, Any]:
    """The document of `list`."""
    rows = [{"system": name, "snapshots": [row(one) for one in found]} for name, found in systems.items()]
    return {"storage": storage, "systems": rows}


def row(snapshot: Snapshot) -> dict[str, Any]:
    """One snapshot in a listing; if its manifest cannot be read, `error` takes the place of the manifest's fields."""
    known = {
        "system": snapshot.system,
        "snapshot": str(snapshot.id),
        "position": snapshot.position,
        "label": snapshot.label,
        "taken_at": snapshot.taken_at.isoformat(),
    }
    try:
        manifest = snapshot.manifest
    except RayshotError as error:
        return {**known, **error_document(error)}
    return {
        **known,
        "mode": manifest.mode,
        "actor_count": len(manifest.actors),
        "channel_count": len(manifest.channels),
        "in_flight": snapshot.in_flight,
        "size_bytes": snapshot.size_bytes,
    }


def snapshot_document(snapshot: Snapshot) -> dict[str, Any]:
    """The document of `show`, with every state and every message."""
    manifest = snapshot.manifest
    return {
        **row(snapshot),
        "rayshot_version": manifest.rayshot_version,
        "python_version": manifest.python_version,
        "chunk_count": len(manifest.chunks),
        "stats": dict(snapshot.stats),
        "actors": [_actor(snapshot, name) for name in snapshot.actors],
        "channels": [
            {
                **_counters(channel.entry),
                "sender": channel.entry.sender,
                "receiver": channel.entry.receiver,
                "messages": [_message(message) for message in channel.iterate()],
            }
            for channel in snapshot.channels.values()
        ],
    }


def verification_document(
    snapshot: Snapshot, verification: Verification, audited: Findings | None, read: str
) -> dict[str, Any]:
    """The document of `verify`. `read` says how much was read; `audited` is given only if all data was read."""
    return {
        "system": snapshot.system,
        "snapshot": str(snapshot.id),
        "position": snapshot.position,
        "read": read,
        "sound": verification.sound and (audited is None or audited.sound),
        "trusted": verification.trusted,
        "trust": {"status": verification.trust.value, "detail": verification.trust_detail},
        "checks": [
            {
                "name": check.name,
                "ok": check.ok,
                "detail": check.detail,
                "error": None if check.error is None else check.error.kind,
            }
            for check in verification.checks
        ],
        "audit": [
            {"name": finding.name, "holds": finding.holds, "detail": finding.detail}
            for finding in (() if audited is None else audited.findings)
        ],
    }


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
                "sender": change.channel.sender,
                "receiver": change.channel.receiver,
                "old": None if change.old is None else _counters(change.old),
                "new": None if change.new is None else _counters(change.new),
            }
            for change in diff.channels_changed
        ],
    }


def _actor(snapshot: Snapshot, name: str) -> dict[str, Any]:
    actor = snapshot.actors[name]
    document = {
        "name": name,
        "class": actor.class_name,
        "status": actor.status,
        "state_bytes": actor.state_bytes,
        "proof": None if actor.proof is None else str(actor.proof),
    }
    if actor.status != "born":
        return document
    recorded = snapshot.recorded(name)
    return {
        **document,
        "state": jsonable(recorded.state),
        "calls": jsonable(shown_calls(recorded.calls)),
        "callees": jsonable(recorded.callees),
        "timers": jsonable(shown_timers(recorded.timers)),
        "dead_letters": [jsonable(one._asdict()) for one in read_dead_letters(name, recorded.dead_letters)],
    }


def _message(message: RecordedMessage) -> dict[str, Any]:
    args, kwargs = shown_call(message.method, message.args, message.kwargs)
    return {
        "number": message.number,
        "kind": message.kind,
        "method": message.method,
        "args": jsonable(args),
        "kwargs": jsonable(kwargs),
    }


def _counters(entry: ChannelEntry) -> dict[str, Any]:
    return {
        "sent": entry.sent,
        "arrived": entry.arrived,
        "received": entry.received,
        "in_flight": entry.sent - entry.received,
        "aligned": entry.aligned,
    }


def change_document(change: ValueChange) -> dict[str, Any]:
    """A change; `old` or `new` is left out if the attribute did not exist there."""
    sides = {
        side: jsonable(what) for side, what in zip(("old", "new"), change.shown, strict=True) if what is not ABSENT
    }
    return {"name": change.name, **sides}
