"""Reports, which a host gives to the coordinator, and the coordinator to the vaults: records with their bytes.

The coordinator reads only the head of a report, and gives the body to the vault that writes it. If the coordinator
fetched the report with a Ray call, the body stays in Ray's object store until then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any, NamedTuple

from rayshot.format.codec import Frame, pack_frames
from rayshot.format.entries import Outside, OutsideFile, StateCodec
from rayshot.format.pickled_state import Referenced
from rayshot.protocol.identity import SnapshotId
from rayshot.protocol.record import Record
from rayshot.runtime.wire.packets import pack, unpack


@dataclass(frozen=True, slots=True)
class Captured:
    """A pickled state: its codec, the stream and its out-of-band buffers.

    The parts are in memory as `parts` (the stream first), or one after the other in the file `spill`, `sizes` bytes
    each. `references` are the ObjectRefs in it, whose buffers are still empty; they keep their objects alive.
    `comes_apart`: arrays share memory, and come back as copies. `shapes` are those of its classes, packed.
    """

    codec: StateCodec
    sizes: tuple[int, ...]
    parts: tuple[bytes, ...] = ()
    spill: str | None = None
    references: tuple[Referenced, ...] = ()
    comes_apart: bool = False
    shapes: bytes = b""

    @property
    def size(self) -> int:
        """The number of bytes of all parts."""
        return sum(self.sizes)


class HandedOver(NamedTuple):
    """One slot in a record. `where` is a text that says which slot of its message it is."""

    kind: Any
    content: Any
    """A pickle, or a reference to the value itself, or with `in_parts` a reference to the parts of its pickle."""
    where: str
    in_parts: bool = False


Recorded = Mapping[str, Mapping[int, tuple[HandedOver, ...]]]
"""Slots by the other end of the channel, and by number of the message."""


Body = bytes | tuple[bytes, tuple[tuple[Any, ...], ...], tuple[Recorded, Recorded]]
"""A packed RecordBody. The ObjectRefs in its state are beside it, as Ray must see them to keep them; so are slots."""


@dataclass(frozen=True, slots=True)
class RecordBody:
    """The bytes that belong to the record of `process`.

    `specification` and `state` are None for an actor that is not yet born. `outbox` holds, per receiver, the frames of
    the messages released+1 .. sent. `mailbox` holds, per sender, the frames of the messages received+1 .. arrived.
    `outbox_slots` and `mailbox_slots` hold the slots of these messages. `trace` is the segment of a traced actor.
    """

    process: str
    specification: bytes | None
    state: Captured | None
    outbox: Mapping[str, bytes]
    mailbox: Mapping[str, bytes]
    trace: bytes | None
    outbox_slots: Recorded = field(default_factory=dict)
    mailbox_slots: Recorded = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecordReport:
    """A record with the bytes that belong to it. `hold_s`: the seconds that the actor was stopped.

    `outside` is what the actor's class fixed outside, None if it has nothing there. `settles`: something is done
    outside when the snapshot is durable, and the actor says when that is finished.
    """

    record: Record
    hold_s: float
    body: RecordBody
    outside: Outside | None = None
    settles: bool = False


def pack_run(frames: Sequence[Frame], first: int, last: int) -> bytes:
    """Join frames without the empty ones. They must hold exactly the messages `first` .. `last`."""
    run = [frame for frame in frames if frame.count]
    expected = first
    for frame in run:
        assert frame.first == expected, f"message {expected} of {first}..{last} was not kept, {frame.first} was"
        expected = frame.last + 1
    assert expected == last + 1, f"messages {expected}..{last} were not kept"
    return pack_frames(run)


def pack_record(record: Record) -> tuple[object, ...]:
    """A record as plain values."""
    return (
        record.snapshot,
        record.process,
        record.born,
        dict(record.sent),
        dict(record.transported),
        dict(record.released),
        dict(record.received),
        dict(record.environment),
        record.ended,
        dict(record.closed),
        record.overlaps,
        record.aligned,
        dict(record.arrived),
        *((record.forgotten,) if record.forgotten or record.owed else ()),  # most have neither, which saves two bytes
        *((dict(record.owed),) if record.owed else ()),
    )


def unpack_record(fields: tuple[object, ...]) -> Record:
    """A record from plain values."""
    snapshot, *counters = fields[:10]
    overlaps, aligned, arrived, *more = fields[10:]
    assert isinstance(snapshot, tuple)
    assert isinstance(overlaps, tuple)
    earlier = tuple(SnapshotId(*k) for k in overlaps)
    return Record(SnapshotId(*snapshot), *counters, earlier, aligned, arrived, *more)  # type: ignore[arg-type,call-arg]


def pack_report(report: RecordReport) -> tuple[bytes, Body]:
    """A report in two parts: the head for the coordinator, and the body, which only a vault reads."""
    body, state = report.body, report.body.state
    outside = () if report.outside is None else (astuple(report.outside), report.settles)
    head = pack((pack_record(report.record), report.hold_s, 0 if state is None else state.size, *outside))
    captured = None if state is None else (state.codec, state.sizes, state.parts, state.spill, state.shapes)
    fields = body.process, body.specification, captured, dict(body.outbox), dict(body.mailbox), body.trace
    references = tuple(tuple(found) for found in state.references) if state else ()
    attached = body.outbox_slots, body.mailbox_slots
    return head, (pack(fields), references, attached) if references or any(attached) else pack(fields)


def unpack_head(head: bytes) -> tuple[Record, float, int, Outside | None, bool]:
    """A record, the seconds that its actor was stopped, the bytes of its state, what is outside, whether it settles."""
    record, hold_s, state_bytes, *more = unpack(head)
    outside, settles = (_unpack_outside(*more[0]), more[1]) if more else (None, False)
    return unpack_record(record), hold_s, state_bytes, outside, settles


def _unpack_outside(payload: str, files: Sequence[tuple[Any, ...]], root: str | None) -> Outside:
    return Outside(payload, tuple(OutsideFile(*file) for file in files), root)


def unpack_body(body: Body) -> RecordBody:
    """The bytes of a record."""
    packed, references, attached = (body, (), ({}, {})) if isinstance(body, bytes) else body
    process, specification, captured, outbox, mailbox, trace = unpack(packed)
    found = tuple(Referenced(*reference) for reference in references)
    state = None
    if captured is not None:
        *fields, shapes = captured
        state = replace(Captured(*fields), references=found, shapes=shapes)
    return RecordBody(process, specification, state, outbox, mailbox, trace, *attached)
