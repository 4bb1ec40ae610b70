"""The machines that a world runs."""

from collections.abc import Callable
from dataclasses import dataclass

from rayshot.protocol.collector import Collector
from rayshot.protocol.driver import Driver
from rayshot.protocol.participant import Participant
from rayshot.protocol.recovery import Recovery


@dataclass(frozen=True, slots=True)
class Machines:
    """The machines that a world runs: the real ones, or wrong versions of them."""

    participant: Callable[[str, int], Participant] = Participant
    collector: Callable[..., Collector] = Collector
    driver: Callable[[str, int], Driver] = Driver
    recovery: Callable[..., Recovery] = Recovery
