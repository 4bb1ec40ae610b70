"""A message that nobody could process. States may hold one, since programs get them: its name stays."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message without effect: `receiver` failed to process it; `error` gives the reason and the traceback.

    `number` is the message's number on the channel from `sender`; 0 if it never got one. `life` is the life of the
    system in which it came, 0 if an older rayshot or the simulator made it.
    """

    receiver: str
    sender: str
    number: int
    method: str
    error: str
    life: int = 0
