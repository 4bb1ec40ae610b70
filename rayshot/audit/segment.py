"""A segment of an actor's trace: what the actor did between one record and the next, event by event.

One msgpack array:

    [2, full, base, first, sent, received, names, events, [began_at, tick]]

    full        whether messages are kept
    base        where it starts: "" for the actor's beginning, else the id of the snapshot that was recorded there, or
                from which the actor was restored; nil if the trace had grown too large and was given up
    first       the number of its first event; an actor's events are numbered 1, 2, 3 ... in each life of its system
    sent        at the base, per receiver, how many messages had been sent; `received`, per sender, how many processed
    names       of actors, drivers and methods; events refer to them by their index
    events      bytes: msgpack arrays one after the other, each one of the forms below
    began_at    Unix seconds by the clock of the actor's node, and how many ticks later it starts: 10,000 a second

    [0, sender, count, method, ticks]           `count` events: the next messages of the sender were handled, and
                                                nothing was sent
    [1, sender, [receiver, ...], method, ticks] the next message was handled, and these messages sent, in this order
    [2, sender, [receiver, ...], message, method, ticks]       the same, with the message
    [3, message or nil, ticks]                  a timer fired: a message was sent to the actor itself
    [4, snapshot id, ticks]                     the actor recorded
    [5, ticks]                                  the actor ended
    [6, [receiver, ...], ticks]                 these messages were sent beside the handlers: by threads of the actor,
                                                or between two handlers
    [7, sender, [receiver, ...], ticks]         the handler of the sender's next message, which goes on in an event
                                                behind this one, has sent these messages and waits for answers; this may
                                                come several times for a message
    [8, sender, number, ticks]                  an answer came while a handler waits: message `number` of the sender,
                                                which is handled in its turn, as nothing
    [9, [receiver, ...], ticks]                 a method is at the top of a pass of its loop, and has sent these
                                                messages since the last event of its own
    [10, sender, number, ticks]                 a pass begins with an answer, message `number` of the sender, which is
                                                handled in its turn, as nothing; sender "" and number 0: with none
    [11, [receiver, ...], ticks]                in a pass these messages were sent, and it waits for answers
    [12, [receiver, ...], ticks]                the method has ended, and has sent these messages

`method` is the method that the message called, "" if it called none; `ticks` are those since the event before, or since
the start. Version 1 has neither of them, nor the last element of the segment.

Handling a message is one event, at the end of its handler, so a message needs no number: it is the next one of its
channel. No record stands between an event [7] and the event of its message.

The message that begins a method with a loop counts as handled where this comes to its first top: its event stands
before the first [9]. No record stands in a pass, between an event [10] and the next [9] or [12]. At a top, answers may
come, [8], and answers that the method has had are handled in their turn, [0]. Behind a record at a top, [9] stands
again.
"""

import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgpack

from rayshot.audit.findings import NoTrace, Unproved
from rayshot.format.bounds import TIME_MAX_S
from rayshot.format.msgpack_walk import ContainerBudget, count_documents

EVENTS_MAX = 4_000_000
"""At most this many events of one segment are judged; they and their clocks are in memory."""
TOO_MANY = f"a trace holds more than {EVENTS_MAX:,} events: take snapshots more often"
_UNTIMED, _VERSION = 1, 2
_TICKS_IN_A_SECOND = 10_000
_HEADER_CONTAINERS = 5
"""The segment itself, `sent`, `received`, `names` and its start time."""
_TICKS_MAX = 2**48
_EVENT_CONTAINERS = 2
"""The event itself, and its receivers."""


class Handled(NamedTuple):
    """The next message of `sender` was processed, and one message sent to each of `receivers`.

    `method` is the method that the message called; None if it was not written down. `at`, which every event has, counts
    Unix seconds by the clock of the actor's node; None if it was not written down, and for all but the last event of a
    run.
    """

    sender: str
    receivers: tuple[str, ...] = ()
    message: bytes | None = None
    method: str | None = None
    at: float | None = None


class Fired(NamedTuple):
    """A timer fired."""

    message: bytes | None = None
    at: float | None = None


class Recorded(NamedTuple):
    """The actor recorded a snapshot."""

    snapshot: str
    at: float | None = None


class Ended(NamedTuple):
    """The actor ended by its own wish."""

    at: float | None = None


class Sent(NamedTuple):
    """Beside the handlers of the actor one message was sent to each of `receivers`."""

    receivers: tuple[str, ...]
    at: float | None = None


class Suspended(NamedTuple):
    """The handler of the next message of `sender` has sent one message to each of `receivers`, and waits for answers.

    A handler may wait several times. Its message counts as handled at its end.
    """

    sender: str
    receivers: tuple[str, ...] = ()
    at: float | None = None


class Resumed(NamedTuple):
    """An answer came while a handler waits: message `number` of `sender`, before its turn."""

    sender: str
    number: int
    at: float | None = None


class AtTop(NamedTuple):
    """A method is at the top of a pass of its loop, and has sent one message to each of `receivers` before."""

    receivers: tuple[str, ...] = ()
    at: float | None = None


class PassBegan(NamedTuple):
    """A pass of a loop begins with an answer: message `number` of `sender`, before its turn. "" and 0: with none."""

    sender: str = ""
    number: int = 0
    at: float | None = None


class PassWaited(NamedTuple):
    """A pass has sent one message to each of `receivers`, and waits for answers. It may wait several times."""

    receivers: tuple[str, ...] = ()
    at: float | None = None


class LoopOver(NamedTuple):
    """A method with a loop has ended, and has sent one message to each of `receivers` before."""

    receivers: tuple[str, ...] = ()
    at: float | None = None


Event = Handled | Fired | Recorded | Ended | Sent | Suspended | Resumed | AtTop | PassBegan | PassWaited | LoopOver
_OF_LOOPS: Mapping[int, type[AtTop | PassWaited | LoopOver]] = {9: AtTop, 11: PassWaited, 12: LoopOver}


@dataclass(frozen=True, slots=True)
class Segment:
    """See the module. `base` is None if the trace was given up: then there are no events."""

    actor: str
    full: bool
    base: str | None
    first: int
    sent: Mapping[str, int]
    received: Mapping[str, int]
    events: tuple[Event, ...]


def sends_of(event: Event, actor: str) -> Sequence[str]:
    """The receivers to which an event of `actor` sent one message each."""
    if isinstance(event, Handled | Sent | Suspended | AtTop | PassWaited | LoopOver):
        return event.receivers
    return (actor,) if isinstance(event, Fired) else ()


def read_segment(actor: str, data: bytes) -> Segment:
    """Read a segment. Raises Unproved for bytes that are not a segment."""
    try:
        _check(count_documents(data, 1) == 1, actor)
        version, full, base, first, sent, received, names, events, *start = msgpack.unpackb(
            data, **ContainerBudget(_HEADER_CONTAINERS).hooks
        )
        if version not in (_UNTIMED, _VERSION):
            raise Unproved(f"the trace of {actor} has version {version}, this audit reads {_VERSION}")
        _check(len(start) == (version == _VERSION), actor)
        _check(base is None or type(base) is str, actor)
        _check(type(first) is int and first > 0 and type(full) is bool, actor)
        _check(type(names) is list and all(type(name) is str for name in names), actor)
        for counters in (sent, received):
            _check(type(counters) is dict, actor)
            _check(all(type(name) is str and type(n) is int and n >= 0 for name, n in counters.items()), actor)
        return Segment(actor, full, base, first, sent, received, tuple(_events(names, events, *map(_Clock, start))))
    except (ValueError, TypeError, LookupError, AttributeError, msgpack.UnpackException) as error:
        raise Unproved(f"the trace of {actor} cannot be read: {error!r}") from error


def _check(fits: bool, actor: str) -> None:  # noqa: FBT001 - a condition
    if not fits:
        raise Unproved(f"the trace of {actor} is not laid out as documented")


class _Clock:
    """Computes the time of each event from the ticks between events."""

    def __init__(self, start: Any) -> None:
        began_at, tick = start
        if type(began_at) is not float or not 0 <= began_at <= TIME_MAX_S or type(tick) is not int:
            raise Unproved("a trace starts at no time")
        self._began_at, self._tick = began_at, tick

    def after(self, ticks: Any) -> float:
        """The time this many ticks later."""
        if type(ticks) is not int or not 0 <= ticks <= _TICKS_MAX:
            raise Unproved("a trace goes on after no time")
        self._tick += ticks
        return self._began_at + self._tick / _TICKS_IN_A_SECOND


def _events(names: list[str], packed: bytes, clock: _Clock | None = None) -> Iterator[Event]:
    if count_documents(packed, EVENTS_MAX) > EVENTS_MAX:
        raise NoTrace(TOO_MANY)
    budget = ContainerBudget(_EVENT_CONTAINERS)
    unpacker = msgpack.Unpacker(None, max_buffer_size=0, max_bin_len=len(packed), **budget.hooks)
    unpacker.feed(packed)
    left = EVENTS_MAX
    for fields in unpacker:
        budget.next()
        at = None if clock is None else clock.after(fields.pop())
        event, count = _event(names, fields, timed=clock is not None)
        left -= count
        if count < 1:
            raise Unproved("a trace holds a run of no events")
        if left < 0:
            raise NoTrace(TOO_MANY)
        for _ in range(count - 1):
            yield event
        yield event if at is None else event._replace(at=at)
    if unpacker.tell() != len(packed):
        raise Unproved("a trace ends in the middle of an event")


def _indexes(fields: list[Any]) -> list[int]:
    match fields:
        case [1 | 2 | 7, int(sender), list(receivers), *_]:
            return [sender, *receivers]
        case [0 | 8 | 10, int(sender), *_]:
            return [sender]
        case [6 | 9 | 11 | 12, list(receivers)]:
            return receivers
    return []


def _event(names: list[str], fields: Any, *, timed: bool) -> tuple[Event, int]:
    method = names[_index(fields.pop())] if timed and fields[0] in (0, 1, 2) else None
    if isinstance(fields, list) and any(index < 0 for index in _indexes(fields)):
        raise Unproved("a trace names an actor by a negative number")
    match fields:
        case [0, int(sender), int(count)]:
            return Handled(names[sender], method=method), count
        case [1, int(sender), list(receivers)]:
            return Handled(names[sender], tuple(names[index] for index in receivers), method=method), 1
        case [2, int(sender), list(receivers), bytes(message)]:
            return Handled(names[sender], tuple(names[index] for index in receivers), message, method), 1
        case [3, bytes() | None as message]:
            return Fired(message), 1
        case [4, str(snapshot)]:
            return Recorded(snapshot), 1
        case [5]:
            return Ended(), 1
        case [6, list(receivers)] if receivers:
            return Sent(tuple(names[index] for index in receivers)), 1
        case [7, int(sender), list(receivers)]:
            return Suspended(names[sender], tuple(names[index] for index in receivers)), 1
        case [8, int(sender), int(number)] if number > 0:
            return Resumed(names[sender], number), 1
        case [9 | 11 | 12 as kind, list(receivers)]:
            return _OF_LOOPS[kind](tuple(names[index] for index in receivers)), 1
        case [10, int(sender), int(number)] if number > 0 or (number == 0 and names[sender] == ""):
            return PassBegan(names[sender], number), 1
    raise Unproved(f"a trace holds something that is not an event: {reprlib.repr(fields)}")


def _index(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise Unproved("a trace gives a method by something else than its number in the list of names")
    return value
