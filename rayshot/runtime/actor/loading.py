"""A host becomes an actor from a snapshot: here a restore unpickles it, after the signature was checked."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rayshot.errors import CodeMismatch, OutsideRefused, RayshotError
from rayshot.format.classes_by_value import Names
from rayshot.format.codec import read_frames
from rayshot.format.entries import Blob, CapturedState, Chunk, Outside, RecordedSlots
from rayshot.format.pickling import load_names, load_state
from rayshot.model.dead_letter import DeadLetter
from rayshot.model.port import hold_port
from rayshot.model.recasting import Recasting
from rayshot.model.specification import ActorSpecification
from rayshot.places.kinds import open_store
from rayshot.protocol.events import Restored
from rayshot.protocol.identity import SnapshotId, is_driver, label_of
from rayshot.proving.fault import is_of_outside
from rayshot.runtime.actor.incarnation import Incarnation
from rayshot.runtime.actor.outcomes import Outcomes
from rayshot.runtime.actor.process import ActorProcess
from rayshot.runtime.actor.worker import Worker
from rayshot.runtime.door.plain_handles import knowing_paths
from rayshot.runtime.node.recorded_slots import restored_slots
from rayshot.runtime.wire.host_identity import HostIdentity
from rayshot.snapshots.chunk_reader import ChunkReader


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """One actor's part of a snapshot, taken from a manifest whose signature was checked.

    `folder` is the folder of its chunks in the storage; the chunks are bound to `system`. `snapshot` is the snapshot of
    which this is a part. `state` is None for an actor that is not yet born. `sent` and `arrived` are the counters n of
    its channels, `received` the counters m. `mailbox` holds, per sender, the blobs of the messages in flight to it, in
    order; `slots` holds the objects beside these messages. `ended` are the actors that ended before the cut, also those
    whose channels it does not have, as they are empty.

    `version` is the version of the class that recorded the state. `names` says what replaces moved globals in its
    pickles, as `dump_names` wrote it. `dead_letters` are the dead letters that this actor keeps from now on. `drivers`
    are those that may go on in the new life; all others belong to an earlier one. `programs` has the present driver of
    each program with a name. `outside` is what its class had fixed outside.
    """

    storage: str
    folder: str
    system: str
    snapshot: SnapshotId
    specification: ActorSpecification
    state: CapturedState | None
    chunks: Mapping[str, Chunk]
    sent: Mapping[str, int]
    arrived: Mapping[str, int]
    received: Mapping[str, int]
    mailbox: Mapping[str, tuple[Blob, ...]]
    slots: Mapping[str, tuple[RecordedSlots, ...]]
    ended: frozenset[str]
    version: int
    names: bytes
    dead_letters: tuple[DeadLetter, ...]
    drivers: frozenset[str] = frozenset()
    programs: Mapping[str, str] = field(default_factory=dict)
    outside: Outside | None = None


def load_process(process: ActorProcess, plan: LoadPlan, before: Outcomes | None = None) -> None:
    """Fill a new process; `before` has the outcomes that the actor gave here in the life before.

    Raises Damaged, also for a file that its class had written; StoreError; Incompatible, also for any error that a
    class raises.
    """
    reader = ChunkReader(open_store(plan.storage), plan.system, plan.chunks, plan.folder)
    names, plan = _with_classes_of_today(process.name, plan)
    recasting = Recasting(process.codec, process.name, names, plan.specification if plan.state is None else None)
    frames = {
        sender: [recasting.frame(frame) for blob in blobs for frame in read_frames(reader.read(blob))]
        for sender, blobs in plan.mailbox.items()
    }
    attached = {sender: dict(restored_slots(recorded, reader, recasting)) for sender, recorded in plan.slots.items()}
    if plan.state is not None:
        with knowing_paths(process.cell):
            _load_state(process, plan, plan.state, reader, recasting)
        process.outside.goes_on_from(plan.snapshot, plan.outside, plan.storage, plan.folder)
    for letter in plan.dead_letters:
        process.channels.dead_letters.add(letter)
    with process.runner.lock:
        senders_ended = plan.ended & plan.arrived.keys()
        restored = Restored(process.identity.incarnation, plan.sent, plan.arrived, senders_ended)
        process.runner.handle(restored)
        if process.tracing.tracer is not None:
            process.tracing.tracer.restored(plan.snapshot, plan.sent, plan.received)
        process.channels.mailbox.processed.update(plan.received)
        received = {name: m for name, m in plan.received.items() if is_driver(name)}
        process.outcomes.go_on_from(plan.snapshot, received, before)
        process.cell.owed.forget((process.cell.owed.to_drivers.keys() - plan.drivers) | plan.ended)
        past = [driver for driver in plan.arrived if is_driver(driver) and driver not in plan.drivers]
        for driver in past:
            process.dead_drivers.close(driver)
        process.dead_drivers.forget(
            frozenset(d for d in past if plan.received.get(d, 0) == plan.arrived[d] and not label_of(d))
        )
        process.dead_drivers.supersede(plan.programs)
        for sender, parts in frames.items():
            for frame in parts:
                process.channels.mailbox.put(sender, frame)
        for sender, slots in attached.items():
            process.channels.mailbox.put_slots(sender, slots, 1, plan.arrived[sender])
        for receiver, n in plan.sent.items():
            channel = process.channels.channel_locked(receiver)
            channel.start_behind(n)
        process.channels.loaded = True
        if process.name in process.channels.out:
            process.channels.out[process.name].flush()


def next_incarnation(identity: HostIdentity, before: Incarnation, plan: LoadPlan, host: type) -> Incarnation:
    """The actor as it is in the snapshot, in a new life. It handles nothing before it is resumed.

    Raises as `load_process`; then nothing was changed.
    """
    was = before.process.identity
    process = ActorProcess(replace(identity, name=was.name, loading=True, calls_at_once=was.calls_at_once), host)
    hold_port(process)  # handles in the state must send through it
    try:
        load_process(process, plan, before.process.outcomes)
    finally:
        hold_port(None)
    return Incarnation(process, Worker(process))


def _with_classes_of_today(actor: str, plan: LoadPlan) -> tuple[Names, LoadPlan]:
    """The replacements for moved globals, and the plan with them applied to its class."""
    try:
        names = load_names(plan.names)
        return names, replace(plan, specification=plan.specification.recast(names))
    except (Exception, SystemExit) as error:  # making classes runs their code
        raise _mismatch(actor, _class_name(plan), f"a class cannot be made in its process: {error!r}") from error


def _load_state(
    process: ActorProcess, plan: LoadPlan, captured: CapturedState, reader: ChunkReader, recasting: Recasting
) -> None:
    class_name = _class_name(plan)
    stream = reader.read(captured.stream)
    buffers = [reader.read_writable(buffer) for buffer in captured.buffers]  # writable, as they were
    own = process.cell.become(plan.specification, plan.specification.resolve())
    try:
        state = load_state(stream, buffers, own, recasting.names)
    except (ImportError, AttributeError) as error:
        why = (
            f"the state of class {class_name} holds something that this program does not have: "
            f"{error}; import the module that defines it, or give its new name with "
            "rename_classes={'old.module.Class': NewClass}"
        )
        raise _refusal(process.name, class_name, why, error) from error
    except (Exception, SystemExit) as error:  # unpickling runs code of the values' classes
        why = f"a value in the state of class {class_name} cannot be made again: {error!r}"
        raise _refusal(process.name, class_name, why, error) from error
    try:
        recasting.state(state)
        process.cell.load(state, plan.version)
    except RayshotError:
        raise  # a migration raised it, and its error already says all this
    except (Exception, SystemExit) as error:
        why = f"class {class_name} does not take the recorded state: {error!r}"
        raise _refusal(process.name, class_name, why, error) from error


def _class_name(plan: LoadPlan) -> str:
    return f"{plan.specification.class_module}.{plan.specification.class_name}"


def _refusal(actor: str, class_name: str, why: str, error: BaseException) -> CodeMismatch:
    """OutsideRefused where what failed is not the class: it may do better at the next try."""
    if not is_of_outside(error):
        return _mismatch(actor, class_name, why)
    return OutsideRefused(f"actor {actor!r}: {why}", actor=actor, class_name=class_name)


def _mismatch(actor: str, class_name: str, why: str) -> CodeMismatch:
    return CodeMismatch(f"actor {actor!r}: {why}", actor=actor, class_name=class_name)
