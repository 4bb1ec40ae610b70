"""What a driver keeps of its channels, because the system may go back to a snapshot and need it again."""

from bisect import bisect_left
from itertools import islice
from typing import NamedTuple

from rayshot.format.codec import Frame, cut_frame
from rayshot.runtime.channel.beside import Slots, size_of, values_size
from rayshot.runtime.channel.outbox import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX

KEPT_BYTES_MAX = 256 << 20
"""A driver keeps so many bytes of messages that no durable snapshot holds, plus one batch of each channel. See
`rayshot.runtime.life.letting_go` for what follows."""


class Budget:
    """Counts the bytes that one driver keeps, over all its channels.

    It has no limit where the driver keeps only what has not arrived: credit limits that.
    """

    def __init__(self, *, limited: bool = True) -> None:
        self.used = 0
        self.limited = limited

    @property
    def is_spent(self) -> bool:
        """Whether no further message should be told."""
        return self.is_spent_without(0)

    def is_spent_without(self, freed: int) -> bool:
        """Whether this would be so too if so many bytes were let go of."""
        return self.limited and self.used - freed > KEPT_BYTES_MAX


class _Batch(NamedTuple):
    frame: Frame
    slots: Slots

    @property
    def last(self) -> int:
        return self.frame.last

    @property
    def size(self) -> int:
        return len(self.frame.body) + size_of(self.slots)


class Kept:
    """The messages of one channel, in the batches in which they left the outbox, the oldest first."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._batches: list[_Batch] = []

    def add(self, frame: Frame, slots: Slots) -> None:
        """Keep the next messages."""
        assert not self._batches or self._batches[-1].last + 1 == frame.first, f"{frame.first} does not come next"
        batch = _Batch(frame, slots)
        self._batches.append(batch)
        self._budget.used += batch.size

    def release(self, last: int) -> None:
        """Let go of the batches with no message above number `last`."""
        over = bisect_left(self._batches, last + 1, key=lambda batch: batch.last)
        self._budget.used -= sum(batch.size for batch in self._batches[:over])
        del self._batches[:over]

    def size_up_to(self, last: int) -> int:
        """The bytes that `release` would let go of."""
        over = bisect_left(self._batches, last + 1, key=lambda batch: batch.last)
        return sum(batch.size for batch in self._batches[:over])

    def clear(self) -> None:
        """Let go of everything."""
        if self._batches:
            self.release(self._batches[-1].last)

    def piece(self, first: int, last: int) -> tuple[Frame, Slots]:
        """The messages from number `first` on, not above `last`, as one batch of the usual size; with their slots.

        One message, and what left the outbox as one batch, may be larger.
        """
        start = bisect_left(self._batches, first, key=lambda batch: batch.last)
        bodies: list[bytes | memoryview] = []
        slots: Slots = {}
        count = size = 0
        for batch in islice(self._batches, start, None):
            part = cut_frame(batch.frame, first, last)
            if part.count <= 0:
                break
            beside = {number: found for number, found in batch.slots.items() if part.first <= number <= part.last}
            part_size = len(part.body) + (size_of(beside) + values_size(beside) if beside else 0)
            if bodies and (size + part_size > BATCH_BYTES_MAX or count + part.count > BATCH_MESSAGES_MAX):
                break
            assert part.first == first + count, f"{first + count} is needed again, and the next that is kept is {part}"
            bodies.append(part.body)
            slots.update(beside)
            count += part.count
            size += part_size
        assert count, f"{first} is needed again and is not kept"
        return Frame(first, count, b"".join(bodies)), slots
