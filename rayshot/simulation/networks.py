"""What a network does to packets: the kinds that a schedule may run on.

On every one of them packets take any time. Loss is made good by sending again, so that what is lost may come twice.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Traffic(NamedTuple):
    """A network as it is in one run: of how many packets, and answers, one is lost; 0 for never."""

    keeps_order: bool = False
    lost_one_in: int = 0
    duplicated_one_in: int = 0


class Behaviour(NamedTuple):
    """Whether packets of one channel arrive in their order, and what else may happen to them."""

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
