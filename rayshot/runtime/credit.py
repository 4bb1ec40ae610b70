"""How many messages of one sender a receiver may have unprocessed: about CREDIT_S of its work.

More would not make it any faster. Less lies in its memory, in a record's channel state, and before what others send it.
"""

CREDIT_S = 0.1
CREDIT_MESSAGES_MIN = 64
CREDIT_MESSAGES_MAX = 65_536
CREDIT_MESSAGES_START = 1_024


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
