"""Snapshots for questions about them: each actor with calls and timers of its own, each channel with its messages."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgpack

from rayshot.format.codec import CALL, CREATE, REPLY, Frame, pack_frames
from rayshot.format.entries import ActorEntry, Blob, CapturedState, ChannelEntry
from rayshot.format.manifest import FOLLOWS, Manifest
from rayshot.format.pickling import dump_state
from rayshot.places.memory import MemoryStore
from rayshot.places.store import Store
from rayshot.properties import Property, judge
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.catalog import Storage
from rayshot.snapshots.chunk_writer import ChunkWriter
from rayshot.snapshots.repository import Repository
from rayshot.snapshots.snapshot import Snapshot
from tests.snapshots.snapshot_builder import KEY, TAKEN_AT, open_bank


@dataclass
class Actor:
    """A recorded actor. `callees=None` is that of an older rayshot; `owed` are the calls that it answers later."""

    state: Any = field(default_factory=dict)
    calls: dict[int, tuple[str, str | None, tuple[Any, ...]]] = field(default_factory=dict)
    callees: dict[int, str] | None = None
    timers: list[tuple[float, str, tuple[Any, ...]]] = field(default_factory=list)
    owed: dict[tuple[str, int], int] = field(default_factory=dict)


@dataclass
class Line:
    """A channel: `received` of `sent` messages were processed, the others are `messages`."""

    sent: int
    messages: list[bytes] = field(default_factory=list)


def tell(method: str, *args: Any) -> bytes:
    return msgpack.packb([method, *args])


def call(number: int, method: str, *args: Any) -> bytes:
    return msgpack.packb([CALL, number, tell(method, *args)])


def reply(number: int, value: Any) -> bytes:
    return msgpack.packb([REPLY, number, True, tell("", value)])


def create(*args: Any) -> bytes:
    return msgpack.packb([CREATE, b"", tell("__init__", *args)])


class History:
    """A system whose snapshots are written one after the other; `restore` begins another life.

    An actor that is None is not born yet.
    """

    def __init__(self, store: Store | None = None) -> None:
        self.store = MemoryStore() if store is None else store
        self.repository = open_bank(self.store)
        self._count = 0
        self._life = 1

    @property
    def system(self) -> Any:
        return Storage(self.store).system("bank")

    def snapshot(
        self,
        actors: Mapping[str, Actor | None],
        lines: dict[tuple[str, str], Line] | None = None,
        ended: tuple[str, ...] = (),
        follows: int | None = None,
    ) -> Snapshot:
        self._count += 1
        manifest = _manifest(self.repository, self._count, actors, lines or {}, ended, follows)
        return self.repository.snapshot(self.repository.commit(manifest, KEY))

    def restore(self, snapshot: Snapshot) -> None:
        self._life += 1
        self.repository = Repository(self.store, "bank", create=True)
        self.repository.log.begin_epoch(self.repository.next_incarnation(), f"w{self._life}")
        self.repository.note_restore(snapshot.id, None, claimed=True)


def snapshot_of(
    actors: Mapping[str, Actor | None], lines: dict[tuple[str, str], Line] | None = None, ended: tuple[str, ...] = ()
) -> Snapshot:
    return History().snapshot(actors, lines, ended)


def holds(
    asked: Property,
    actors: Mapping[str, Actor | None],
    lines: dict[tuple[str, str], Line] | None = None,
    ended: tuple[str, ...] = (),
) -> bool | None:
    return judge(asked, snapshot_of(actors, lines, ended)).holds


def station(has_token: Any) -> Actor:
    return Actor({"has_token": has_token})


def _manifest(
    repository: Repository,
    count: int,
    actors: Mapping[str, Actor | None],
    lines: dict[tuple[str, str], Line],
    ended: tuple[str, ...],
    follows: int | None,
) -> Manifest:
    assert repository.log.epoch is not None
    snapshot = SnapshotId(repository.log.epoch.incarnation, "coordinator", count)
    intent = repository.intend(snapshot, None)
    writer = ChunkWriter(repository.store, repository.system, intent, {}, None)
    states = {}
    for name, actor in actors.items():
        if actor is None:
            continue
        callees = {} if actor.callees is None else {"callees": actor.callees}
        tree = {"state": actor.state, "calls": actor.calls, "timers": actor.timers, "next_call": 99, "ending": False}
        pickled = dump_state(tree | callees | ({"owed": actor.owed} if actor.owed else {}), "state")
        states[name] = pickled.codec, writer.add(pickled.stream), [writer.add(buffer) for buffer in pickled.buffers]
    boxes = {}
    for ends, line in lines.items():
        first = line.sent - len(line.messages) + 1
        frame = Frame(first, len(line.messages), b"".join(line.messages))
        boxes[ends] = writer.add(pack_frames([frame])) if line.messages else None
    blobs, chunks = writer.finish()

    def blob(ticket: int | None) -> Blob | None:
        return None if ticket is None else blobs[ticket]

    def captured(codec: Any, stream: int, buffers: list[int]) -> CapturedState:
        return CapturedState(codec, blobs[stream], tuple(blobs[b] for b in buffers))

    return Manifest(
        system=repository.system,
        snapshot=snapshot,
        position=repository.log.next_position,
        mode="chandy-lamport",
        taken_at=TAKEN_AT + count,
        rayshot_version="0.1.0",
        python_version="3.11",
        intent=intent,
        label=None,
        actors=tuple(_entry(name, captured(*states[name]) if name in states else None) for name in actors),
        ended=ended,
        channels=tuple(
            ChannelEntry(*ends, line.sent, line.sent, line.sent - len(line.messages), blob(boxes[ends]), None)
            for ends, line in lines.items()
        ),
        chunks=tuple(chunks),
        stats={} if follows is None else {FOLLOWS: follows},
    )


def _entry(name: str, state: CapturedState | None) -> ActorEntry:
    status = "unborn" if state is None else "born"
    return ActorEntry(name, "bank", "Account", None, {}, status, ("deposit",), state, 1)
