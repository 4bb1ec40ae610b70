"""A message that nobody could process."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One message without effect: `receiver` is who failed to process it, `error` says why, with the traceback.

    `number` counts on the channel from `sender`; 0 where the message never got one.
    """

    receiver: str
    sender: str
    number: int
    method: str
    error: str
