"""The content of the page as plain documents: the time line of a system, and a snapshot, within windows.

The documents are small: 1,000 actors with 100,000 messages in flight make some 100 KB, and each list that was cut
says how many items there are. If a part cannot be read, the document says why, and has the rest.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise, zip_longest
from typing import Any, TypeVar

from rayshot.audit.history import join
from rayshot.audit.proof import UNTRACED
from rayshot.audit.segment import Segment, read_segment
from rayshot.documents.snapshots import manifest_row
from rayshot.errors import Damaged, RayshotError
from rayshot.explorer.spacetime import spacetime
from rayshot.explorer.states import actor_document, changes
from rayshot.explorer.window import LANES_MAX, bars, busiest, messages, system_graph
from rayshot.log.records import EpochRecord
from rayshot.protocol.identity import Channel
from rayshot.snapshots.catalog import SystemView
from rayshot.snapshots.snapshot import Snapshot

SNAPSHOTS_MAX = 100
ROWS_READ_MAX = 10_000
"""The time line reads manifests with so many actors and channels in all; older snapshots show only their record."""
BARS_MAX = 24
ABORTS_MAX = 20
DETAIL_LENGTH_MAX = 300
TRACE_BYTES_MAX = 4 << 20
"""The page does not draw longer traces: `rayshot trace` and `rayshot verify` read them."""
NEAR_MAX, ROWS_OF_A_LARGE_ONE = 6, 1_000
"""The traces of so many snapshots around one are read, of fewer large ones: they have the events after the cut."""

_Found = TypeVar("_Found")
_NO_CUT: dict[str, Any] = {}
_NO_MESSAGES: tuple[list[dict[str, Any]], list[str]] = ([], [])


def storage_document(view: SystemView, snapshots: Sequence[Snapshot] | None = None) -> dict[str, Any]:
    """The time line of one system: its snapshots, oldest first, and its lives. Raises what reading the log raises.

    `first` is the snapshot with which a page opens, None if no snapshot exists.
    `snapshots` are those of the view if the caller has opened them, so that no manifest is read twice.
    """
    view = view.now()
    snapshots = view.snapshots() if snapshots is None else snapshots
    shown = snapshots[-SNAPSHOTS_MAX:]
    rows, budget = [], ROWS_READ_MAX
    for snapshot in reversed(shown):
        row = snapshot_row(snapshot, read=budget > 0)
        budget -= row.get("actor_count", 0) + row.get("channel_count", 0)
        rows.append(row)
    return {
        "system": view.name,
        "snapshots": rows[::-1],
        "snapshot_count": len(snapshots),
        "first": _first(rows[::-1]),
        "lives": _lives(view),
        "aborts": _aborts(view),
    }


def _first(rows: Sequence[dict[str, Any]]) -> str | None:
    """The newest snapshot with messages in flight whose fate a later trace tells, if there is one."""
    followed = [row for row, later in pairwise(rows) if row.get("traced") and row["life"] == later["life"]]
    for several in (followed, rows):
        for row in reversed(several):
            if row.get("in_flight"):
                return str(row["id"])
    return str(rows[-1]["id"]) if rows else None


def _lives(view: SystemView) -> list[dict[str, Any]]:
    """When and why each life began, if an EPOCH says it; `takeovers` are the times at which new coordinators began."""
    origins = view.restored_from()
    lives: dict[int, dict[str, Any]] = {}
    for record in view.records():
        if isinstance(record, EpochRecord) and record.incarnation in lives:
            lives[record.incarnation]["takeovers"].append(record.began_at)
        elif isinstance(record, EpochRecord):
            lives[record.incarnation] = {
                "life": record.incarnation,
                "began_at": record.began_at,
                "cause": record.cause,
                "restored_from": str(origins[record.incarnation]) if record.incarnation in origins else None,
                "takeovers": [],
            }
    return list(lives.values())


def _aborts(view: SystemView) -> list[dict[str, Any]]:
    """The newest ABORTS_MAX aborted snapshots; none if the notes cannot be read, since nothing depends on notes."""
    try:
        notes = view.aborts().notes
    except RayshotError:
        return []
    return [
        {
            "id": str(note.snapshot),
            "life": note.snapshot.incarnation,
            "at": note.began_at + note.seconds,
            "reason": note.reason,
            "detail": note.detail[:DETAIL_LENGTH_MAX],
            "missing_count": note.missing_count,
            "open_count": note.open_count,
        }
        for note in notes[-ABORTS_MAX:]
    ]


def one_alone(snapshot: Snapshot) -> dict[str, Any]:
    """Like `storage_document`, for one snapshot without its system."""
    return {
        "system": snapshot.system,
        "snapshots": [snapshot_row(snapshot)],
        "snapshot_count": 1,
        "first": str(snapshot.id),
        "lives": [],
        "aborts": [],
    }


def snapshot_row(snapshot: Snapshot, *, read: bool = True) -> dict[str, Any]:
    """One snapshot on the time line; with the content of its manifest only if the caller wants it read."""
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
        traced = bool(snapshot.manifest.traces)
        return {**row, **manifest_row(snapshot), "bytes": snapshot.size_bytes, "traced": traced}
    except RayshotError as error:
        return {**row, "error": error.message}


def snapshot_document(
    snapshot: Snapshot,
    *,
    before: Snapshot | None = None,
    actors: Sequence[str] = (),
    siblings: Sequence[Snapshot] | None = None,
) -> dict[str, Any]:
    """Everything that the page shows of one snapshot.

    Args:
        snapshot: the snapshot.
        before: the snapshot to compare it with; None means the one that was committed before it.
        actors: the actors and drivers to show; none means those with most messages in flight.
        siblings: like `Snapshot.siblings`, if the caller has opened them, so that no manifest is read twice.

    `notes` says what cannot be read. If nothing can be read, the document has only `error` and what the record says.
    """
    row = snapshot_row(snapshot)
    if "error" in row:
        return row
    manifest = snapshot.manifest
    notes: list[str] = []
    damaged: list[str] = []

    def part(what: str, make: Callable[[], _Found], otherwise: _Found) -> _Found:
        try:
            return make()
        except RayshotError as error:
            notes.append(f"{what}: {error.message}")
            if isinstance(error, Damaged):
                damaged.append(what)
            return otherwise

    none: list[Snapshot] = []
    if siblings is None:
        siblings = part("the other snapshots", snapshot.siblings, none)
    lanes = busiest(manifest, LANES_MAX, actors)
    damaged.clear()  # that was the log
    cut = part("the trace", lambda: _cut(snapshot, siblings, lanes), _NO_CUT)
    if "events" not in cut:
        cut = {**cut, **_counted(snapshot, lanes if actors else ())}
    wanted: defaultdict[Channel, set[int]] = defaultdict(set)
    for arrow in cut.get("messages", ()):
        if arrow["crosses"]:
            wanted[Channel(lanes[arrow["from"]], lanes[arrow["to"]])].add(arrow["number"])
    rows, too_large = part("the messages in flight", lambda: messages(snapshot.channels, wanted), _NO_MESSAGES)
    notes += [f"the messages on {channel} are more than this page reads" for channel in too_large[:3]]
    if strangers := sorted({*actors} - {*lanes}):
        notes.append(f"chosen, but not shown: {', '.join(strangers)[:DETAIL_LENGTH_MAX]}")
    shown = snapshot.actors.keys() & lanes
    states = [actor_document(snapshot, actor) for actor in manifest.actors if actor.name in shown]
    damaged += [f"the state of {one['name']}" for one in states if one.get("damaged")]
    old = before or next((one for one in reversed(siblings) if _age(one) < _age(snapshot)), None)
    return {
        **row,
        "stats": dict(manifest.stats),
        "made_by": f"rayshot {manifest.rayshot_version}, Python {manifest.python_version}",
        "verified": part("the check of its bytes", lambda: _verified(snapshot, damaged), None),
        "actor_names": sorted(snapshot.actors)[:1000],
        "graph": system_graph(manifest, lanes),
        "cut": cut,
        "in_flight_rows": rows,
        "actors": states,
        "changes": None if old is None else part("the changes", lambda: changes(old, snapshot, shown), None),
        "notes": notes,
    }


def _age(snapshot: Snapshot) -> tuple[int, int]:
    return snapshot.id.incarnation, snapshot.position


def _cut(snapshot: Snapshot, siblings: Sequence[Snapshot], lanes: Sequence[str]) -> dict[str, Any]:
    """The diagram of a traced cut; for any other cut only the `reason` why it has no diagram."""
    manifest = snapshot.manifest
    if not manifest.traces:
        return {"reason": UNTRACED}
    segments, left = _segments(snapshot, lanes, TRACE_BYTES_MAX)
    if left < 0:
        return {"reason": "its trace is longer than this page reads; `rayshot trace` reads it"}
    rows = len(manifest.actors) + len(manifest.channels)
    relations = {}
    for one in _near(snapshot, siblings)[: max(2, NEAR_MAX - rows // ROWS_OF_A_LARGE_ONE)]:
        try:
            more, left = _segments(one, lanes, left)
            relations[str(one.id)] = one.relation(snapshot).name
        except RayshotError:
            continue  # it is not the snapshot that is shown
        segments += more
    histories = join(segments, str(snapshot.id))
    if not histories:
        return {"reason": "the traces of these actors had grown too long, and were given up"}
    diagram = spacetime(str(snapshot.id), histories, manifest.channels, lanes, manifest.ended)
    return {**diagram, "relations": relations}


def _segments(snapshot: Snapshot, lanes: Collection[str], bytes_max: int) -> tuple[list[Segment], int]:
    """The traces of these actors, and how many bytes are left; below 0 if they are too long, then without traces."""
    wanted = [trace for trace in snapshot.manifest.traces if trace.actor in lanes]
    left = bytes_max - sum(trace.segment.size for trace in wanted)
    if left < 0:
        return [], left
    return [read_segment(trace.actor, snapshot.read(trace.segment)) for trace in wanted], left


def _near(snapshot: Snapshot, siblings: Sequence[Snapshot]) -> list[Snapshot]:
    """The snapshots of the same life, the nearest first, alternating between after and before this one."""
    same = [one for one in siblings if one.id.incarnation == snapshot.id.incarnation]
    before = [one for one in reversed(same) if one.position < snapshot.position]
    after = [one for one in same if one.position > snapshot.position]
    return [one for pair in zip_longest(after, before) for one in pair if one is not None]


def _counted(snapshot: Snapshot, chosen: Collection[str]) -> dict[str, Any]:
    """What every snapshot says about its cut: the counters of the channels."""
    return {
        "kind": "counted",
        "lanes": [{"name": name} for name in chosen],
        "channels": bars(snapshot.manifest.channels, chosen, BARS_MAX),
        "crossing": snapshot.in_flight,
    }


def _verified(snapshot: Snapshot, damaged: Sequence[str]) -> dict[str, Any]:
    """The findings from the manifest and the names of the chunks, and from those chunks that the page has read."""
    found = snapshot.survey()
    return {
        "sound": found.sound and not damaged,
        "trust": found.trust.value,
        "detail": found.trust_detail,
        "failed": [
            *(f"{check.name}: {check.detail}" for check in found.checks if not check.ok),
            *(f"damaged: {', '.join(damaged)[:DETAIL_LENGTH_MAX]}" for _ in damaged[:1]),
        ],
    }
