"""The credit: how many messages of one sender a receiver may have unprocessed, about CREDIT_S seconds of its work.

More credit would not make it faster. With less, fewer messages are in its memory, in the channel state of a record, and
in front of the messages of other senders.
"""

from collections import deque

CREDIT_S = 0.1
CREDIT_MESSAGES_MIN = 64
CREDIT_MESSAGES_MAX = 65_536
CREDIT_MESSAGES_START = 1_024
CREDIT_BYTES = 64 << 20
"""A receiver may have so many bytes of unprocessed messages of one sender, plus one batch."""


class Credit:
    """Follows a receiver's pace; each news from the receiver changes it by at most a factor of two.

    So many `messages` may be unprocessed: between CREDIT_MESSAGES_MIN and CREDIT_MESSAGES_MAX.
    """

    __slots__ = ("_left", "_seen_at", "messages")

    def __init__(self) -> None:
        self.messages = CREDIT_MESSAGES_START
        self._left = 0
        self._seen_at = 0.0

    def heard(self, processed: int, left: int, now: float) -> None:
        """The receiver `processed` so many messages, at least one, since the last call; `left` are not yet processed.

        `now` is the time by a monotonic clock.
        """
        elapsed_s = now - self._seen_at
        if processed < self._left and elapsed_s > 0:  # the receiver had work all the time, so this is its pace
            fitting = processed / elapsed_s * CREDIT_S
            wanted = min(max(fitting, self.messages / 2), self.messages * 2)
        else:  # the receiver may have waited for more messages
            wanted = self.messages * 2
        self.messages = int(min(max(wanted, CREDIT_MESSAGES_MIN), CREDIT_MESSAGES_MAX))
        self._left = left
        self._seen_at = now


class Unprocessed:
    """The credit in use on one channel: the messages that the receiver has not processed, as the sender knows it."""

    __slots__ = ("_batches", "_bytes", "_credit", "processed")

    def __init__(self) -> None:
        self.processed = 0
        self._credit = Credit()
        self._batches: deque[tuple[int, int]] = deque()
        self._bytes = 0

    def add(self, last: int, size: int) -> None:
        """A batch of `size` bytes left; `last` is the number of its last message."""
        self._batches.append((last, size))
        self._bytes += size

    def room(self, transported: int) -> int:
        """How many messages may leave now after the `transported` ones; 0 if CREDIT_BYTES are in use."""
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
        """The last message of the middle batch: when the receiver has processed it, there is room again."""
        return self._batches[len(self._batches) // 2][0]
