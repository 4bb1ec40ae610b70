"""What an exercise is made of - a topology and a script of events - and its answer; what of it cannot be."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from rayshot.errors import ConfigError
from rayshot.protocol.identity import RESERVED, Channel, check_name
from rayshot.protocol.topology import reached_from

NAMES_SHOWN_MAX = 20


@dataclass(frozen=True, slots=True)
class Topology:
    """Processes with the tokens that they have at first, 0 or more, and directed channels (sender, receiver).

    Names are those that actors may have. Raises ConfigError on any other name, on a channel between processes that are
    not there, from a process to itself, or given twice: what a process sends itself never leaves it.
    """

    processes: Mapping[str, int]
    channels: Sequence[tuple[str, str]]

    def __post_init__(self) -> None:
        for name, tokens in self.processes.items():
            check_process(name, tokens)
        known: set[tuple[str, str]] = set()
        for sender, receiver in self.channels:
            check_channel(sender, receiver, self.processes, known)
            known.add((sender, receiver))

    @property
    def receivers(self) -> dict[str, tuple[str, ...]]:
        """To whom the channels of each process lead; processes and receivers in the order of names."""
        known: dict[str, list[str]] = {name: [] for name in sorted(self.processes)}
        for sender, receiver in sorted(self.channels):
            known[sender].append(receiver)
        return {name: tuple(receivers) for name, receivers in known.items()}


@dataclass(frozen=True, slots=True)
class SendTokens:
    """`send SENDER RECEIVER TOKENS`: the tokens, 0 or more, leave the sender at once. `line`: its place in a text."""

    sender: str
    receiver: str
    tokens: int
    line: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """`snapshot INITIATOR`: the initiator records at once. `line`: its place in a text."""

    initiator: str
    line: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Tick:
    """`tick COUNT`: time goes on by `count`, 0 or more. `line`: its place in a text."""

    count: int = 1
    line: int | None = field(default=None, compare=False)


ExerciseEvent = SendTokens | TakeSnapshot | Tick


@dataclass(frozen=True, slots=True)
class RecordedSnapshot:
    """What one snapshot recorded. `number` counts the snapshots of an exercise from 0, in the order of the commands.

    `tokens` holds the state of every process, `messages` the tokens of each message in flight on every channel of the
    topology, in the order of sending; both are sorted by name.
    """

    number: int
    initiator: str
    tokens: Mapping[str, int]
    messages: Mapping[Channel, tuple[int, ...]]

    @property
    def total(self) -> int:
        """All tokens of the snapshot, in states and in flight: as many as the exercise began with."""
        return sum(self.tokens.values()) + sum(map(sum, self.messages.values()))


@contextmanager
def placed(**place: int) -> Iterator[None]:
    """Begin each ConfigError from within with its place, such as line=3, and add this to the evidence."""
    try:
        yield
    except ConfigError as error:
        where = ", ".join(f"{what} {number}" for what, number in place.items())
        raise ConfigError(f"{where}: {error.message}", **{**error.evidence, **place}) from error


def check_process(name: str, tokens: int) -> None:
    """Raise ConfigError unless this can be a process of an exercise."""
    check_name(name, "a process", reserved=RESERVED)
    check_count(tokens, f"{name} cannot have {tokens!r} tokens at first")


def check_channel(sender: str, receiver: str, processes: Collection[str], known: Collection[tuple[str, str]]) -> None:
    """Raise ConfigError unless this can be a channel between these `processes`, beside the channels `known`."""
    _check_known((sender, receiver), processes)
    if sender == receiver:
        raise ConfigError(f"a channel from {sender} to itself is none: what it sends itself never leaves it")
    if (sender, receiver) in known:
        raise ConfigError(f"the channel {sender} -> {receiver} is there already: give it once")


def check_event(event: object, receivers: Mapping[str, Sequence[str]]) -> None:
    """Raise ConfigError unless this is an event for processes with these `receivers`, however many tokens they have."""
    match event:
        case SendTokens(sender, receiver, tokens):
            _check_known((sender, receiver), receivers)
            if receiver not in receivers[sender]:
                raise ConfigError(
                    f"there is no channel {sender} -> {receiver}; those of {sender} lead to {_some(receivers[sender])}",
                    sender=sender,
                    receiver=receiver,
                )
            check_count(tokens, f"{sender} cannot send {tokens!r} tokens")
        case TakeSnapshot(initiator):
            _check_known((initiator,), receivers)
            if lost := sorted(receivers.keys() - reached_from((initiator,), receivers)):
                raise ConfigError(
                    f"markers from {initiator} never reach {_some(lost)}: add channels, or let another process begin",
                    initiator=initiator,
                    unreachable=lost,
                )
        case Tick(count):
            check_count(count, f"time cannot go on by {count!r} ticks")
        case _:
            raise ConfigError(f"{event!r} is not an event: give SendTokens, TakeSnapshot or Tick")


def _check_known(names: Iterable[object], processes: Collection[str]) -> None:
    for name in names:
        if not isinstance(name, str) or name not in processes:
            raise ConfigError(f"there is no process {name!r}; there is {_some(processes)}", process=name)


def _some(names: Collection[str]) -> str:
    """The first few in a sentence."""
    more = len(names) - NAMES_SHOWN_MAX
    return ", ".join(sorted(names)[:NAMES_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "") or "none"


def check_count(count: object, what: str) -> None:
    """Raise ConfigError, which begins with `what`, unless `count` is a whole number, 0 or more."""
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise ConfigError(f"{what}: give a whole number, 0 or more")
