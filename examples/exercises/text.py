"""The text form of exercises, as courses hand it out: a topology, a script of events, and what a snapshot recorded.

In what is read a `#` and all that follows it on the line is a comment; lines that are empty without it say nothing.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from examples.exercises.script import (
    ExerciseEvent,
    RecordedSnapshot,
    SendTokens,
    TakeSnapshot,
    Tick,
    Topology,
    check_channel,
    check_process,
    placed,
)
from rayshot.errors import ConfigError

# As many digits as any exercise needs; a longer number is a slip, and Python refuses to read one of thousands.
_COUNT = re.compile(r"[0-9]{1,18}")


class _Line(NamedTuple):
    """The words of a line and its number, from 1."""

    number: int
    words: Sequence[str]


def parse_topology(text: str) -> Topology:
    """Read a topology: a line with the number of processes, a line `NAME TOKENS` for each, lines `SENDER RECEIVER`.

    Raises ConfigError that names the line where the text is no such thing, or says what Topology refuses.
    """
    first, *lines = [*_lines(text)] or [_Line(1, ())]
    with placed(line=first.number):
        (count,) = _fields(first, "the number of processes", 1)
        number = _count(count)
    if len(lines) < number:
        raise ConfigError(f"line {first.number}: {number} processes are to follow, but there are {len(lines)} lines")
    processes: dict[str, int] = {}
    for line in lines[:number]:
        with placed(line=line.number):
            name, tokens = _fields(line, f"process {len(processes) + 1} of {number} as NAME TOKENS", 2)
            check_process(name, _count(tokens))
            if name in processes:
                raise ConfigError(f"the process {name} is there already: give it once", process=name)
            processes[name] = _count(tokens)
    channels: dict[tuple[str, str], None] = {}
    for line in lines[number:]:
        with placed(line=line.number):
            sender, receiver = _fields(line, "a channel as SENDER RECEIVER", 2)
            check_channel(sender, receiver, processes, channels)
            channels[sender, receiver] = None
    return Topology(processes, tuple(channels))


def parse_events(text: str) -> tuple[ExerciseEvent, ...]:
    """Read a script: lines `send SENDER RECEIVER TOKENS`, `snapshot NAME`, `tick` or `tick COUNT`.

    Raises ConfigError that names the line where the text is no such thing. Whether an event fits a topology is for
    run_exercise to say, which then names the same line.
    """
    events = []
    for line in _lines(text):
        with placed(line=line.number):
            events.append(_event(line))
    return tuple(events)


def render_snapshot(snapshot: RecordedSnapshot) -> str:
    """Write a snapshot: its number, a line `NAME TOKENS` for each process, `SENDER RECEIVER token(K)` for each message.

    Sorted by name, and messages by channel and then in the order of sending. Each line ends with a line feed.
    """
    states = (f"{name} {tokens}" for name, tokens in sorted(snapshot.tokens.items()))
    messages = (
        f"{sender} {receiver} token({tokens})"
        for (sender, receiver), on_channel in sorted(snapshot.messages.items())
        for tokens in on_channel
    )
    return "".join(f"{line}\n" for line in (str(snapshot.number), *states, *messages))


def _lines(text: str) -> Iterator[_Line]:
    # Not `splitlines`: it ends lines at characters that no editor counts.
    for number, line in enumerate(text.split("\n"), 1):
        if words := line.partition("#")[0].split():
            yield _Line(number, words)


def _event(line: _Line) -> ExerciseEvent:
    match line.words[0]:
        case "send":
            _, sender, receiver, tokens = _fields(line, "send SENDER RECEIVER TOKENS", 4)
            return SendTokens(sender, receiver, _count(tokens), line.number)
        case "snapshot":
            _, initiator = _fields(line, "snapshot NAME", 2)
            return TakeSnapshot(initiator, line.number)
        case "tick" if len(line.words) == 1:
            return Tick(1, line.number)
        case "tick":
            _, count = _fields(line, "tick, or tick COUNT", 2)
            return Tick(_count(count), line.number)
        case word:
            raise ConfigError(f"there is no event {word!r}; there is send, snapshot and tick")


def _fields(line: _Line, form: str, count: int) -> Sequence[str]:
    if len(line.words) != count:
        raise ConfigError(f"{' '.join(line.words)!r}: give {form}")
    return line.words


def _count(word: str) -> int:
    if not _COUNT.fullmatch(word):
        raise ConfigError(f"{word!r} is not a whole number, 0 or more, of at most 18 digits")
    return int(word)
