"""A host becomes the actor that a snapshot holds: here a restore unpickles, after the signature was checked."""

from collections.abc import Mapping
from dataclasses import dataclass

from rayshot.errors import CodeMismatch
from rayshot.format.codec import read_frames
from rayshot.format.manifest import Blob, CapturedState, Chunk
from rayshot.format.pickling import load_state
from rayshot.model.specification import ActorSpecification
from rayshot.protocol.events import Restored
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.process import ActorProcess
from rayshot.store.chunk_reader import ChunkReader
from rayshot.store.locate import open_store


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """One actor's part of a snapshot, taken from a manifest whose signature was checked.

    `folder` is where its chunks lie in the storage; `snapshot` is the one that it is of. `state` is None for an actor
    that is not yet born. `sent` and `arrived` are the counters n of its channels, `received` the counters m. `mailbox`
    holds, per sender, the blobs of what was in flight to it, in order. `ended` are the senders that ended before the
    cut.
    """

    storage: str
    folder: str
    snapshot: SnapshotId
    specification: ActorSpecification
    state: CapturedState | None
    chunks: Mapping[str, Chunk]
    sent: Mapping[str, int]
    arrived: Mapping[str, int]
    received: Mapping[str, int]
    mailbox: Mapping[str, tuple[Blob, ...]]
    ended: frozenset[str]


def load_process(process: ActorProcess, plan: LoadPlan) -> None:
    """Fill a fresh process. Raises Damaged, StoreError, CodeMismatch."""
    reader = ChunkReader(open_store(plan.storage), plan.folder, plan.chunks)
    frames = {
        sender: [frame for blob in blobs for frame in read_frames(reader.read(blob))]
        for sender, blobs in plan.mailbox.items()
    }
    state = None
    if plan.state is not None:
        user_class = plan.specification.resolve()
        state = load_state(
            reader.read(plan.state.stream),
            [bytearray(reader.read(buffer)) for buffer in plan.state.buffers],  # writable, as they were
            process.cell.become(plan.specification, user_class),
        )
        try:
            process.cell.load(state)
        except (AttributeError, TypeError, KeyError) as error:
            raise CodeMismatch(
                f"actor {process.name!r}: class {plan.specification.class_name} does not take the recorded state: "
                f"{error!r}",
                actor=process.name,
            ) from error
    with process.lock:
        restored = Restored(process.identity.incarnation, plan.sent, plan.arrived, plan.ended)
        process.carry_out(process.participant.handle(restored))
        if process.tracer is not None:
            process.tracer.restored(plan.snapshot, plan.sent, plan.received)
        process.mailbox.processed.update(plan.received)
        for sender, parts in frames.items():
            for frame in parts:
                process.mailbox.put(sender, frame)
        for receiver, n in plan.sent.items():
            channel = process.channel_locked(receiver)
            channel.transported = channel.processed = n
