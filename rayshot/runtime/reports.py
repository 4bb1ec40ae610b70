"""What a host hands to its vault, and the vault to the coordinator: records and parts of channels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rayshot.format.codec import Frame, pack_frames
from rayshot.protocol.cut import Record
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.capture import Captured
from rayshot.runtime.wire import pack, unpack


@dataclass(frozen=True, slots=True)
class RecordReport:
    """A record with the bytes that belong to it.

    `specification` is None and `state` is None for an actor that is not yet born. `outbox` holds, per receiver, the
    frames of messages transported+1 .. sent, `mailbox`, per sender, those of received+1 .. arrived. `hold_s`: how long
    the actor was stopped.
    """

    record: Record
    specification: bytes | None
    state: Captured | None
    outbox: Mapping[str, bytes]
    mailbox: Mapping[str, bytes]
    hold_s: float


@dataclass(frozen=True, slots=True)
class ChannelReport:
    """What a record did not hold of a closed channel: messages `first` .. `last` of `sender` as frames."""

    snapshot: SnapshotId
    sender: str
    receiver: str
    first: int
    last: int
    frames: bytes


Report = RecordReport | ChannelReport


def pack_run(frames: Sequence[Frame], first: int, last: int) -> bytes:
    """Join frames, empty ones left out; they must be exactly the messages `first` .. `last`."""
    run = [frame for frame in frames if frame.count]
    expected = first
    for frame in run:
        assert frame.first == expected, f"message {expected} of {first}..{last} was not kept, {frame.first} was"
        expected = frame.last + 1
    assert expected == last + 1, f"messages {expected}..{last} were not kept"
    return pack_frames(run)


def pack_reports(reports: Sequence[Report]) -> bytes:
    """Encode reports for one call."""
    return pack([_fields(report) for report in reports])


def unpack_reports(packed: bytes) -> list[Report]:
    """Decode what `pack_reports` encoded."""
    return [_report(fields) for fields in unpack(packed)]


def pack_record(record: Record) -> tuple[object, ...]:
    """A record as plain values."""
    return (
        record.snapshot,
        record.process,
        record.born,
        dict(record.sent),
        dict(record.transported),
        dict(record.received),
        dict(record.environment),
        record.ended,
        dict(record.closed),
        record.overlaps,
        dict(record.arrived),
    )


def unpack_record(fields: tuple[object, ...]) -> Record:
    """A record from plain values."""
    snapshot, *counters, overlaps, arrived = fields
    assert isinstance(snapshot, tuple)
    assert isinstance(overlaps, tuple)
    earlier = tuple(SnapshotId(*k) for k in overlaps)
    return Record(SnapshotId(*snapshot), *counters, overlaps=earlier, arrived=arrived)  # type: ignore[arg-type,misc]


def _fields(report: Report) -> tuple[object, ...]:
    match report:
        case RecordReport(record, specification, state, outbox, mailbox, hold_s):
            captured = None if state is None else (state.codec, state.sizes, state.parts, state.spool)
            return ("record", pack_record(record), specification, captured, dict(outbox), dict(mailbox), hold_s)
        case ChannelReport(snapshot, sender, receiver, first, last, frames):
            return ("channel", snapshot, sender, receiver, first, last, frames)


def _report(fields: tuple[object, ...]) -> Report:
    match fields:
        case ("record", tuple(record), specification, captured, dict(outbox), dict(mailbox), float(hold_s)):
            state = None if captured is None else Captured(*captured)  # type: ignore[misc]
            return RecordReport(unpack_record(record), specification, state, outbox, mailbox, hold_s)  # type: ignore[arg-type]
        case ("channel", tuple(snapshot), str(sender), str(receiver), int(first), int(last), bytes(frames)):
            return ChannelReport(SnapshotId(*snapshot), sender, receiver, first, last, frames)
    raise AssertionError(fields)
