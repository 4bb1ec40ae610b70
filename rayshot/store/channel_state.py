"""One channel of a snapshot: its counters, and the messages that were in flight."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rayshot.errors import InconsistentCut
from rayshot.format.codec import Frame, RecordedMessage, read_frames, read_messages
from rayshot.format.inert import read_slots
from rayshot.format.manifest import Blob, ChannelEntry
from rayshot.protocol.identity import Channel
from rayshot.store.chunk_reader import ChunkReader
from rayshot.store.state import read_parts


@dataclass(frozen=True, slots=True)
class ChannelState:
    """The cut of one channel. Messages are read from the store when they are asked for, and never executed."""

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
        """The number of the last message that had come to the receiver's mailbox."""
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
        """Whether the receiver had waited for the sender's marker, so that nothing may be in flight."""
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
        """As `messages`, one at a time."""
        captured = {message.number: message for message in self.entry.slots}

        def slots_of(number: int) -> Sequence[Any]:
            contents = [slot.content for slot in captured[number].slots] if number in captured else ()
            return read_slots([read_parts(content, self._reader) for content in contents])

        for frame in self._frames():
            yield from read_messages(frame, slots_of)

    def check(self) -> None:
        """Prove the cut equation from the bytes: exactly the messages received+1 .. sent are there, in order.

        Raises InconsistentCut where the numbers do not fit, and BadManifest for a message that cannot be read.
        """
        for frame in self._frames():
            for _ in read_messages(frame):
                pass

    def _frames(self) -> Iterator[Frame]:
        """The frames of mailbox and outbox, checked to be contiguous and complete."""
        yield from self._part("mailbox", self.entry.mailbox, self.received, self.arrived)
        yield from self._part("outbox", self.entry.outbox, self.arrived, self.sent)

    def _part(self, name: str, blob: Blob | None, before: int, last: int) -> Iterator[Frame]:
        """The frames of one blob, whose messages must be before+1 .. last."""
        number = before
        for frame in [] if blob is None else read_frames(self._reader.read(blob)):
            if frame.first != number + 1 or frame.last > last:
                raise self._inconsistent(
                    f"its {name} goes on with {frame.first} .. {frame.last} after {number}, up to {last} at most"
                )
            number = frame.last
            yield frame
        if number != last:
            raise self._inconsistent(f"its {name} ends at {number} instead of {last}")

    def _inconsistent(self, why: str) -> InconsistentCut:
        return InconsistentCut(
            f"channel {self.channel}: {why}",
            channel=tuple(self.channel),
            sent=self.sent,
            arrived=self.arrived,
            received=self.received,
        )
