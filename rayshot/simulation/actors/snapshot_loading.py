"""Makes a stored snapshot loadable for a world. Loading executes code, so the signature is checked before."""

from collections.abc import Sequence

from rayshot.errors import BadManifest, CodeMismatch
from rayshot.format.classes_by_value import Names
from rayshot.format.codec import read_frames, split_frame
from rayshot.format.entries import ActorEntry, RecordedSlot
from rayshot.format.pickled_state import PickledState
from rayshot.format.pickling import load_state, put_again
from rayshot.format.slots import Slot, SlottedMessage, StoredValue
from rayshot.keys.finder import find_trusted_keys
from rayshot.model.cell import Cell
from rayshot.model.fit import RenamedClasses, SkipMissing, fit, undeliverable
from rayshot.model.recasting import Recasting
from rayshot.model.specification import ActorSpecification
from rayshot.protocol.identity import Channel
from rayshot.simulation.bodies.world_snapshot import RecordedActor, RecordedChannel, WorldSnapshot
from rayshot.snapshots.channel_state import ChannelState
from rayshot.snapshots.snapshot import Snapshot, check_trust

_PUT_AGAIN = put_again.__name__.encode()
"""The name that a pickle uses in place of an ObjectRef."""


def read_stored(
    snapshot: Snapshot | WorldSnapshot,
    rename_classes: RenamedClasses | None = None,
    *,
    allow_unsigned: bool = False,
    skip_missing_classes: SkipMissing = False,
) -> WorldSnapshot:
    """All parts of a snapshot that a world needs, read and checked; nothing of them is executed yet.

    Raises what `rayshot.restore` raises before it starts anything: Untrusted, Damaged, Incompatible. A WorldSnapshot
    comes from this process, so it is trusted.
    """
    if isinstance(snapshot, WorldSnapshot):
        return snapshot
    check_trust(snapshot, find_trusted_keys(), allow_unsigned=allow_unsigned)
    fitting = fit(snapshot.manifest, snapshot.read, rename_classes, skip_missing_classes=skip_missing_classes)
    manifest = fitting.manifest
    actors = {actor.name: _actor(snapshot, actor, fitting.specifications[actor.name]) for actor in manifest.actors}
    there = [snapshot.channel(channel.sender, channel.receiver) for channel in manifest.channels]
    channels = {state.channel: read_channel(snapshot, state) for state in there}
    return WorldSnapshot(
        snapshot.id,
        snapshot.system,
        actors,
        channels,
        manifest.ended,
        names=fitting.names,
        dead_letters=undeliverable(fitting, snapshot.read),
    )


def _actor(snapshot: Snapshot, actor: ActorEntry, specification: ActorSpecification) -> RecordedActor:
    if actor.state is None:
        return RecordedActor(specification, None)
    buffers = tuple(memoryview(snapshot.read(buffer)) for buffer in actor.state.buffers)
    stream = snapshot.read(actor.state.stream)
    return RecordedActor(specification, PickledState(actor.state.codec, stream, buffers), actor.version)


def read_channel(snapshot: Snapshot, state: ChannelState) -> RecordedChannel:
    """The messages in flight on a channel, checked and not executed. Raises Damaged and StoreError."""
    state.check()
    frames = [frame for blob in state.entry.blobs() for frame in read_frames(snapshot.read(blob))]
    slots = {message.number: message.slots for message in state.entry.slots}
    bodies = tuple(
        _with_slots(snapshot, message, slots[number]) if number in slots else message
        for frame in frames
        for number, message in enumerate(split_frame(frame), frame.first)
    )
    return RecordedChannel(Channel(*state.channel), state.sent, state.received, bodies, state.entry.owed)


def _with_slots(snapshot: Snapshot, message: bytes, recorded: Sequence[RecordedSlot]) -> SlottedMessage:
    parts = [[snapshot.read(blob) for blob in (slot.content.stream, *slot.content.buffers)] for slot in recorded]
    slots = (Slot(slot.kind, content=StoredValue(of)) for slot, of in zip(recorded, parts, strict=True))
    return SlottedMessage.of(message, tuple(slots))


def load_cell(cell: Cell, recorded: RecordedActor, names: Names) -> None:
    """Unpickle an actor's state into a live instance, without its constructor. Raises Incompatible and BadState."""
    if recorded.state is None or recorded.specification is None:
        return  # the actor is not born yet
    specification = recorded.specification.recast(names)
    class_name = f"{specification.class_module}.{specification.class_name}"
    user_class = specification.resolve()
    try:
        buffers = [bytearray(buffer) for buffer in recorded.state.buffers]  # writable, as they were before
        state = load_state(recorded.state.stream, buffers, cell.become(specification, user_class), names)
    except (ImportError, AttributeError) as error:
        if _PUT_AGAIN in recorded.state.stream and not isinstance(error, ImportError):
            raise CodeMismatch(
                f"actor {cell.name!r}: its state holds ObjectRefs, which exist on Ray only: restore it there, or keep "
                "the values themselves in the state",
                actor=cell.name,
            ) from error
        raise CodeMismatch(
            f"actor {cell.name!r}: the state of class {class_name} holds something that this program has not: {error}; "
            "import what defines it",
            actor=cell.name,
            class_name=class_name,
        ) from error
    if not isinstance(state, dict):
        raise BadManifest(f"the recorded state of actor {cell.name!r} is not what an actor writes", actor=cell.name)
    Recasting(cell.port.codec, cell.name, names, None).state(state)
    try:
        cell.load(state, recorded.version or specification.version)
    except (AttributeError, TypeError, KeyError) as error:
        raise CodeMismatch(
            f"actor {cell.name!r}: class {class_name} does not take the recorded state: {error!r}", actor=cell.name
        ) from error
