"""The slots of messages in flight: from an actor's record to the storage, and back at a restore.

An actor hands over its values as pickles, whose large buffers are not copied on the way, and its references as they
are. The vault gets the value of each reference once, and stores all of them as it stores states. So one value beside
many messages is read, hashed and stored once.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pickle import PickleBuffer
from typing import TYPE_CHECKING, Any, NamedTuple

from rayshot.errors import StateNotSerializable
from rayshot.format.codec import cut_frame, method_of_encoded, read_frames
from rayshot.format.pickle_bytes import holds_code
from rayshot.format.pickling import CLOUDPICKLE, PICKLE, dump_object, dump_state
from rayshot.format.slots import FAILED, LARGE, LARGE_BYTES, VALUE, Slot, StoredValue
from rayshot.protocol.cut import ChannelCut
from rayshot.runtime.channel.attached_references import Slots, cause_of, dump_error
from rayshot.runtime.door import door
from rayshot.runtime.wire.reports import HandedOver, Recorded

if TYPE_CHECKING:  # what a vault and a restore need; an actor's process starts sooner without it
    from rayshot.format.entries import CapturedState, RecordedSlots
    from rayshot.model.recasting import Recasting
    from rayshot.snapshots.chunk_reader import ChunkReader
    from rayshot.snapshots.chunk_writer import ChunkWriter


class Pickled(NamedTuple):
    """A pickled value; `references` are (position of an empty buffer, the reference whose value belongs there)."""

    stream: Any
    buffers: tuple[Any, ...] = ()
    references: tuple[tuple[int, Any], ...] = ()


def hand_over(slots: Mapping[str, Slots]) -> Recorded:
    """Pickle slots as they are now. Raises StateNotSerializable for a value that cannot be pickled."""
    return {
        peer: {number: tuple(map(_handed_over, of_message)) for number, of_message in attached.items()}
        for peer, attached in slots.items()
    }


def _handed_over(slot: Slot) -> HandedOver:
    kind = VALUE if slot.kind == LARGE else slot.kind
    content, reference, in_parts = slot.content, slot.reference, slot.kind == LARGE
    if isinstance(slot.content, StoredValue):
        content, reference, in_parts = *slot.content, True
    if reference is not None:
        return HandedOver(kind, reference, slot.where, in_parts)
    if in_parts:
        return HandedOver(kind, _from_parts(content), slot.where)
    if slot.kind == FAILED:
        return HandedOver(kind, Pickled(content), slot.where)
    return HandedOver(kind, _pickled(content, slot.where), slot.where)


def _from_parts(parts: Sequence[Any]) -> Pickled:
    stream, *buffers = map(_as_array, parts)
    return Pickled(stream, tuple(buffers))


def _pickled(value: object, where: str) -> Pickled:
    pickled = dump_state(value, where)
    references = tuple((found.position, found.reference) for found in pickled.references)
    return Pickled(pickled.stream, tuple(map(_as_array, pickled.buffers)), references)


def _as_array(part: Any) -> Any:
    """The bytes as an array: Ray does not copy it on the way, and a process in between can send it on.

    Ray would not take its own buffers again from such a process.
    """
    import numpy as np  # noqa: PLC0415 - see shared_memory.py

    return np.frombuffer(part, np.uint8)


class _LostError(Exception):
    """An object failed or is lost."""

    def __init__(self, error: Exception) -> None:
        super().__init__(repr(error))
        self.error = error


class SlotWriter:
    """Writes slots together with a vault's other parts of a snapshot. Their objects may get ready until `deadline`."""

    def __init__(self, writer: "ChunkWriter", deadline: float) -> None:
        self._writer = writer
        self._deadline = deadline
        self._values: dict[Any, Pickled] = {}
        self._tickets: dict[tuple[int, int], tuple[int, Any]] = {}

    def add(
        self, channel: ChannelCut, frames: bytes, slots: Mapping[int, tuple[HandedOver, ...]], first: int, last: int
    ) -> list[tuple[int, list[tuple[Any, Any, list[int]]]]]:
        """Write the slots of the messages `first` .. `last`. Returns (number, [(kind, codec, tickets), ...]) of each.

        Raises StateNotSerializable for an object that is not ready in time; StoreError.
        """
        added = []
        for number in sorted(slots):
            if first <= number <= last:
                say = partial(_name, channel, number, frames)
                added.append((number, [self._write(slot, say) for slot in slots[number]]))
        return added

    def _write(self, slot: HandedOver, say: Callable[[str], str]) -> tuple[Any, Any, list[int]]:
        kind, content, where, in_parts = slot
        try:
            if not isinstance(content, Pickled):
                if content not in self._values:
                    found = self._get(content, say, where)
                    self._values[content] = _from_parts(found) if in_parts else _pickled(found, where)
                content = self._values[content]
            buffers = list(content.buffers)
            get = partial(self._get, say=say, where=where)
            for position, reference in content.references:
                buffers[position] = dump_object(get(reference), get)
        except _LostError as lost:  # lost for ever: the handler of the message will get the error
            kind, content, buffers = FAILED, Pickled(dump_error(lost.error)), []
        codec = CLOUDPICKLE if holds_code(bytes(content.stream)) else PICKLE
        return kind, codec, [self._ticket(part) for part in (content.stream, *buffers)]

    def _ticket(self, part: Any) -> int:
        """The ticket of a part. A part that is beside several messages is written only once."""
        import numpy as np  # noqa: PLC0415 - see shared_memory.py

        view = memoryview(part).cast("B")
        address = np.frombuffer(view, np.uint8).__array_interface__["data"][0] if view.nbytes else 0
        if (address, view.nbytes) not in self._tickets:
            self._tickets[address, view.nbytes] = self._writer.add(view), view  # kept, so its address stays its own
        return self._tickets[address, view.nbytes][0]

    def _get(self, reference: Any, say: Callable[[str], str], where: str) -> Any:
        try:
            return door.get(reference, timeout=max(0.0, self._deadline - time.monotonic()))
        except door.TimedOut as error:
            raise StateNotSerializable(f"{say(where)} was not ready before the snapshot's deadline") from error
        except Exception as error:  # the error of a task can have any class
            raise _LostError(cause_of(error)) from error


def _name(channel: ChannelCut, number: int, frames: bytes, where: str) -> str:
    """A text that names a slot."""
    frame = next(frame for frame in read_frames(frames) if frame.first <= number <= frame.last)
    method = method_of_encoded(bytes(cut_frame(frame, number, number).body))
    called = f" (.{method})" if method else ""
    return f"{channel.channel.sender} -> {channel.channel.receiver}, message {number}{called}: {where}"


def restored_slots(
    recorded: "Iterable[RecordedSlots]", reader: "ChunkReader", recasting: "Recasting"
) -> Iterator[tuple[int, tuple[Slot, ...]]]:
    """The slots of messages as their receiver holds them after a restore, by number.

    Everything is read now, because the snapshot may be gone when a message is handled. Large values are put into Ray's
    object store, once each; it moves them to disk if it needs the room. Raises Damaged, StoreError, and the errors of
    `recasting`.
    """
    put: dict[CapturedState, StoredValue] = {}
    for message in recorded:
        for slot in message.slots:
            if slot.content not in put:
                content = slot.content
                parts = [reader.read(content.stream), *map(reader.read_writable, content.buffers)]
                put[content] = _stored(recasting.parts(message.number, parts))
        yield message.number, tuple(Slot(slot.kind, content=put[slot.content]) for slot in message.slots)


def _stored(parts: Sequence[Any]) -> StoredValue:
    if sum(memoryview(part).nbytes for part in parts) <= LARGE_BYTES:
        return StoredValue(parts)
    return StoredValue(None, door.put([*map(PickleBuffer, parts)]))
