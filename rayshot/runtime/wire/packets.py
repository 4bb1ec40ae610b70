"""Data that calls carry as one `bytes`: packets of messages, their answers, the call for a record, plain values."""

from enum import IntEnum
from typing import Any, NamedTuple

import msgpack

from rayshot.protocol.events import BatchArrived, Marker
from rayshot.protocol.identity import SnapshotId

_pack = msgpack.Packer(use_bin_type=True).pack


class Status(IntEnum):
    """How the receiver treated a packet."""

    TAKEN = 0
    STOPPED = 1
    ENDED = 2
    GONE = 3
    """The sender, a driver, counts as dead."""


class PacketAnswer(NamedTuple):
    """The receiver's answer to a packet.

    `processed` is the number of the sender's last processed message: the messages after it are the credit in use.
    `recorded` are the snapshots that the receiver had recorded when it took the packet. `ended` are the tags of the
    packet whose snapshots have ended. `detail` explains a refusal. `rider` is a packet from the receiver to the sender,
    which came with the answer; b"" if none did.
    """

    status: Status
    processed: int
    recorded: tuple[SnapshotId, ...] = ()
    ended: tuple[SnapshotId, ...] = ()
    detail: str = ""
    rider: bytes = b""


Acks = tuple[tuple[int, PacketAnswer], ...]
"""Answers to packets that were riders: the number of the first message, and the answer."""


def pack_packet(
    sender: str,
    incarnation: int,
    first: int,
    count: int,
    body: bytes,
    *,
    markers: tuple[Marker, ...] = (),
    tags: tuple[SnapshotId, ...] = (),
    closing: bool = False,
    asked: int = 0,
    asks: bool = False,
    acks: Acks = (),
) -> bytes:
    """A batch of messages with its header. `asks`: somebody waits for an answer to one of them, which may ride."""
    return _pack((sender, incarnation, first, count, markers, tags, closing, asked, (asks, acks))) + body


def unpack_packet(packet: bytes) -> tuple[BatchArrived, tuple[bool, Acks], memoryview]:
    """The batch as an event, what concerns riders (`asks` and `acks`), and its messages."""
    unpacker = msgpack.Unpacker(None, max_buffer_size=0, use_list=False)
    unpacker.feed(packet)
    sender, incarnation, first, count, markers, tags, closing, asked, (asks, acks) = unpacker.unpack()
    batch = BatchArrived(
        sender,
        incarnation,
        first,
        count,
        tuple(Marker(SnapshotId(*k), sent) for k, sent in markers) if markers else (),
        tuple(SnapshotId(*k) for k in tags) if tags else (),
        closing,
        asked,
    )
    answers = tuple((rider, _answer(*answer)) for rider, answer in acks)
    return batch, (asks, answers), memoryview(packet)[unpacker.tell() :]


def pack_answer(answer: PacketAnswer) -> bytes:
    """Encode an answer."""
    return _pack(answer)


def unpack_answer(packed: bytes) -> PacketAnswer:
    """Decode an answer."""
    return _answer(*msgpack.unpackb(packed, use_list=False))


def _answer(status: int, processed: int, recorded: Any, ended: Any, detail: str, rider: bytes) -> PacketAnswer:
    if recorded or ended:  # else there is nothing to make of them
        recorded, ended = (tuple(SnapshotId(*k) for k in several) for several in (recorded, ended))
    return PacketAnswer(Status(status), processed, recorded, ended, detail, rider)


def pack_begin(snapshot: SnapshotId, floor: int, inputs: frozenset[str]) -> bytes:
    """Encode the call for a record. It goes to each actor, and Ray would pickle other values than bytes each time."""
    return _pack((snapshot, floor, tuple(inputs)))


def unpack_begin(packed: bytes) -> tuple[SnapshotId, int, frozenset[str]]:
    """Decode what `pack_begin` encoded."""
    snapshot, floor, inputs = msgpack.unpackb(packed, use_list=False)
    return SnapshotId(*snapshot), floor, frozenset(inputs)


def pack(value: Any) -> bytes:
    """Encode plain values for a control call."""
    return _pack(value)


def unpack(packed: bytes) -> Any:
    """Decode what `pack` encoded; sequences come back as tuples."""
    return msgpack.unpackb(packed, use_list=False, strict_map_key=False)
