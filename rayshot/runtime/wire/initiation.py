"""Which actors may begin a snapshot, and which actors its markers reach."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, get_args

from rayshot.errors import ActorNotFound, ConfigError
from rayshot.format.suggestion import did_you_mean
from rayshot.protocol.topology import reached_from

NAMES_SHOWN_MAX = 20
Spread = Literal["coordinator", "markers"]
"""How actors learn of a snapshot that other actors began: from the coordinator, or only from markers."""


def check_spread(topology: Mapping[str, Sequence[str]], initiators: Sequence[str], spread: Spread) -> None:
    """Raise ActorNotFound for an initiator that does not exist, ConfigError if the snapshot could never end.

    Raises ConfigError also for a `spread` that is not valid.
    """
    if spread not in get_args(Spread):
        raise ConfigError(f"spread={spread!r}: say 'coordinator', which tells all actors of the snapshot, or 'markers'")
    for name in initiators:
        if name not in topology:
            there = f"{some_names(topology)}{did_you_mean(name, topology)}"
            raise ActorNotFound(f"there is no actor {name!r} to begin a snapshot; there is {there}")
    if spread == "coordinator":
        return
    if not initiators:
        raise ConfigError("spread='markers' needs an initiator: an actor with which the snapshot begins")
    if lost := topology.keys() - reached_from(initiators, topology):
        raise ConfigError(
            f"no channels lead from {some_names(initiators)} to {some_names(lost)}, so markers alone cannot: "
            "let the coordinator tell them (spread='coordinator'), name more initiators, or open channels with "
            "system.connect(...)",
            unreachable=sorted(lost),
        )


def some_names(names: Iterable[str]) -> str:
    """A text with the first NAMES_SHOWN_MAX names and the number of further ones; "none" for no names."""
    known = sorted(names)
    more = len(known) - NAMES_SHOWN_MAX
    return ", ".join(known[:NAMES_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "") or "none"
