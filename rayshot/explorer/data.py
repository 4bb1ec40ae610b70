"""What the page shows, as plain documents: of a system its time line, of a snapshot everything, within windows.

Nothing here is as long as what it tells of: 1,000 actors with 100,000 messages in flight make some 100 KB, and each
list that was cut says of how many. What cannot be read says why, and the rest is there.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise, zip_longest
from typing import Any, TypeVar

from rayshot.audit.history import join
from rayshot.audit.proof import UNTRACED
from rayshot.audit.segment import Segment, read_segment
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
ROWS_READ_MAX = 10_000
"""So many actors and channels are read of manifests for the time line; older snapshots show what their record says."""
BARS_MAX = 24
ABORTS_MAX = 20
DETAIL_LENGTH_MAX = 300
TRACE_BYTES_MAX = 4 << 20
"""Longer traces are not drawn: `rayshot trace` and `rayshot verify` read them."""
NEAR_MAX, ROWS_OF_A_LARGE_ONE = 6, 1_000
"""So many snapshots around one are read for their traces, fewer of large ones: what follows a cut lies in them."""

_Found = TypeVar("_Found")
_NO_CUT: dict[str, Any] = {}
_NO_MESSAGES: tuple[list[dict[str, Any]], list[str]] = ([], [])


def storage_document(view: SystemView, snapshots: Sequence[Snapshot] | None = None) -> dict[str, Any]:
    """The time line of one system: its snapshots, oldest first, and its lives. Raises what reading the log raises.

    `first` is which one a page opens with, None where there is none.
    `snapshots` are those of the view where somebody has opened them, so that no manifest is read twice.
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
    """The newest one with messages in flight of which a later trace tells what became of them, if there is one."""
    followed = [row for row, later in pairwise(rows) if row.get("traced") and row["life"] == later["life"]]
    for several in (followed, rows):
        for row in reversed(several):
            if row.get("in_flight"):
                return str(row["id"])
    return str(rows[-1]["id"]) if rows else None


def _lives(view: SystemView) -> list[dict[str, Any]]:
    """When and why each life began, as far as an EPOCH says; `takeovers` are when new coordinators went on with it."""
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
    """Snapshots that came to nothing, the newest ABORTS_MAX: none where the notes cannot be read, which bind nobody."""
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
    """As `storage_document`, of one snapshot without its system."""
    return {
        "system": snapshot.system,
        "snapshots": [snapshot_row(snapshot)],
        "snapshot_count": 1,
        "first": str(snapshot.id),
        "lives": [],
        "aborts": [],
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
            "traced": bool(manifest.traces),
        }
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
        snapshot: which.
        before: the one to compare it with; None means the one that was committed before it.
        actors: the actors and drivers to show; none means those with most messages in flight.
        siblings: as `Snapshot.siblings`, where somebody has opened them, so that no manifest is read twice.

    What cannot be read is told under `notes`; where nothing can, there is only `error` beside what the record says.
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
        notes.append(f"not shown of what was chosen: {', '.join(strangers)[:DETAIL_LENGTH_MAX]}")
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
    """The diagram of a traced cut; of any other only the `reason` why there is none."""
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
            continue  # it is not the one that is shown
        segments += more
    histories = join(segments, str(snapshot.id))
    if not histories:
        return {"reason": "the traces of these actors had grown too long, and were given up"}
    diagram = spacetime(str(snapshot.id), histories, manifest.channels, lanes, manifest.ended)
    return {**diagram, "relations": relations}


def _segments(snapshot: Snapshot, lanes: Collection[str], bytes_max: int) -> tuple[list[Segment], int]:
    """The traces of these actors, none where they are too long, and how many bytes are left; below 0 says that."""
    wanted = [trace for trace in snapshot.manifest.traces if trace.actor in lanes]
    left = bytes_max - sum(trace.segment.size for trace in wanted)
    if left < 0:
        return [], left
    return [read_segment(trace.actor, snapshot.read(trace.segment)) for trace in wanted], left


def _near(snapshot: Snapshot, siblings: Sequence[Snapshot]) -> list[Snapshot]:
    """The snapshots of the same life, the nearest first, by turns after and before this one."""
    same = [one for one in siblings if one.id.incarnation == snapshot.id.incarnation]
    before = [one for one in reversed(same) if one.position < snapshot.position]
    after = [one for one in same if one.position > snapshot.position]
    return [one for pair in zip_longest(after, before) for one in pair if one is not None]


def _counted(snapshot: Snapshot, chosen: Collection[str]) -> dict[str, Any]:
    """What any snapshot tells of its cut: the counters of the channels."""
    return {
        "kind": "counted",
        "lanes": [{"name": name} for name in chosen],
        "channels": bars(snapshot.manifest.channels, chosen, BARS_MAX),
        "crossing": snapshot.in_flight,
    }


def _verified(snapshot: Snapshot, damaged: Sequence[str]) -> dict[str, Any]:
    """What a look at the manifest and the chunks' names finds, and what the page found when it read some of them."""
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
