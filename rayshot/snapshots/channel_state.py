"""One channel of a snapshot: its counters, and the messages that were in flight."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from rayshot.errors import Damaged, InconsistentCut
from rayshot.format.codec import Frame, RecordedMessage, cut_frame, read_frames, read_messages
from rayshot.format.entries import Blob, ChannelEntry, RecordedSlots
from rayshot.inert.reader import read_slots
from rayshot.protocol.identity import Channel
from rayshot.snapshots.chunk_reader import ChunkReader


@dataclass(frozen=True)
class ChannelState:
    """The cut of one channel. It reads messages from the store on demand, and never executes them."""

    entry: ChannelEntry
    _reader: ChunkReader = field(repr=False, compare=False)

    @property
    def channel(self) -> Channel:
        """(sender, receiver)."""
        return Channel(self.entry.sender, self.entry.receiver)

    @property
    def sent(self) -> int:
        """The number of the last message sent before the cut."""
        return self.entry.sent

    @property
    def arrived(self) -> int:
        """The number of the last message that had reached the receiver's mailbox."""
        return self.entry.arrived

    @property
    def received(self) -> int:
        """The number of the last message processed before the cut."""
        return self.entry.received

    @property
    def count(self) -> int:
        """How many messages were in flight."""
        return self.sent - self.received

    @property
    def aligned(self) -> bool:
        """Whether the receiver had waited for the sender's marker, so that nothing can be in flight."""
        return self.entry.aligned

    @property
    def size_bytes(self) -> int:
        """Bytes of the messages in flight, before compression."""
        return sum(blob.size for blob in self.entry.all_blobs())

    @property
    def messages(self) -> list[RecordedMessage]:
        """The messages in flight, numbers received+1 to sent; raises Damaged and StoreError."""
        return list(self.iterate())

    def iterate(self) -> Iterator[RecordedMessage]:
        """Internal: as `messages`, one at a time."""
        for frame in self.frames():
            yield from self.decode(frame)

    def decode(self, frame: Frame) -> Iterator[RecordedMessage]:
        """Internal: the messages of one of the `frames`; raises as `messages`."""
        return read_messages(frame, self.slots_of)

    def slots_of(self, number: int) -> Sequence[Any]:
        """Internal: the inert contents of the slots of message `number`. Raises Damaged and StoreError."""
        message = self.with_slots.get(number)
        contents = () if message is None else message.slots
        return read_slots([self._reader.read_parts(slot.content) for slot in contents])

    @cached_property
    def with_slots(self) -> Mapping[int, RecordedSlots]:
        """Internal: the messages that have slots, by number."""
        return {message.number: message for message in self.entry.slots}

    def frames(self, first: int | None = None, last: int | None = None) -> Iterator[Frame]:
        """Internal: the messages `first` .. `last`, or all, undecoded; each frame is in the mailbox or in the outbox.

        It reads a mailbox or outbox only if it holds one of them. Raises InconsistentCut if a frame does not follow
        the frame before, or if the last one does not end where the counters say. Raises Damaged and StoreError.
        """
        first = self.received + 1 if first is None else first
        last = self.sent if last is None else last
        if first <= max(self.arrived, self.received + 1):
            yield from self._between(
                first, last, self._part("mailbox", self.entry.mailbox, self.received, self.arrived)
            )
        if last >= min(self.arrived + 1, self.sent):
            yield from self._between(first, last, self._part("outbox", self.entry.outbox, self.arrived, self.sent))

    def _between(self, first: int, last: int, frames: Iterator[Frame]) -> Iterator[Frame]:
        for frame in frames:
            if frame.first > last < self.sent:
                return
            if frame.last >= first:
                yield cut_frame(frame, first, last)

    def check(self) -> None:
        """Internal: prove the cut equation from the bytes: exactly the messages received+1 .. sent are there, in order.

        Raises InconsistentCut if the numbers do not fit, and BadManifest for a message that cannot be read.
        """
        for frame in self.frames():
            for _ in read_messages(frame):
                pass

    def _part(self, name: str, blob: Blob | None, before: int, last: int) -> Iterator[Frame]:
        """The frames of one blob, whose messages must be before+1 .. last."""
        number = before
        for frame in [] if blob is None else read_frames(self._read(blob, name)):
            if frame.first != number + 1 or frame.last > last:
                raise self._inconsistent(
                    f"its {name} goes on with {frame.first} .. {frame.last} after {number}, up to {last} at most"
                )
            number = frame.last
            yield frame
        if number != last:
            raise self._inconsistent(f"its {name} ends at {number} instead of {last}")

    def _read(self, blob: Blob, name: str) -> bytes:
        try:
            return self._reader.read(blob)
        except Damaged as error:
            raise error.inside(f"the {name} of channel {self.channel}", channel=tuple(self.channel)) from error

    def _inconsistent(self, why: str) -> InconsistentCut:
        return InconsistentCut(
            f"channel {self.channel}: {why}",
            channel=tuple(self.channel),
            sent=self.sent,
            arrived=self.arrived,
            received=self.received,
        )
