"""What a driver keeps of its channels, because the system may go back to a snapshot and need it again."""

from bisect import bisect_left
from operator import attrgetter
from typing import NamedTuple

from rayshot.format.codec import Frame, cut_frame
from rayshot.runtime.channel.attached_references import Slots, size_of, values_size
from rayshot.runtime.channel.outbox import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX

RETAINED_BYTES_MAX = 256 << 20
"""A driver keeps so many bytes of messages that no durable snapshot holds, plus one batch of each channel. See
`rayshot.runtime.driver.eviction` for what follows."""


class Budget:
    """Counts the bytes that one driver keeps, over all its channels.

    It has no limit where the driver keeps only what has not arrived: credit limits that. If it `is_spent`, no further
    message should be told.
    """

    def __init__(self, *, limited: bool = True) -> None:
        self.used = 0
        self.is_spent = False
        self._limited = limited

    def use(self, size: int) -> None:
        """The driver keeps so many bytes more; fewer, if negative."""
        self.used += size
        self.is_spent = self.is_spent_without(0)

    def is_spent_without(self, freed: int) -> bool:
        """Whether this would be so too if so many bytes were released."""
        return self._limited and self.used - freed > RETAINED_BYTES_MAX


class _Batch(NamedTuple):
    last: int
    size: int
    frame: Frame
    slots: Slots


_LAST = attrgetter("last")


class Retained:
    """The messages of one channel, in the batches in which they left the outbox, the oldest first."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._batches: list[_Batch] = []

    def add(self, frame: Frame, slots: Slots) -> None:
        """Keep the next messages."""
        assert not self._batches or self._batches[-1].last + 1 == frame.first, f"{frame.first} does not come next"
        size = len(frame.body) + size_of(slots)
        self._batches.append(_Batch(frame.last, size, frame, slots))
        self._budget.use(size)

    def release(self, last: int) -> None:
        """Release the batches with no message above number `last`."""
        over = bisect_left(self._batches, last + 1, key=_LAST)
        self._budget.use(-sum(batch.size for batch in self._batches[:over]))
        del self._batches[:over]

    def frame_with(self, number: int) -> Frame | None:
        """The batch with this message; None if it is not kept."""
        index = bisect_left(self._batches, number, key=_LAST)
        if index == len(self._batches) or number < self._batches[index].frame.first:
            return None
        return self._batches[index].frame

    def size_up_to(self, last: int) -> int:
        """The bytes that `release` would free."""
        over = bisect_left(self._batches, last + 1, key=_LAST)
        return sum(batch.size for batch in self._batches[:over])

    def clear(self) -> None:
        """Release everything."""
        if self._batches:
            self.release(self._batches[-1].last)

    def piece(self, first: int, last: int) -> tuple[Frame, Slots]:
        """The messages from number `first` on, not above `last`, as one batch of the usual size; with their slots.

        One message, and what left the outbox as one batch, may be larger.
        """
        start = bisect_left(self._batches, first, key=_LAST)
        bodies: list[bytes | memoryview] = []
        slots: Slots = {}
        count = size = 0
        for index in range(start, len(self._batches)):  # a slice would take time for all that is kept
            batch = self._batches[index]
            part = cut_frame(batch.frame, first, last)
            if part.count <= 0:
                break
            attached = {number: found for number, found in batch.slots.items() if part.first <= number <= part.last}
            part_size = len(part.body) + (size_of(attached) + values_size(attached) if attached else 0)
            if bodies and (size + part_size > BATCH_BYTES_MAX or count + part.count > BATCH_MESSAGES_MAX):
                break
            assert part.first == first + count, f"{first + count} is needed again, and the next that is kept is {part}"
            bodies.append(part.body)
            slots.update(attached)
            count += part.count
            size += part_size
        assert count, f"{first} is needed again and is not kept"
        return Frame(first, count, b"".join(bodies)), slots
