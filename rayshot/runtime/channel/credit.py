"""How many messages of one sender a receiver may have unprocessed: about CREDIT_S of its work.

More would not make it any faster. Less lies in its memory, in a record's channel state, and before what others send it.
"""

from collections import deque

CREDIT_S = 0.1
CREDIT_MESSAGES_MIN = 64
CREDIT_MESSAGES_MAX = 65_536
CREDIT_MESSAGES_START = 1_024
CREDIT_BYTES = 64 << 20
"""A receiver may have unprocessed messages of so many bytes of one sender, and one batch more."""


class Credit:
    """Follows a receiver's pace, by at most a factor of two for each time that it is heard of.

    `messages` may be unprocessed; it lies between CREDIT_MESSAGES_MIN and CREDIT_MESSAGES_MAX.
    """

    __slots__ = ("_left", "_seen_at", "messages")

    def __init__(self) -> None:
        self.messages = CREDIT_MESSAGES_START
        self._left = 0
        self._seen_at = 0.0

    def heard(self, processed: int, left: int, now: float) -> None:
        """So many messages, at least one, were processed since the last time, by a monotonic clock; `left` are not."""
        elapsed_s = now - self._seen_at
        if processed < self._left and elapsed_s > 0:  # it had work all the time: this is its pace
            fitting = processed / elapsed_s * CREDIT_S
            wanted = min(max(fitting, self.messages / 2), self.messages * 2)
        else:  # it may have waited for more
            wanted = self.messages * 2
        self.messages = int(min(max(wanted, CREDIT_MESSAGES_MIN), CREDIT_MESSAGES_MAX))
        self._left = left
        self._seen_at = now


class Unprocessed:
    """What a receiver was sent on one channel and has not processed, as far as its sender has heard: credit in use."""

    __slots__ = ("_batches", "_bytes", "_credit", "processed")

    def __init__(self) -> None:
        self.processed = 0
        self._credit = Credit()
        self._batches: deque[tuple[int, int]] = deque()
        self._bytes = 0

    def add(self, last: int, size: int) -> None:
        """A batch of so many bytes left, with `last` as the number of its last message."""
        self._batches.append((last, size))
        self._bytes += size

    def room(self, transported: int) -> int:
        """How many messages may leave now behind those that did; none above the limit of bytes."""
        return 0 if self._bytes >= CREDIT_BYTES else self.processed + self._credit.messages - transported

    def heard(self, number: int, transported: int, now: float) -> None:
        """The receiver has processed the messages up to `number`."""
        if number > self.processed:
            self._credit.heard(number - self.processed, transported - number, now)
            self.processed = number
            while self._batches and self._batches[0][0] <= number:
                self._bytes -= self._batches.popleft()[1]

    @property
    def middle(self) -> int:
        """The last message of the batch in the middle: when it is processed there is room again."""
        return self._batches[len(self._batches) // 2][0]
