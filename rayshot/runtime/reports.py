"""What a host hands to its vault, and the vault to the coordinator: records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rayshot.format.codec import Frame, pack_frames
from rayshot.format.pickling import Referenced
from rayshot.protocol.cut import Record
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.capture import Captured
from rayshot.runtime.wire import pack, unpack


@dataclass(frozen=True, slots=True)
class RecordReport:
    """A record with the bytes that belong to it.

    `specification` is None and `state` is None for an actor that is not yet born. `outbox` holds, per receiver, the
    frames of messages released+1 .. sent, `mailbox`, per sender, those of received+1 .. arrived. `hold_s`: how long
    the actor was stopped. `trace` is the segment of a traced actor.
    """

    record: Record
    specification: bytes | None
    state: Captured | None
    outbox: Mapping[str, bytes]
    mailbox: Mapping[str, bytes]
    hold_s: float
    trace: bytes | None = None


def pack_run(frames: Sequence[Frame], first: int, last: int) -> bytes:
    """Join frames, empty ones left out; they must be exactly the messages `first` .. `last`."""
    run = [frame for frame in frames if frame.count]
    expected = first
    for frame in run:
        assert frame.first == expected, f"message {expected} of {first}..{last} was not kept, {frame.first} was"
        expected = frame.last + 1
    assert expected == last + 1, f"messages {expected}..{last} were not kept"
    return pack_frames(run)


def pack_reports(reports: Sequence[RecordReport]) -> bytes:
    """Encode reports for one call."""
    return pack([_fields(report) for report in reports])


def unpack_reports(packed: bytes, references: Sequence[Sequence[tuple[Any, ...]]]) -> list[RecordReport]:
    """Decode what `pack_reports` encoded; `references` are what `references_of` gave for the same reports."""
    return [_report(fields, found) for fields, found in zip(unpack(packed), references, strict=True)]


def references_of(reports: Sequence[RecordReport]) -> list[list[tuple[Any, ...]]]:
    """The ObjectRefs in the states of each report. They go beside the packed ones: Ray must see them to keep them."""
    return [[tuple(found) for found in report.state.references] if report.state else [] for report in reports]


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
    )


def unpack_record(fields: tuple[object, ...]) -> Record:
    """A record from plain values."""
    snapshot, *counters, overlaps, aligned, arrived = fields
    assert isinstance(snapshot, tuple)
    assert isinstance(overlaps, tuple)
    earlier = tuple(SnapshotId(*k) for k in overlaps)
    return Record(SnapshotId(*snapshot), *counters, earlier, aligned, arrived)  # type: ignore[arg-type,call-arg]


def _fields(report: RecordReport) -> tuple[object, ...]:
    state = report.state
    captured = None if state is None else (state.codec, state.sizes, state.parts, state.spool)
    record = pack_record(report.record)
    parts = dict(report.outbox), dict(report.mailbox)
    return (record, report.specification, captured, *parts, report.hold_s, report.trace)


def _report(fields: tuple[Any, ...], references: Sequence[tuple[Any, ...]]) -> RecordReport:
    record, specification, captured, outbox, mailbox, hold_s, trace = fields
    found = tuple(Referenced(*reference) for reference in references)
    state = None if captured is None else replace(Captured(*captured), references=found)
    return RecordReport(unpack_record(record), specification, state, outbox, mailbox, hold_s, trace)
