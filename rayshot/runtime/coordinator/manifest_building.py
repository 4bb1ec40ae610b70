"""The manifest of a snapshot, from its cut and the answers of the vaults that wrote it."""

import platform
import time
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import rayshot
from rayshot.errors import StateNotSerializable
from rayshot.format.entries import ActorEntry, ChannelEntry, Outside, Proof, RecordedSlots, RecordingTimes, TraceEntry
from rayshot.format.manifest import BEHIND, Manifest
from rayshot.format.shape_tables import unpack_shapes
from rayshot.format.shapes import Shapes
from rayshot.keys.encryption import DataKey
from rayshot.protocol.cut import Cut
from rayshot.protocol.identity import Channel
from rayshot.runtime.coordinator.pending_snapshots import Taken
from rayshot.runtime.wire.stored_cut import Stored, StoredActor


def build_manifest(
    system: str,
    position: int,
    cut: Cut,
    written: list[Stored],
    intent: str,
    taken: Taken,
    started: float,
    data_key: DataKey | None,
) -> Manifest:
    """The manifest of a cut whose parts the vaults have `written`; `position` is that of its commit in the log.

    `started` is when the writing began, by time.perf_counter. Raises StateNotSerializable if messages go to an actor
    of which nobody recorded how to make it.
    """
    actors = {name: actor for stored in written for name, actor in stored.actors.items()}
    mailboxes = {channel: blob for stored in written for channel, blob in stored.mailboxes.items()}
    outboxes = {channel: blob for stored in written for channel, blob in stored.outboxes.items()}
    slots = _joined(written)
    traces = {name: blob for stored in written for name, blob in stored.traces.items()}
    chunks = {chunk.digest: chunk for stored in written for chunk in stored.chunks}
    proofs = {name: proof for stored in written for name, proof in stored.proofs.items()}
    nodes = {name: stored.node for stored in written for name in stored.actors}
    recordings = {name: RecordingTimes(nodes[name], *took) for name, took in taken.recorded.items() if name in nodes}
    read_shapes = cache(unpack_shapes)  # most actors of a class have one table
    entries = [
        _entry(
            name,
            "born" if record.born else "unborn",
            actors.get(name),
            read_shapes,
            recordings.get(name),
            proofs.get(name),
            taken.outside.get(name),
        )
        for name, record in cut.records.items()
    ]
    entries += [_entry(name, "unborn", actors.get(name), read_shapes) for name in cut.unborn]
    channels = [
        ChannelEntry(
            cut_.channel.sender,
            cut_.channel.receiver,
            cut_.sent,
            cut_.arrived,
            cut_.received,
            mailboxes.get(cut_.channel),
            outboxes.get(cut_.channel),
            _is_aligned(cut, cut_.channel),
            slots.get(cut_.channel, ()),
            cut_.owed,
        )
        for cut_ in cut.channels
    ]
    in_flight = sum(channel.sent - channel.received for channel in channels)
    return Manifest(
        system=system,
        snapshot=cut.snapshot,
        position=position,
        mode=taken.mode,
        taken_at=taken.taken_at,
        rayshot_version=rayshot.__version__,
        python_version=".".join(platform.python_version_tuple()[:2]),
        intent=intent,
        label=taken.label,
        actors=tuple(sorted(entries, key=lambda entry: entry.name)),
        ended=cut.ended,
        channels=tuple(sorted(channels, key=lambda channel: (channel.sender, channel.receiver))),
        chunks=tuple(chunks.values()),
        stats={
            **taken.stats,
            **({} if cut.advances else {BEHIND: 1}),
            "in_flight": in_flight,
            "written_bytes": sum(stored.written_bytes for stored in written),
            "stored_s": time.perf_counter() - started,
        },
        traces=tuple(TraceEntry(name, blob) for name, blob in sorted(traces.items())),
        data_key=data_key,
    )


def _joined(written: Iterable[Stored]) -> dict[Channel, tuple[RecordedSlots, ...]]:
    """The objects beside messages, by channel: the sender's and the receiver's vault each wrote a part of a channel."""
    found: dict[Channel, list[RecordedSlots]] = {}
    for stored in written:
        for channel, attached in stored.slots.items():
            found.setdefault(channel, []).extend(attached)
    return {channel: tuple(sorted(attached, key=lambda message: message.number)) for channel, attached in found.items()}


def _is_aligned(cut: Cut, channel: Channel) -> bool:
    record = cut.records.get(channel.receiver)
    return record is not None and channel.sender in record.aligned


def _entry(
    name: str,
    status: Any,
    stored: StoredActor | None,
    read_shapes: Callable[[bytes], Shapes],
    recording: RecordingTimes | None = None,
    proof: Proof | None = None,
    outside: Outside | None = None,
) -> ActorEntry:
    if stored is None:
        raise StateNotSerializable(
            f"actor {name!r} does not run yet, and messages for it are in the snapshot. The cluster may have no room "
            f"for it. Take the snapshot when {name!r} runs"
        )
    specification = stored.specification
    return ActorEntry(
        name,
        specification.class_module,
        specification.class_name,
        stored.class_pickle,
        dict(specification.options),
        status,
        specification.methods,
        stored.state if status == "born" else None,
        specification.version,
        recording,
        proof,
        read_shapes(stored.shapes),
        outside,
    )
