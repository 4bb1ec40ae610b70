"""Snapshots for benchmarks of reading, written as the runtime writes them, without a system that runs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import make_dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgpack

from rayshot.format.codec import PICKLED, Frame, pack_frames
from rayshot.format.entries import ActorEntry, CapturedState, ChannelEntry
from rayshot.format.manifest import Manifest
from rayshot.format.pickling import dump_message, dump_state
from rayshot.places.local import LocalStore
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.chunk_writer import ChunkWriter
from rayshot.snapshots.repository import Repository

_pack: Callable[[list[Any]], bytes] = msgpack.Packer(use_bin_type=True).pack

SYSTEM = "bank"
FRAME_MESSAGES = 4_000
"""In a frame, about as many as a full packet has."""
TAKEN_AT = 1_763_721_000.0

Order = make_dataclass(
    "Order", [("account", str), ("amount", float), ("number", int)], namespace={"__module__": "__main__"}
)
"""A class as notebooks have them: cloudpickle writes it by value, into each message."""


def flat_message(number: int, account: str = "") -> bytes:
    """A tell of an integer, a text and a float."""
    return _pack(["deposit", number, account or f"account-{number % 1_000}", number * 0.5 + 1])


def mixed_message(number: int) -> bytes:
    """One in ten is a tell of a list or a dict, the others are flat."""
    if number % 10:
        return flat_message(number)
    return pickled_message([number, "x", 2.5] if number % 20 else {"item": number, "tags": [1, 2, 3]})


def by_value_message(number: int) -> bytes:
    """A tell of an object whose class is in the message."""
    return pickled_message(Order(f"account-{number % 1_000}", number * 0.5 + 1, number))


def pickled_message(argument: Any) -> bytes:
    """A tell of anything."""
    return _pack([PICKLED, *dump_message("deposit", (argument,), {})[:2]])


class Shots:
    """A storage in a folder with one system."""

    def __init__(self, folder: Path) -> None:
        self.store = LocalStore(folder)
        self.repository = Repository(self.store, SYSTEM, create=True, keys=())
        self._snapshots = 0
        self._epochs = 0

    def begin_epoch(self) -> None:
        """Add an EPOCH record to the log, as a coordinator does that takes over."""
        self._epochs += 1
        self.repository.log.begin_epoch(1, f"w{self._epochs}")

    def add(
        self, flows: Mapping[tuple[str, str], Sequence[bytes]], states: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        """Commit a snapshot with the messages of each (sender, receiver), all waiting in the mailbox, and states."""
        log = self.repository.log
        if log.epoch is None:
            self.begin_epoch()
        self._snapshots += 1
        snapshot = SnapshotId(1, "coordinator", self._snapshots)
        intent = self.repository.intend(snapshot)
        writer = ChunkWriter(self.store, SYSTEM, intent)
        tickets = {channel: writer.add(pack_frames(_frames(messages))) for channel, messages in flows.items()}
        pickled = {name: dump_state({"state": state}, "state") for name, state in states.items()}
        parts = {
            name: (writer.add(one.stream), [writer.add(buffer) for buffer in one.buffers])
            for name, one in pickled.items()
        }
        blobs, chunks = writer.finish()
        captured = {
            name: CapturedState(one.codec, blobs[parts[name][0]], tuple(blobs[part] for part in parts[name][1]))
            for name, one in pickled.items()
        }
        channels = [
            ChannelEntry(*channel, len(flows[channel]), len(flows[channel]), 0, blobs[ticket], None)
            for channel, ticket in tickets.items()
        ]
        names = sorted({name for channel in flows for name in channel if ":" not in name} | {"alice", *states})
        manifest = Manifest(
            system=SYSTEM,
            snapshot=snapshot,
            position=log.next_position,
            mode="chandy-lamport",
            taken_at=TAKEN_AT + self._snapshots,
            rayshot_version="0.1.0",
            python_version="3.11",
            intent=intent,
            label=None,
            actors=tuple(_actor(name, captured.get(name)) for name in names),
            ended=(),
            channels=tuple(channels),
            chunks=tuple(chunks),
            stats={"duration_ms": 12.5},
            data_key=None,
        )
        self.repository.commit(manifest, None)


def _frames(messages: Sequence[bytes]) -> Iterable[Frame]:
    for start in range(0, len(messages), FRAME_MESSAGES):
        some = messages[start : start + FRAME_MESSAGES]
        yield Frame(start + 1, len(some), b"".join(some))


def _actor(name: str, state: CapturedState | None) -> ActorEntry:
    return ActorEntry(
        name=name,
        class_module="bank",
        class_name="Account",
        class_pickle=None,
        options={},
        status="unborn" if state is None else "born",
        methods=("deposit",),
        state=state,
        version=1,
    )
