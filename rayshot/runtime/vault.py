"""The vault of a node: keeps what actors recorded, in the object store at once and in the storage when asked.

What an actor puts into the object store dies with the actor; what the vault puts there lives as long as the
vault. So a record counts as held only from here on, and only then does the coordinator hear of it.
"""

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import ray

from rayshot.errors import StateNotSerializable
from rayshot.format.codec import creation_of, cut_frame, pack_frames, read_frames
from rayshot.format.encryption_key import DataKey
from rayshot.format.manifest import Blob, CapturedState, Chunk
from rayshot.format.pickling import dump_object
from rayshot.model.specification import ActorSpecification
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.cut import Cut
from rayshot.protocol.identity import Channel, SnapshotId
from rayshot.runtime.capture import read_spool, spool_folder, sweep_spools
from rayshot.runtime.failpoints import failpoint
from rayshot.runtime.priority import go_first, go_with_others
from rayshot.runtime.references import know_references
from rayshot.runtime.reports import RecordReport, pack_record, unpack_reports
from rayshot.store.chunk_writer import ChunkWriter
from rayshot.store.locate import open_store

log = logging.getLogger("rayshot")
References = list[list[tuple[Any, ...]]]
OVER_MAX = 1000
"""Of so many snapshots that ended the vault knows it, so that it does not hold what comes late for them."""


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
    traces: Mapping[str, Blob]
    chunks: tuple[Chunk, ...]
    written_bytes: int


@dataclass(slots=True)
class _Held:
    """One snapshot's reports. `objects` are references into the object store, kept alive by being here."""

    records: dict[str, tuple[RecordReport, list[memoryview]]] = field(default_factory=dict)
    objects: list[Any] = field(default_factory=list)


class Vault:
    """A Ray actor, one per node and life of a system."""

    def __init__(self, system: str, storage: str, coordinator: Any) -> None:
        self._system = system
        self._store = open_store(storage)
        self._coordinator = coordinator
        self._lock = threading.Lock()
        self._held: dict[SnapshotId, _Held] = {}
        self._over: dict[SnapshotId, None] = {}
        self._committed: _Held | None = None
        self._taken: queue.SimpleQueue[tuple[bytes, References]] = queue.SimpleQueue()
        self._ended = threading.Event()
        know_references()
        sweep_spools(spool_folder())
        go_first()
        threading.Thread(target=self._hold_all, name="rayshot-vault", daemon=True).start()

    @ray.method(concurrency_group="intake")
    def take(self, packed: bytes, references: References) -> None:
        """Hold reports and the objects that states refer to, then tell the coordinator: see `_hold_all`."""
        self._taken.put((packed, references))

    def _hold_all(self) -> None:
        """Work off what comes in, always everything that is there: many actors record at the same moment."""
        while True:
            taken = [self._taken.get()]
            with contextlib.suppress(queue.Empty):
                while True:
                    taken.append(self._taken.get_nowait())
            try:
                self._hold(taken)
            except Exception:
                log.exception("records could not be held, a defect of rayshot: their snapshots will time out")

    def _hold(self, taken: list[tuple[bytes, References]]) -> None:
        records: list[tuple[Any, float, int]] = []
        copies = _copy([packed for packed, _ in taken])
        for report in (report for reports in taken for report in unpack_reports(*reports)):
            snapshot, process = report.record.snapshot, report.record.process
            with self._lock:
                held = None if snapshot in self._over else self._held.setdefault(snapshot, _Held())
            try:
                parts = _parts_of(report)
            except OSError as error:
                detail = f"its captured state cannot be read: {error}"
                self._coordinator.refuse.remote(snapshot, process, detail, AbortReason.CAPTURE_FAILED)
                continue
            if held is not None:
                held.objects += copies
                if report.state and report.state.spool:
                    held.objects += [copy for part in parts for copy in _copy(_as_bytes(part))]
                held.records[process] = (report, parts)
                records.append((pack_record(report.record), report.hold_s, report.state.size if report.state else 0))
        self._coordinator.report.remote(records)

    @ray.method(concurrency_group="store")
    def store(
        self,
        cut: Cut,
        intent: str,
        reuse: dict[str, Chunk],
        timeout_s: float,
        traces: Mapping[str, bytes],
        data_key: DataKey | None = None,
    ) -> Stored:
        """Write what is held of a snapshot as far as its cut counts it; returns where it lies.

        `traces` are segments of actors that ended, which no vault holds. `data_key` encrypts what is written.

        Raises StoreError, and StateNotSerializable for an object that a state refers to and that is not to be had.
        """
        deadline = time.monotonic() + timeout_s
        go_with_others()  # what it writes may be large, and nobody's state waits for it
        with self._lock:
            held = self._held.setdefault(cut.snapshot, _Held())
        for name in held.records.keys() & cut.records.keys():
            _fetch_objects(*held.records[name], deadline)
        return _write(ChunkWriter(self._store, self._system, intent, reuse, data_key), held, cut, traces)

    @ray.method(concurrency_group="store")
    def forget(self, snapshot: SnapshotId, *, committed: bool) -> None:
        """The snapshot ended: release it; of the last committed one the copies in the object store stay."""
        with self._lock:
            self._over[snapshot] = None
            while len(self._over) > OVER_MAX:
                del self._over[next(iter(self._over))]
            held = self._held.pop(snapshot, None)
            if held is not None and committed:
                held.records.clear()
                self._committed = held
        if not committed:  # maybe because an actor died
            sweep_spools(spool_folder())

    @ray.method(concurrency_group="watch")
    def watch(self) -> None:
        """Stays pending as long as this process lives."""
        self._ended.wait()


def _write(writer: ChunkWriter, held: _Held, cut: Cut, last_traces: Mapping[str, bytes]) -> Stored:
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
    for channel_cut in cut.channels:
        channel = channel_cut.channel
        if channel_cut.arrived > channel_cut.received and channel.receiver in held.records:
            frames = held.records[channel.receiver][0].mailbox[channel.sender]
            mailboxes[channel] = writer.add(frames)
            _note_creation(frames, channel.receiver, specifications)
        if channel_cut.sent > channel_cut.arrived and channel.sender in held.records:
            frames = _behind(held.records[channel.sender][0].outbox[channel.receiver], channel_cut.arrived)
            outboxes[channel] = writer.add(frames)
            _note_creation(frames, channel.receiver, specifications)
    members = cut.records.keys() | set(cut.unborn)  # others recorded too, and came into being behind the cut
    segments = {name: r.trace for name, (r, _) in held.records.items() if name in members and r.trace}
    segments |= last_traces
    traces = {name: writer.add(segment) for name, segment in segments.items()}
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
        {name: blobs[ticket] for name, ticket in traces.items()},
        tuple(chunks),
        writer.written_bytes,
    )


def _fetch_objects(report: RecordReport, parts: list[memoryview], deadline: float) -> None:
    """Put the values of the state's ObjectRefs into the buffers that are kept free for them."""
    for found in report.state.references if report.state else ():

        def get(reference: Any, path: str = found.path) -> Any:
            try:
                return ray.get(reference, timeout=max(0.0, deadline - time.monotonic()))
            except ray.exceptions.GetTimeoutError as error:
                message = f"the object of {path} was not ready before the snapshot's deadline"
                raise StateNotSerializable(message, path=path) from error
            except ray.exceptions.RayError as error:
                message = f"the object of {path} is not to be had: {str(error).splitlines()[0]}"
                raise StateNotSerializable(message, path=path) from error

        parts[1 + found.position] = memoryview(dump_object(get(found.reference), get))


def _behind(frames: bytes, arrived: int) -> bytes:
    """The messages above `arrived`: what comes before was under way, and its receiver had it when it recorded."""
    parts = list(read_frames(frames))
    if parts[0].first > arrived:
        return frames
    return pack_frames(part for frame in parts if (part := cut_frame(frame, arrived + 1, frame.last)).count)


def _parts_of(report: RecordReport) -> list[memoryview]:
    """The parts of a state; those of a spooled one are its last trace: the file goes. Raises OSError."""
    if report.state is None:
        return []
    if report.state.spool is not None:
        return read_spool(report.state)
    return [memoryview(part) for part in report.state.parts]


def _copy(value: Any) -> list[Any]:
    """A copy in the object store; none where that is full, as the storage gets the snapshot anyway."""
    try:
        return [ray.put(value)]
    except ray.exceptions.ObjectStoreFullError as error:
        log.warning("the object store holds no copy of what was recorded: %s", error)
        return []


def _as_bytes(part: memoryview) -> Any:
    """What `ray.put` can take without unpacking it element by element."""
    import numpy as np  # noqa: PLC0415 - comes with Ray; needed for large states only

    return np.frombuffer(part, np.uint8) if part.nbytes else b""


def _note_creation(frames: bytes, receiver: str, creations: dict[str, ActorSpecification]) -> None:
    frame = next(read_frames(frames), None)
    specification = None if frame is None else creation_of(frame)
    if specification is not None:
        creations[receiver] = ActorSpecification.unpack(specification)
