"""Who may begin a snapshot, and whom its markers reach."""

from collections.abc import Iterable, Mapping, Sequence

from rayshot.errors import ActorNotFound, ConfigError
from rayshot.protocol.topology import reached_from

NAMES_SHOWN_MAX = 20


def check_spread(topology: Mapping[str, Sequence[str]], initiators: Sequence[str], *, helped: bool) -> None:
    """Raise ActorNotFound for an initiator that is not there, ConfigError where a snapshot could never end."""
    for name in initiators:
        if name not in topology:
            raise ActorNotFound(f"there is no actor {name!r} to begin a snapshot; there is {some_names(topology)}")
    if helped:
        return
    if not initiators:
        raise ConfigError("helped=False needs an initiator: who begins the snapshot if the coordinator tells nobody?")
    if lost := topology.keys() - reached_from(initiators, topology):
        raise ConfigError(
            f"no channels lead from {some_names(initiators)} to {some_names(lost)}, so markers alone cannot: "
            "let the coordinator help (helped=True), name more initiators, or open channels with system.connect(...)",
            unreachable=sorted(lost),
        )


def some_names(names: Iterable[str]) -> str:
    """The first few in a sentence."""
    known = sorted(names)
    more = len(known) - NAMES_SHOWN_MAX
    return ", ".join(known[:NAMES_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "") or "none"
