"""What a network does to packets: the kinds that a schedule may run on.

On every one of them packets take any time. Loss is made good by sending again, so that what is lost may come twice.
"""

from collections.abc import Mapping
from typing import NamedTuple


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
