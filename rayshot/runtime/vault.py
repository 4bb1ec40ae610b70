"""The vault of a node: keeps what actors recorded, in the object store at once and in the storage when asked.

What an actor puts into the object store dies with the actor; what the vault puts there lives as long as the
vault. So a record counts as held only from here on, and only then does the coordinator hear of it.
"""

import contextlib
import logging
import queue
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import ray

from rayshot.format.codec import creation_of, read_frames
from rayshot.format.manifest import Blob, CapturedState, Chunk
from rayshot.model.specification import ActorSpecification
from rayshot.protocol.identity import Channel, SnapshotId
from rayshot.runtime.capture import read_spool
from rayshot.runtime.failpoints import failpoint
from rayshot.runtime.reports import ChannelReport, RecordReport, pack_record, unpack_reports
from rayshot.store.chunk_writer import ChunkWriter
from rayshot.store.locate import open_store

log = logging.getLogger("rayshot")


@dataclass(frozen=True, slots=True)
class StoredActor:
    """Where one actor's bytes lie. `state` is None for an actor that is not yet born."""

    specification: ActorSpecification
    class_pickle: Blob | None
    state: CapturedState | None


@dataclass(frozen=True, slots=True)
class Stored:
    """What one vault wrote of a snapshot. `actors` include those that it knows from messages in flight alone."""

    actors: Mapping[str, StoredActor]
    outboxes: Mapping[Channel, Blob]
    mailboxes: Mapping[Channel, Blob]
    chunks: tuple[Chunk, ...]
    written_bytes: int


@dataclass(slots=True)
class _Held:
    """One snapshot's reports. `objects` are references into the object store, kept alive by being here.

    `parts` are the frames that came of closed channels after their receivers' records.
    """

    records: dict[str, tuple[RecordReport, list[memoryview]]] = field(default_factory=dict)
    parts: dict[Channel, bytes] = field(default_factory=dict)
    objects: list[Any] = field(default_factory=list)


class Vault:
    """A Ray actor, one per node and life of a system."""

    def __init__(self, system: str, storage: str, coordinator: Any) -> None:
        self._system = system
        self._store = open_store(storage)
        self._coordinator = coordinator
        self._lock = threading.Lock()
        self._held: dict[SnapshotId, _Held] = {}
        self._committed: _Held | None = None
        self._taken: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._ended = threading.Event()
        threading.Thread(target=self._hold_all, name="rayshot-vault", daemon=True).start()

    @ray.method(concurrency_group="intake")
    def take(self, packed: bytes) -> None:
        """Hold reports, then tell the coordinator: see `_hold_all`."""
        self._taken.put(packed)

    def _hold_all(self) -> None:
        """Work off what comes in, always everything that is there: many actors record at the same moment."""
        while True:
            packed = [self._taken.get()]
            with contextlib.suppress(queue.Empty):
                while True:
                    packed.append(self._taken.get_nowait())
            self._hold(packed)

    def _hold(self, packed: list[bytes]) -> None:
        records: list[tuple[Any, float, int]] = []
        parts = []
        copy = ray.put(packed)
        for report in (report for reports in packed for report in unpack_reports(reports)):
            snapshot = report.record.snapshot if isinstance(report, RecordReport) else report.snapshot
            with self._lock:
                held = self._held.setdefault(snapshot, _Held())
            held.objects.append(copy)
            match report:
                case RecordReport():
                    held.records[report.record.process] = (report, _parts_of(report, held))
                    size = report.state.size if report.state else 0
                    records.append((pack_record(report.record), report.hold_s, size))
                case ChannelReport():
                    held.parts[Channel(report.sender, report.receiver)] = report.frames
                    parts.append((report.snapshot, report.sender, report.receiver, report.first, report.last))
        self._coordinator.report.remote(records, parts)

    @ray.method(concurrency_group="store")
    def store(self, snapshot: SnapshotId, intent: str, reuse: dict[str, Chunk]) -> Stored:
        """Write everything held for `snapshot`; returns where it lies. Raises StoreError."""
        with self._lock:
            held = self._held.setdefault(snapshot, _Held())
        return _write(ChunkWriter(self._store, self._system, intent, reuse), held)

    @ray.method(concurrency_group="store")
    def forget(self, snapshot: SnapshotId, *, committed: bool) -> None:
        """The snapshot ended: release it; of the last committed one the copies in the object store stay."""
        with self._lock:
            held = self._held.pop(snapshot, None)
            if held is not None and committed:
                held.records.clear()
                held.parts.clear()
                self._committed = held

    @ray.method(concurrency_group="watch")
    def watch(self) -> None:
        """Stays pending as long as this process lives."""
        self._ended.wait()


def _write(writer: ChunkWriter, held: _Held) -> Stored:
    """Write all parts, small ones gathered; blobs are known only once all is written, so tickets come first."""
    states: dict[str, list[int]] = {}
    outboxes: dict[Channel, int] = {}
    mailboxes: dict[Channel, int] = {}
    specifications: dict[str, ActorSpecification] = {}
    for name, (report, parts) in held.records.items():
        states[name] = [writer.add(part) for part in parts]
        failpoint("mid_upload")
        if report.specification is not None:
            specifications[name] = ActorSpecification.unpack(report.specification)
        for receiver, frames in report.outbox.items():
            outboxes[Channel(name, receiver)] = writer.add(frames)
            _note_creation(frames, receiver, specifications)
    for channel, frames in _mailboxes(held).items():
        mailboxes[channel] = writer.add(frames)
        _note_creation(frames, channel.receiver, specifications)
    classes = {
        name: writer.add(specification.class_pickle)
        for name, specification in specifications.items()
        if specification.class_pickle is not None
    }
    blobs, chunks = writer.finish()
    actors = {}
    for name, specification in specifications.items():
        tickets = states.get(name)
        state = None
        if tickets:
            captured = held.records[name][0].state
            assert captured is not None
            state = CapturedState(captured.codec, blobs[tickets[0]], tuple(blobs[ticket] for ticket in tickets[1:]))
        actors[name] = StoredActor(specification, blobs[classes[name]] if name in classes else None, state)
    return Stored(
        actors,
        {channel: blobs[ticket] for channel, ticket in outboxes.items()},
        {channel: blobs[ticket] for channel, ticket in mailboxes.items()},
        tuple(chunks),
        writer.written_bytes,
    )


def _mailboxes(held: _Held) -> dict[Channel, bytes]:
    """The receivers' parts of all channels: what their records hold, then what came later."""
    mailboxes = {
        Channel(sender, name): frames
        for name, (report, _) in held.records.items()
        for sender, frames in report.mailbox.items()
    }
    for channel, frames in held.parts.items():
        mailboxes[channel] = mailboxes.get(channel, b"") + frames
    return mailboxes


def _parts_of(report: RecordReport, held: _Held) -> list[memoryview]:
    """The parts of a state; a spooled one gets copies in the object store of its own."""
    if report.state is None:
        return []
    if report.state.spool is None:
        return [memoryview(part) for part in report.state.parts]
    parts = read_spool(report.state)
    held.objects.extend(ray.put(_as_bytes(part)) for part in parts)
    return parts


def _as_bytes(part: memoryview) -> Any:
    """What `ray.put` can take without unpacking it element by element."""
    import numpy as np  # noqa: PLC0415 - comes with Ray; needed for large states only

    return np.frombuffer(part, np.uint8) if part.nbytes else b""


def _note_creation(frames: bytes, receiver: str, creations: dict[str, ActorSpecification]) -> None:
    frame = next(read_frames(frames), None)
    specification = None if frame is None else creation_of(frame)
    if specification is not None:
        creations[receiver] = ActorSpecification.unpack(specification)
