"""What the page shows, as plain documents: of a system its time line, of a snapshot everything, within windows.

Nothing here is as long as what it tells of: 1,000 actors with 100,000 messages in flight make some 100 KB, and each
list that was cut says of how many. What cannot be read says why, and the rest is there.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

from rayshot.audit.findings import NoTrace
from rayshot.audit.proof import trace_of
from rayshot.errors import Damaged, RayshotError
from rayshot.explorer.spacetime import spacetime
from rayshot.explorer.states import actor_document, changes
from rayshot.explorer.system import system_graph
from rayshot.explorer.window import LANES_MAX, bars, busiest, messages
from rayshot.protocol.identity import Channel
from rayshot.store.catalog import SystemView
from rayshot.store.records import EpochRecord
from rayshot.store.snapshot import Snapshot

SNAPSHOTS_MAX = 100
ROWS_READ_MAX = 50_000
"""So many actors and channels are read of manifests for the time line; older snapshots show what their record says."""
BARS_MAX = 40
TRACE_BYTES_MAX = 16 << 20
"""A longer trace is not drawn: `rayshot trace` and `rayshot verify` read it."""

_Found = TypeVar("_Found")
_NO_MESSAGES: tuple[list[dict[str, Any]], list[str]] = ([], [])


def storage_document(view: SystemView) -> dict[str, Any]:
    """The time line of one system: its snapshots, oldest first, and its lives. Raises what reading the log raises."""
    view = view.now()
    snapshots = view.snapshots()
    shown = snapshots[-SNAPSHOTS_MAX:]
    rows, budget = [], ROWS_READ_MAX
    for snapshot in reversed(shown):
        row = snapshot_row(snapshot, read=budget > 0)
        budget -= row.get("actor_count", 0) + row.get("channel_count", 0)
        rows.append(row)
    origins = view.restored_from()
    began: dict[int, EpochRecord] = {}
    takeovers: defaultdict[int, int] = defaultdict(int)
    for record in view.records():
        if isinstance(record, EpochRecord):
            takeovers[record.incarnation] += record.incarnation in began
            began.setdefault(record.incarnation, record)
    return {
        "system": view.name,
        "snapshots": rows[::-1],
        "snapshot_count": len(snapshots),
        "lives": [
            {
                "life": life,
                "restored_from": str(origins[life]) if life in origins else None,
                "takeovers": takeovers[life],
            }
            for life in began
        ],
    }


def snapshot_row(snapshot: Snapshot, *, read: bool = True) -> dict[str, Any]:
    """One snapshot on the time line; what its manifest says only if that is to be read."""
    row: dict[str, Any] = {
        "id": str(snapshot.id),
        "life": snapshot.id.incarnation,
        "label": snapshot.label,
        "position": snapshot.position,
        "taken_at": snapshot.record.taken_at,
    }
    if not read:
        return row
    try:
        manifest = snapshot.manifest
        return {
            **row,
            "mode": manifest.mode,
            "actor_count": len(manifest.actors),
            "channel_count": len(manifest.channels),
            "in_flight": snapshot.in_flight,
            "bytes": snapshot.size_bytes,
        }
    except RayshotError as error:
        return {**row, "error": error.message}


def snapshot_document(
    snapshot: Snapshot, *, before: Snapshot | None = None, actors: Sequence[str] = ()
) -> dict[str, Any]:
    """Everything that the page shows of one snapshot.

    Args:
        snapshot: which.
        before: the one to compare it with; None means the one that was committed before it.
        actors: the actors and drivers to show; none means those with most messages in flight.

    What cannot be read is told under `notes`; where nothing can, there is only `error` beside what the record says.
    """
    row = snapshot_row(snapshot)
    if "error" in row:
        return row
    manifest = snapshot.manifest
    notes: list[str] = []

    def part(what: str, make: Callable[[], _Found], otherwise: _Found) -> _Found:
        try:
            return make()
        except RayshotError as error:
            notes.append(f"{what}: {error.message}")
            return otherwise

    none: list[Snapshot] = []
    siblings = part("the other snapshots", snapshot.siblings, none)
    lanes = busiest(manifest, LANES_MAX, actors)
    cut = part("the cut", lambda: _cut(snapshot, siblings, lanes), None) or _untraced(snapshot, lanes, "")
    wanted: defaultdict[Channel, set[int]] = defaultdict(set)
    for arrow in cut.get("messages", ()):
        if arrow["crosses"]:
            wanted[Channel(lanes[arrow["from"]], lanes[arrow["to"]])].add(arrow["number"])
    rows, too_large = part("the messages in flight", lambda: messages(snapshot.channels, wanted), _NO_MESSAGES)
    notes += [f"the messages on {channel} are more than this page reads" for channel in too_large[:3]]
    born = [name for name in lanes if name in snapshot.actors]
    old = before or next((one for one in reversed(siblings) if _age(one) < _age(snapshot)), None)
    return {
        **row,
        "stats": dict(manifest.stats),
        "made_by": f"rayshot {manifest.rayshot_version}, Python {manifest.python_version}",
        "verified": part("the check of its bytes", lambda: _verified(snapshot), None),
        "actor_names": sorted(snapshot.actors)[:1000],
        "graph": system_graph(manifest, lanes),
        "cut": cut,
        "in_flight_rows": rows,
        "actors": [actor_document(snapshot, name) for name in born],
        "changes": None if old is None else part("the changes", lambda: changes(old, snapshot, born), None),
        "notes": notes,
    }


def _age(snapshot: Snapshot) -> tuple[int, int]:
    return snapshot.id.incarnation, snapshot.position


def _cut(snapshot: Snapshot, siblings: Collection[Snapshot], lanes: Sequence[str]) -> dict[str, Any]:
    manifest = snapshot.manifest
    if sum(trace.segment.size for trace in manifest.traces) > TRACE_BYTES_MAX:
        return _untraced(snapshot, lanes, "its trace is longer than this page reads; `rayshot trace` reads it")
    try:
        traced = trace_of(snapshot, [one for one in siblings if one != snapshot])
    except NoTrace as reason:
        return _untraced(snapshot, lanes, str(reason))
    except Damaged as error:
        return _untraced(snapshot, lanes, error.message)
    return spacetime(str(snapshot.id), traced.histories, manifest.channels, lanes, manifest.ended)


def _untraced(snapshot: Snapshot, lanes: Sequence[str], reason: str) -> dict[str, Any]:
    return {
        "kind": "counted",
        "reason": reason,
        "lanes": [{"name": name} for name in lanes],
        "channels": bars(snapshot.manifest.channels, lanes, BARS_MAX),
        "crossing": snapshot.in_flight,
    }


def _verified(snapshot: Snapshot) -> dict[str, Any]:
    found = snapshot.survey()
    return {
        "sound": found.sound,
        "trust": found.trust.value,
        "detail": found.trust_detail,
        "failed": [f"{check.name}: {check.detail}" for check in found.checks if not check.ok],
    }
