"""Snapshots as JSON documents: everything that the tables show, and all that they leave out.

If a command refuses, it prints `{"error": {"kind": ..., "message": ...}}` instead of its document.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rayshot.errors import RayshotError
from rayshot.format.codec import RecordedMessage
from rayshot.format.entries import ChannelEntry
from rayshot.inert.jsonable import jsonable
from rayshot.inert.redaction import shown, shown_call, shown_calls, shown_timers
from rayshot.snapshots.snapshot import Snapshot
from rayshot.snapshots.state import read_dead_letters


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
        return {**known, **manifest_row(snapshot), "size_bytes": snapshot.size_bytes}
    except RayshotError as error:
        return {**known, **error.document}


def manifest_row(snapshot: Snapshot) -> dict[str, Any]:
    """What a row has from the manifest. Raises what reading it raises."""
    manifest = snapshot.manifest
    return {
        "mode": manifest.mode,
        "actor_count": len(manifest.actors),
        "channel_count": len(manifest.channels),
        "in_flight": snapshot.in_flight,
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
                **counters(channel.entry),
                "sender": channel.entry.sender,
                "receiver": channel.entry.receiver,
                "messages": [_message(message) for message in channel.iterate()],
            }
            for channel in snapshot.channels.values()
        ],
    }


def _actor(snapshot: Snapshot, name: str) -> dict[str, Any]:
    document = actor(snapshot, name)
    if document["status"] != "born":
        return document
    return {**document, **{part: jsonable(value) for part, value in recorded(snapshot, name).items()}}


def actor(snapshot: Snapshot, name: str) -> dict[str, Any]:
    """What a snapshot has of an actor besides its state."""
    found = snapshot.actors[name]
    return {
        "name": name,
        "class": found.class_name,
        "status": found.status,
        "state_bytes": found.state_bytes,
        "proof": None if found.proof is None else str(found.proof),
        "outside": outside(snapshot, name),
    }


def outside(snapshot: Snapshot, name: str) -> dict[str, Any] | None:
    """What an actor fixed outside for a snapshot; None if it has nothing there. Files are as it wrote them: `plain`."""
    found = snapshot.outside.get(name)
    if found is None:
        return None
    return {
        "payload": jsonable(shown("payload", found.payload)),
        "folder": found.folder,
        "root": found.root,
        "files": [{"path": file.path, "bytes": file.size, "digest": file.digest} for file in found.files],
        "bytes": found.size_bytes,
        "plain": bool(found.files),
    }


def outside_document(system: str, snapshots: Sequence[Snapshot]) -> dict[str, Any]:
    """The document of `outside`: what these snapshots need that is not in their chunks."""
    rows = [_outside_row(snapshot) for snapshot in snapshots]
    return {"system": system, "snapshots": rows, "bytes": sum(row.get("bytes", 0) for row in rows)}


def _outside_row(snapshot: Snapshot) -> dict[str, Any]:
    known = {"snapshot": str(snapshot.id), "position": snapshot.position, "label": snapshot.label}
    try:
        actors = [{"actor": name, **(outside(snapshot, name) or {})} for name in snapshot.outside]
        encrypted = snapshot.manifest.data_key is not None
    except RayshotError as error:
        return {**known, **error.document}
    return {**known, "encrypted": encrypted, "actors": actors, "bytes": sum(one["bytes"] for one in actors)}


def recorded(snapshot: Snapshot, name: str) -> dict[str, Any]:
    """What a born actor has recorded, part by part, with secrets redacted that have no names of their own."""
    found = snapshot.recorded(name)
    return {
        "state": found.state,
        "calls": shown_calls(found.calls),
        "callees": found.callees,
        "timers": shown_timers(found.timers),
        "dead_letters": [one._asdict() for one in read_dead_letters(name, found.dead_letters)],
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


def counters(entry: ChannelEntry) -> dict[str, Any]:
    """Those of a channel: its whole cut."""
    return {
        "sent": entry.sent,
        "arrived": entry.arrived,
        "received": entry.received,
        "in_flight": entry.sent - entry.received,
        "aligned": entry.aligned,
    }
