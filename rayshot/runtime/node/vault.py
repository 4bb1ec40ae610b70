"""The vault of a node: it writes the records of its node's actors into the storage.

It is a separate process, so writing takes no time from the actors, and their records can still be written after they
have died. Until then the records are in shared memory: a small state as a Ray object, a large one as the spill file
that a child of the actor wrote. On the coordinator's node it also guards the coordinator, see `guard`.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from rayshot.errors import RayshotError, StateNotSerializable, StoreUnavailable
from rayshot.format.codec import creation_of, cut_frame, pack_frames, read_frames
from rayshot.format.entries import Blob, CapturedState, Chunk, RecordedSlot, RecordedSlots
from rayshot.format.pickling import dump_object
from rayshot.keys.encryption import DataKey
from rayshot.model.specification import ActorSpecification
from rayshot.places.kinds import open_store
from rayshot.protocol.identity import SnapshotId
from rayshot.proving.proofs import StateToProve
from rayshot.runtime.door import door, here
from rayshot.runtime.door.failpoints import failpoint
from rayshot.runtime.door.references import know_references
from rayshot.runtime.door.sigterm import die_at_sigterm
from rayshot.runtime.node.capture import read_spill, spill_folder, sweep_spills
from rayshot.runtime.node.guard import Guard
from rayshot.runtime.node.proofs import NodeProofs
from rayshot.runtime.node.recorded_slots import SlotWriter
from rayshot.runtime.node.whereabouts import find_surroundings
from rayshot.runtime.wire.keyring import Keyring
from rayshot.runtime.wire.reports import Body, RecordBody, unpack_body
from rayshot.runtime.wire.restored_fit import RestoredFit
from rayshot.runtime.wire.stored_cut import PackedStored, Stored, StoredActor, VaultShare, pack_stored, unpack_share
from rayshot.snapshots.chunk_writer import ChunkWriter

if TYPE_CHECKING:
    from rayshot.protocol.identity import Channel

DYING_S, DYING_POLL_S = 5.0, 0.02
"""Seconds that a process may still live after Ray has reported its death, and seconds between two looks."""


class Vault:
    """A Ray actor. The coordinator's node has one, and each node with actors, through all lives of a system."""

    def __init__(self, system: str, storage: str) -> None:
        die_at_sigterm()
        self._system = system
        self._store = open_store(storage)
        self._keyring: Keyring | None = None
        self._fitted: RestoredFit | None = None
        self._ended = threading.Event()
        self._lives_over = 0
        self._proofs = NodeProofs(lambda actor, life: find_surroundings(system, life, actor))
        know_references()
        sweep_spills(spill_folder())
        self._guard = Guard(system)
        self._guard.start()

    @door.method("store")
    def store(
        self,
        packed_share: bytes,
        intent: str,
        reuse: dict[str, Chunk],
        timeout_s: float,
        traces: Mapping[str, bytes],
        data_key: DataKey | None,
        *bodies: Body,
    ) -> PackedStored:
        """Write the parts of records that belong to the cut; `packed_share` is this vault's share of the cut.

        Returns where the parts are stored. `traces` are segments of actors that ended, which no record holds.
        `data_key` encrypts all that is written.

        Raises StoreError, and StateNotSerializable if an object to which a state refers is not available, or if a state
        does not load.
        """
        deadline = time.monotonic() + timeout_s
        life = SnapshotId.parse(intent).incarnation

        def check_life() -> None:
            if life <= self._lives_over:
                raise StoreUnavailable(f"life {life} of {self._system!r} is over: its snapshots are stored no more")

        check_life()
        held, files = {}, dict[str, int]()
        with ExitStack() as closing:
            for body in map(unpack_body, bodies):
                if (file := _open_spill(body)) is not None:
                    files[body.process] = file
                    closing.callback(os.close, file)
                held[body.process] = body, _parts_of(body)
            share = unpack_share(packed_share)
            for name in held.keys() & share.recorded:
                _fetch_objects(*held[name], deadline)
            proofs = self._proofs.begin(life, _recorded_states(held, share, files))
            closing.callback(proofs.drop)
            writer = ChunkWriter(self._store, self._system, intent, reuse, data_key)
            stored = _write(writer, held, share, traces, SlotWriter(writer, deadline), check_life)
            return pack_stored(replace(stored, proofs=proofs.finish((deadline - time.monotonic()) / 2)))

    @door.method("control")
    def give_up_lives(self, last: int) -> None:
        """The system went back to a snapshot: store nothing more of the lives up to `last`, as nothing can commit it.

        What is being stored stops before the next actor: otherwise the snapshots of the next life would wait for it.
        """
        self._lives_over = last

    @door.method("control")
    def hold_keys(self, keyring: Keyring) -> None:
        """Hold the system's keys in memory, for a coordinator that is started again."""
        self._keyring = keyring

    @door.method("control")
    def keys(self) -> Keyring | None:
        """The keys that `hold_keys` has given; None if it has given none."""
        return self._keyring

    @door.method("control")
    def hold_fit(self, fitted: RestoredFit | None) -> None:
        """Hold in memory how a snapshot fits, for a coordinator that is started again; None: it is needed no more."""
        self._fitted = fitted

    @door.method("control")
    def fit(self) -> RestoredFit | None:
        """What `hold_fit` has given."""
        return self._fitted

    @door.method("store")
    def sweep(self) -> None:
        """A snapshot was aborted, maybe because an actor died: remove the spills of dead actors."""
        sweep_spills(spill_folder())

    @door.method("control")
    def clean_up(self) -> None:
        """The system is shut down: remove the spills of its actors.

        Ray says that an actor is dead when it has told it to end, so its process may still live for a moment. Any
        living process with a spill counts as such a process.
        """
        deadline = time.monotonic() + DYING_S
        while sweep_spills(spill_folder()) and time.monotonic() < deadline:
            time.sleep(DYING_POLL_S)

    @door.method("hello")
    def hello(self) -> None:
        """Answers at once, whatever else is done here."""

    @door.method("watch")
    def watch(self) -> None:
        """Stays pending while this process lives."""
        self._ended.wait()


Held = Mapping[str, tuple[RecordBody, list[memoryview]]]
"""By actor, the bytes that belong to its record, and the parts of its state."""


def _recorded_states(held: Held, share: VaultShare, files: Mapping[str, int]) -> Iterator[StateToProve]:
    for name in sorted(held.keys() & share.recorded):
        body, parts = held[name]
        if parts and body.specification is not None:
            yield StateToProve(name, body.specification, parts, files.get(name))


def _write(
    writer: ChunkWriter,
    held: Held,
    share: VaultShare,
    last_traces: Mapping[str, bytes],
    slot_writer: SlotWriter,
    check_life: Callable[[], None],
) -> Stored:
    """Write all parts; small ones are gathered. Until all is written the blobs are not known, so parts have tickets."""
    states: dict[str, list[int]] = {}
    outboxes: dict[Channel, int] = {}
    mailboxes: dict[Channel, int] = {}
    attached: dict[Channel, list[Any]] = {}
    specifications: dict[str, ActorSpecification] = {}
    read_specification = cache(ActorSpecification.unpack)  # actors of one class share it
    for name, (body, parts) in held.items():
        check_life()
        states[name] = [writer.add(part) for part in parts]
        failpoint("mid_upload")
        if body.specification is not None:
            specifications[name] = read_specification(body.specification)
    for channel_cut in share.channels:
        channel = channel_cut.channel
        if channel_cut.arrived > channel_cut.received and channel.receiver in held:
            frames = held[channel.receiver][0].mailbox[channel.sender]
            mailboxes[channel] = writer.add(frames)
            slots = held[channel.receiver][0].mailbox_slots.get(channel.sender, {})
            attached[channel] = slot_writer.add(
                channel_cut, frames, slots, channel_cut.received + 1, channel_cut.arrived
            )
            if channel_cut.received == 0:
                _note_creation(frames, channel.receiver, specifications)
        if channel_cut.sent > channel_cut.arrived and channel.sender in held:
            frames = _behind(held[channel.sender][0].outbox[channel.receiver], channel_cut.arrived)
            outboxes[channel] = writer.add(frames)
            slots = held[channel.sender][0].outbox_slots.get(channel.receiver, {})
            added = slot_writer.add(channel_cut, frames, slots, channel_cut.arrived + 1, channel_cut.sent)
            attached[channel] = attached.get(channel, []) + added
            if channel_cut.arrived == 0:
                _note_creation(frames, channel.receiver, specifications)
    members = share.recorded | share.unborn  # other actors recorded too, but came into being after the cut
    segments = {name: b.trace for name, (b, _) in held.items() if name in members and b.trace}
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
        state, shapes = None, b""
        if tickets:
            captured = held[name][0].state
            assert captured is not None
            state = CapturedState(captured.codec, blobs[tickets[0]], tuple(blobs[ticket] for ticket in tickets[1:]))
            shapes = captured.shapes
        actors[name] = StoredActor(specification, blobs[classes[name]] if name in classes else None, state, shapes)
    return Stored(
        here.address(),
        actors,
        {channel: blobs[ticket] for channel, ticket in outboxes.items()},
        {channel: blobs[ticket] for channel, ticket in mailboxes.items()},
        {
            channel: tuple(_recorded(number, slots, blobs) for number, slots in added)
            for channel, added in attached.items()
            if added
        },
        {name: blobs[ticket] for name, ticket in traces.items()},
        tuple(chunks),
        writer.written_bytes,
    )


def _recorded(number: int, slots: Sequence[Any], blobs: Sequence[Blob]) -> RecordedSlots:
    """Where the slots of a message are stored."""
    return RecordedSlots(
        number,
        tuple(
            RecordedSlot(kind, CapturedState(codec, blobs[stream], tuple(blobs[buffer] for buffer in buffers)))
            for kind, codec, (stream, *buffers) in slots
        ),
    )


def _fetch_objects(body: RecordBody, parts: list[memoryview], deadline: float) -> None:
    """Put the values of the state's ObjectRefs into the empty buffers that are kept for them."""
    for found in body.state.references if body.state else ():

        def get(reference: Any, path: str = found.path) -> Any:
            try:
                return door.get(reference, timeout=max(0.0, deadline - time.monotonic()))
            except door.TimedOut as error:
                message = f"the object of {path} was not ready before the snapshot's deadline"
                raise StateNotSerializable(message, path=path) from error
            except door.CallFailed as error:
                message = f"the object of {path} cannot be read: {str(error).splitlines()[0]}"
                raise StateNotSerializable(message, path=path) from error

        try:
            parts[1 + found.position] = memoryview(dump_object(get(found.reference), get))
        except RayshotError:
            raise
        except Exception as error:  # the value's class may raise anything when it is pickled
            message = f"the object of {found.path} cannot be stored: {error}"
            raise StateNotSerializable(message, path=found.path) from error


def _behind(frames: bytes, arrived: int) -> bytes:
    """The messages above the number `arrived`: the receiver already had the earlier ones when it recorded."""
    parts = read_frames(frames)
    first = next(parts)
    if first.first > arrived:
        return frames
    return pack_frames(part for frame in (first, *parts) if (part := cut_frame(frame, arrived + 1, frame.last)).count)


def _open_spill(body: RecordBody) -> int | None:
    """The file of a spilled state, before its name is removed."""
    if body.state is None or body.state.spill is None:
        return None
    try:
        return os.open(body.state.spill, os.O_RDONLY)
    except OSError:
        return None  # reading its parts says why


def _parts_of(body: RecordBody) -> list[memoryview]:
    """The parts of a state. For a spilled state, this removes the file."""
    if body.state is None:
        return []
    if body.state.spill is not None:
        try:
            return read_spill(body.state)
        except OSError as error:
            raise StoreUnavailable(f"the captured state of {body.process!r} cannot be read: {error}") from error
    return [memoryview(part) for part in body.state.parts]


def _note_creation(frames: bytes, receiver: str, creations: dict[str, ActorSpecification]) -> None:
    """Note the actor that `frames` create, if any. `frames` begin with message 1; only this one can be a creation."""
    frame = next(read_frames(frames), None)
    specification = None if frame is None else creation_of(frame)
    if specification is not None:
        creations[receiver] = ActorSpecification.unpack(specification)
