"""What a network does to packets: the kinds of networks for schedules.

On all of them packets take any time. Lost packets are sent again, so a packet that was lost may come twice.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Traffic(NamedTuple):
    """A network in one run: one in this many packets is lost or doubled, and one in as many answers lost; 0: never."""

    keeps_order: bool = False
    lost_one_in: int = 0
    duplicated_one_in: int = 0


class Behaviour(NamedTuple):
    """Whether packets of one channel arrive in order, and which faults can happen."""

    keeps_order: bool = False
    duplicates: bool = False
    loses: bool = False


NETWORKS: Mapping[str, Behaviour] = {
    "ordered": Behaviour(keeps_order=True),
    "reordering": Behaviour(),
    "duplicating": Behaviour(duplicates=True),
    "lossy": Behaviour(loses=True),
    "hostile": Behaviour(duplicates=True, loses=True),
}
