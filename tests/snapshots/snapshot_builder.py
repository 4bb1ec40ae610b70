"""Makes real snapshots of a small bank, through the same calls that the runtime makes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgpack

from rayshot.format.codec import PICKLED, Frame, pack_frames
from rayshot.format.entries import ActorEntry, Blob, CapturedState, ChannelEntry, Outside, TraceEntry
from rayshot.format.manifest import BEHIND, Manifest
from rayshot.format.payloads import pack_payload
from rayshot.format.pickling import StateCodec, dump_message, dump_state
from rayshot.keys.encryption import EncryptionKey
from rayshot.keys.signing import SigningKey
from rayshot.log.records import CommitRecord
from rayshot.places.store import Store
from rayshot.protocol.identity import Channel, SnapshotId
from rayshot.snapshots.catalog import Storage
from rayshot.snapshots.chunk_writer import LARGE_BYTES_MIN, ChunkWriter
from rayshot.snapshots.outside import ActorFolder
from rayshot.snapshots.repository import Repository
from rayshot.snapshots.snapshot import Snapshot
from rayshot.snapshots.upkeep.deletion import Sweep, delete_snapshot
from rayshot.snapshots.upkeep.retention import Keep, Retention

KEY = SigningKey(b"k" * 32)
TAKEN_AT = 1_763_721_000.25


@dataclass(frozen=True)
class Flow:
    """The cut of a channel and the arguments of its messages, received+1 .. sent."""

    sent: int = 0
    arrived: int | None = None
    received: int = 0
    method: str = "deposit"
    kwargs: Mapping[Any, Any] = field(default_factory=dict)

    def part(self, first: int, last: int) -> bytes:
        bodies = [self._message(number * 10) for number in range(first, last + 1)]
        half = len(bodies) // 2
        frames = [
            Frame(first, half, b"".join(bodies[:half])),
            Frame(first + half, len(bodies) - half, b"".join(bodies[half:])),
        ]
        return pack_frames(frame for frame in frames if frame.count)

    def _message(self, argument: int) -> bytes:
        if not self.kwargs:
            return msgpack.packb([self.method, argument])
        return msgpack.packb([PICKLED, *dump_message(self.method, (argument,), self.kwargs)[:2]])


USUAL_FLOWS = {
    ("alice", "bob"): Flow(sent=5, arrived=4, received=2),
    ("driver:main", "alice"): Flow(sent=3, received=3),
}


@dataclass
class Bank:
    """What a snapshot of the bank is to hold."""

    states: Mapping[str, Any] = field(default_factory=lambda: {"alice": {"balance": 90}, "bob": {"balance": 10}})
    flows: Mapping[tuple[str, str], Flow] | None = None
    unborn: Sequence[str] = ()
    ended: Sequence[str] = ()
    initiator: str = "coordinator"
    label: str | None = None
    version: int = 1
    python_version: str = "3.11"
    timers: Sequence[tuple[float, str, tuple[Any, ...]]] = ()
    calls: Mapping[int, tuple[str, str | None, tuple[Any, ...]]] = field(default_factory=dict)
    callees: Mapping[int, str] | None = None
    dead_letters: Sequence[tuple[str, str, int, str, str, int]] = ()
    traces: Mapping[str, bytes] = field(default_factory=dict)
    advances: bool = True
    stats: Mapping[str, float] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    """Actor -> path -> content, of what hooks write for the snapshot."""
    payload: Any = None
    root: Store | None = None

    def all_flows(self) -> Mapping[tuple[str, str], Flow]:
        """What was asked for, or the usual ones between the actors that there are."""
        if self.flows is not None:
            return self.flows
        there = {*self.states, *self.unborn, "driver:main"}
        return {channel: flow for channel, flow in USUAL_FLOWS.items() if there.issuperset(channel)}


def open_bank(store: Store, writer: str = "w1", system: str = "bank", keys: Sequence[EncryptionKey] = ()) -> Repository:
    repository = Repository(store, system, create=True, keys=keys)
    repository.log.begin_epoch(repository.next_incarnation(), writer)
    return repository


def retain(repository: Repository, keep: Keep) -> Sweep:
    return Retention(repository).retain(keep)


def delete(repository: Repository, snapshot: SnapshotId) -> Sweep:
    return delete_snapshot(repository.store, repository.system, snapshot, repository.keys)


def make_manifest(repository: Repository, bank: Bank, counter: int, *, reuse: Snapshot | None = None) -> Manifest:
    assert repository.log.epoch is not None
    snapshot = SnapshotId(repository.log.epoch.incarnation, bank.initiator, counter)
    intent = repository.intend(snapshot, None if reuse is None else reuse.id)
    known = {} if reuse is None else {chunk.digest: chunk for chunk in reuse.manifest.chunks}
    data_key = repository.new_data_key()
    writer = ChunkWriter(repository.store, repository.system, intent, known, data_key)
    states = {name: _add_state(writer, state, bank) for name, state in bank.states.items()}
    flows = bank.all_flows()
    parts = {channel: _add_parts(writer, flow) for channel, flow in flows.items()}
    traces = {name: writer.add(segment) for name, segment in bank.traces.items()}
    blobs, chunks = writer.finish()

    def blob(ticket: int | None) -> Blob | None:
        return None if ticket is None else blobs[ticket]

    sealed = {name: write_outside(repository, bank, snapshot, name) for name in bank.files}
    actors = [
        _actor(
            name,
            CapturedState(codec, blobs[stream], tuple(blobs[b] for b in buffers)),
            bank.version,
            sealed.get(name),
        )
        for name, (codec, stream, buffers) in states.items()
    ]
    channels = [
        ChannelEntry(*Channel(*channel), *_counters(flows[channel]), blob(mailbox), blob(outbox))
        for channel, (mailbox, outbox) in parts.items()
    ]
    return Manifest(
        system=repository.system,
        snapshot=snapshot,
        position=repository.log.next_position,
        mode="chandy-lamport",
        taken_at=TAKEN_AT + counter,
        rayshot_version="0.1.0",
        python_version=bank.python_version,
        intent=intent,
        label=bank.label,
        actors=(*actors, *(_actor(name, None) for name in bank.unborn)),
        ended=tuple(bank.ended),
        channels=tuple(channels),
        chunks=tuple(chunks),
        stats={"duration_ms": 12.5, **bank.stats, **({} if bank.advances else {BEHIND: 1})},
        traces=tuple(TraceEntry(name, blobs[ticket]) for name, ticket in traces.items()),
        data_key=data_key,
    )


def write_outside(repository: Repository, bank: Bank, snapshot: SnapshotId, actor: str) -> Outside:
    """Write an actor's files, and seal them as its process does."""
    root = repository.store if bank.root is None else bank.root
    folder = ActorFolder(root, repository.system, snapshot, actor)
    for path, content in bank.files[actor].items():
        root.write(f"{folder.key}/{path}", [content], len(content))
    return Outside(pack_payload(bank.payload), folder.seal(), None if bank.root is None else bank.root.url)


def make_snapshot(
    repository: Repository,
    bank: Bank | None = None,
    counter: int = 1,
    *,
    reuse: Snapshot | None = None,
    key: SigningKey | None = KEY,
) -> Snapshot:
    manifest = make_manifest(repository, Bank() if bank is None else bank, counter, reuse=reuse)
    return repository.snapshot(repository.commit(manifest, key))


def forge_commit(store: Store, record: CommitRecord, system: str = "bank") -> None:
    """Write a COMMIT record without asking the log."""
    from rayshot.log.layout import log_key
    from rayshot.log.records import encode_record

    store.delete(log_key(system, record.position))
    store.create(log_key(system, record.position), encode_record(record))


def _counters(flow: Flow) -> tuple[int, int, int]:
    return flow.sent, flow.sent if flow.arrived is None else flow.arrived, flow.received


def _add_state(writer: ChunkWriter, state: Any, bank: Bank) -> tuple[StateCodec, int, list[int]]:
    calls, timers = dict(bank.calls), list(bank.timers)
    tree = {"state": state, "calls": calls, "timers": timers, "next_call": len(calls) + 1, "ending": False}
    if bank.callees is not None:
        tree["callees"] = dict(bank.callees)
    if bank.dead_letters:
        tree["dead_letters"] = tuple(bank.dead_letters)
    pickled = dump_state(tree, "state")
    return pickled.codec, writer.add(pickled.stream), [writer.add(buffer) for buffer in pickled.buffers]


def _add_parts(writer: ChunkWriter, flow: Flow) -> tuple[int | None, int | None]:
    sent, arrived, received = _counters(flow)
    return (
        writer.add(flow.part(received + 1, arrived)) if arrived > received else None,
        writer.add(flow.part(arrived + 1, sent)) if sent > arrived else None,
    )


def _actor(name: str, state: CapturedState | None, version: int = 1, outside: Outside | None = None) -> ActorEntry:
    return ActorEntry(
        name=name,
        class_module="bank",
        class_name="Account",
        class_pickle=None,
        options={},
        status="unborn" if state is None else "born",
        methods=("deposit", "read", "transfer"),
        state=state,
        version=version,
        outside=outside,
    )


def committed(store: Store, system: str = "bank") -> list[Snapshot]:
    return Storage(store).system(system).snapshots()


def large(text: str) -> str:
    return text * (LARGE_BYTES_MIN // len(text) + 1)


def assert_every_chunk_is_reachable(store: Store) -> None:
    named = {f"bank/{chunk.key}" for snapshot in committed(store) for chunk in snapshot.manifest.chunks}
    assert {entry.key for entry in store.list("bank/chunks")} == named
