"""What a small world is made of, and what was seen in its runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rayshot.errors import ConfigError
from rayshot.protocol.identity import CHANDY_LAMPORT, MODES, RESERVED, check_name
from rayshot.protocol.topology import back_edges

AT_ONCE = frozenset({"transport", "acknowledge", "report", "end"})
"""What need not wait: see SmallCase."""


@dataclass(frozen=True, slots=True)
class SmallCase:
    """What is there to happen.

    `sends`: for each process the receivers of what it sends, in this order, whenever it likes; message after message
    has a greater amount. `relays`: to whom a process sends one message for each that it takes; these must form no
    cycle. `idle`: receivers over channels that carry markers only. `snapshots`, which begin in this order at any time:
    a mode of the coordinator's, or the name of a process that begins one by itself, which its markers alone spread.

    `duplicated` packets may come twice, `aborts` snapshots be given up, `timeouts` processes lose the patience to be
    aligned; each at any time. `at_once` are kinds of events that do not wait, for fewer runs: "transport" takes what
    is sent out of the outbox, "acknowledge", "report" tells the coordinator, "end" tells of a snapshot's end.
    """

    sends: Mapping[str, tuple[str, ...]]
    relays: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    idle: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    snapshots: tuple[str, ...] = (CHANDY_LAMPORT,)
    duplicated: int = 0
    aborts: int = 0
    timeouts: int = 0
    at_once: frozenset[str] = frozenset({"transport", "report", "end"})

    def __post_init__(self) -> None:
        """Refuse what names processes that are not there, and what would have no end."""
        graphs = (self.sends, self.relays, self.idle)
        named = {name for graph in graphs for receivers in graph.values() for name in receivers}
        named |= self.relays.keys() | self.idle.keys() | set(self.snapshots) - set(MODES)
        if unknown := named - self.sends.keys():
            raise ConfigError(f"{sorted(unknown)} are not processes: give each an entry in `sends`, empty if need be")
        for name in self.sends:
            check_name(name, "a process", RESERVED)
        if loop := sorted({channel.sender for channel in back_edges(self.relays)}):
            raise ConfigError(f"`relays` form a cycle through {', '.join(loop)}: its messages would never end")
        for what in ("duplicated", "aborts", "timeouts"):
            count = getattr(self, what)
            if type(count) is not int or count < 0:
                raise ConfigError(f"{what}={count!r}: give a whole number, 0 or more")
        if strange := self.at_once - AT_ONCE:
            raise ConfigError(f"at_once={sorted(strange)}: what can happen at once are {', '.join(sorted(AT_ONCE))}")


class Happening(NamedTuple):
    """One thing that may happen next: a method of the world and its arguments."""

    method: Callable[..., None]
    args: tuple[Any, ...]


@dataclass(slots=True)
class Found:
    """What was seen in any run: `cuts` that were stored, as text, and `facts`, each once."""

    cuts: set[str] = field(default_factory=set)
    facts: set[str] = field(default_factory=set)
