"""What a vault is told about a cut, and its answer: where it stored its parts of the snapshot."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from rayshot.format.entries import Blob, CapturedState, Chunk, Proof, RecordedSlot, RecordedSlots, Span
from rayshot.model.specification import ActorSpecification
from rayshot.protocol.cut import ChannelCut, Cut
from rayshot.protocol.identity import Channel
from rayshot.runtime.wire.packets import pack, unpack

PackedStored = tuple[bytes, tuple[Chunk, ...]]
"""Packed blobs, and chunks. Ray would pickle each span of the many blobs; chunks are few, and may hold data keys."""


@dataclass(frozen=True, slots=True)
class VaultShare:
    """What a vault must know of a cut: actors that recorded, unborn actors, and channels that are not empty."""

    recorded: frozenset[str]
    unborn: frozenset[str]
    channels: tuple[ChannelCut, ...]


def pack_share(cut: Cut) -> bytes:
    """Pack a cut for a vault, without the counters of the records and without the empty channels."""
    channels = [(*one.channel, one.sent, one.arrived, one.received) for one in cut.channels if one.sent > one.received]
    return pack((tuple(cut.records), cut.unborn, channels))


def unpack_share(packed: bytes) -> VaultShare:
    """Unpack what `pack_share` packed."""
    recorded, unborn, channels = unpack(packed)
    return VaultShare(
        frozenset(recorded),
        frozenset(unborn),
        tuple(ChannelCut(Channel(sender, receiver), *numbers) for sender, receiver, *numbers in channels),
    )


@dataclass(frozen=True, slots=True)
class StoredActor:
    """Where the bytes of one actor are stored. `state` is None for an actor that is not yet born.

    `shapes` are those of the classes in its state and messages, packed.
    """

    specification: ActorSpecification
    class_pickle: Blob | None
    state: CapturedState | None
    shapes: bytes = b""


@dataclass(frozen=True, slots=True)
class Stored:
    """What one vault wrote of a snapshot. `node` is the address of its node.

    `actors` include actors that the vault knows only from messages in flight. `proofs` say for each state whether it
    was loaded for trial.
    """

    node: str
    actors: Mapping[str, StoredActor]
    outboxes: Mapping[Channel, Blob]
    mailboxes: Mapping[Channel, Blob]
    slots: Mapping[Channel, tuple[RecordedSlots, ...]]
    traces: Mapping[str, Blob]
    chunks: tuple[Chunk, ...]
    written_bytes: int
    proofs: Mapping[str, Proof] = field(default_factory=dict)


def pack_stored(stored: Stored) -> PackedStored:
    """Pack the answer for the coordinator."""
    actors = [
        (
            name,
            actor.specification.pack(),
            _spans(actor.class_pickle),
            None if actor.state is None else _state(actor.state),
            actor.shapes,
        )
        for name, actor in stored.actors.items()
    ]
    channels = [
        [(*channel, _spans(blob)) for channel, blob in blobs.items()] for blobs in (stored.outboxes, stored.mailboxes)
    ]
    slots = [
        (
            *channel,
            [(message.number, [(slot.kind, *_state(slot.content)) for slot in message.slots]) for message in attached],
        )
        for channel, attached in stored.slots.items()
    ]
    traces = [(name, _spans(blob)) for name, blob in stored.traces.items()]
    proofs = [(name, proof.word, proof.reason) for name, proof in stored.proofs.items()]
    return pack((stored.node, actors, *channels, slots, traces, stored.written_bytes, proofs)), stored.chunks


def unpack_stored(answer: PackedStored) -> Stored:
    """Unpack what `pack_stored` packed."""
    packed, chunks = answer
    node, actors, outboxes, mailboxes, slots, traces, written_bytes, proofs = unpack(packed)
    read_specification = cache(ActorSpecification.unpack)  # actors of one class share it
    return Stored(
        node,
        {
            name: StoredActor(
                read_specification(specification),
                None if class_pickle is None else _blob(class_pickle),
                None if state is None else _captured(*state),
                shapes,
            )
            for name, specification, class_pickle, state, shapes in actors
        },
        {Channel(sender, receiver): _blob(spans) for sender, receiver, spans in outboxes},
        {Channel(sender, receiver): _blob(spans) for sender, receiver, spans in mailboxes},
        {Channel(sender, receiver): tuple(_slots(*of) for of in attached) for sender, receiver, attached in slots},
        {name: _blob(spans) for name, spans in traces},
        chunks,
        written_bytes,
        {name: Proof(word, reason) for name, word, reason in proofs},
    )


def _spans(blob: Blob | None) -> list[tuple[str, int, int]] | None:
    return None if blob is None else [(span.chunk, span.offset, span.length) for span in blob.spans]


def _state(state: CapturedState) -> tuple[Any, ...]:
    return (state.codec, _spans(state.stream), [_spans(blob) for blob in state.buffers])


def _blob(spans: tuple[tuple[str, int, int], ...]) -> Blob:
    return Blob(tuple(Span(*span) for span in spans))


def _slots(number: int, slots: Any) -> RecordedSlots:
    return RecordedSlots(number, tuple(RecordedSlot(kind, _captured(*content)) for kind, *content in slots))


def _captured(codec: Any, stream: Any, buffers: Any) -> CapturedState:
    return CapturedState(codec, _blob(stream), tuple(map(_blob, buffers)))
