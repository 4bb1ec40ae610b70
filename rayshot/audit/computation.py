"""The computation that the traces record: one order of all events, their vector clocks, and Theorem 1 by execution.

Theorem 1 of Chandy and Lamport (1985, section 3.2): the recorded global state can be reached from the state in which
the recording began, and the state in which it ended can be reached from the recorded one. The proof swaps events until
all events before their process's recording come before all others. This module does the same. It puts the events into
one order that could have been the real one, then moves the events before the recordings to the front, without changing
their order, and checks with the channels' counters that each step of this new order is possible. At the seam between
the two parts the counters must be those of the snapshot.

Vector clocks (Fidge 1988, Mattern 1989) need not travel with messages: channels are FIFO and numbered by counting, so
the n-th message handled on a channel is the n-th one sent on it, and the clocks follow from the events.
"""

from array import array
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from rayshot.audit.document import Document
from rayshot.audit.equation import DRIVER_PREFIX
from rayshot.audit.findings import Unproved
from rayshot.audit.history import ActorHistory, count
from rayshot.audit.segment import (
    AtTop,
    Ended,
    Event,
    Fired,
    Handled,
    LoopOver,
    PassBegan,
    PassWaited,
    Recorded,
    Resumed,
    Sent,
    Suspended,
    sends_of,
)

Clock = tuple[int, ...]


class OrderedEvent(NamedTuple):
    """One event in the order: number `place` of `actor` since the common cut, counted from 0."""

    actor: str
    place: int
    event: Event
    clock: Clock


class Computation:
    """All events of the histories that could happen, in one order; a clock has one element for each of `actors`.

    Messages from a driver, or from an actor without a trace, count as sent in time. Of the order, only the actor of
    each event is kept. Clocks are computed again each time they are asked for: a clock has as many elements as there
    are actors, and of a million events only the clocks of messages under way are needed at one time.
    """

    def __init__(self, histories: Mapping[str, ActorHistory]) -> None:
        self.actors = tuple(sorted(histories))
        self.histories = histories
        self._turns = array("L", self._find_order())

    def __len__(self) -> int:
        """How many events could happen."""
        return len(self._turns)

    def _find_order(self) -> Iterator[int]:
        """Take each actor's events one after the other, as long as the next message to handle was sent."""
        index_of = {actor: index for index, actor in enumerate(self.actors)}
        flight = _Flight(self.histories)
        waiting: dict[tuple[str, str], str] = {}
        ready = deque(self.actors)
        places = dict.fromkeys(self.actors, 0)
        while ready:
            actor = ready.popleft()
            history = self.histories[actor]
            while places[actor] < len(history.events):
                event = history.events[places[actor]]
                if (sender := flight.awaits(actor, event)) is not None:
                    waiting[sender, actor] = actor
                    break
                flight.learn(actor, event)
                for receiver in sends_of(event, actor):
                    flight.put(actor, receiver, None)
                    if (freed := waiting.pop((actor, receiver), None)) is not None:
                        ready.append(freed)
                yield index_of[actor]
                places[actor] += 1

    def _ordered(self) -> Iterator[tuple[str, int, Event]]:
        """The events in their order, each with its actor and place."""
        places = [0] * len(self.actors)
        for turn in self._turns:
            actor, place = self.actors[turn], places[turn]
            yield actor, place, self.histories[actor].events[place]
            places[turn] = place + 1

    def steps(self) -> Iterator[OrderedEvent]:
        """The events in their order, with their vector clocks."""
        index_of = {actor: index for index, actor in enumerate(self.actors)}
        clocks = {actor: [0] * len(self.actors) for actor in self.actors}
        flight = _Flight(self.histories)
        for actor, place, event in self._ordered():
            clock = clocks[actor]
            if (learned := flight.learn(actor, event)) is not None:
                sender, sent_at = learned
                # An actor that knows of the sending knows all that the sender knew, so nothing new can be learned.
                own = index_of[sender]
                if sent_at[own] > clock[own]:
                    clock[:] = map(max, clock, sent_at)
            clock[index_of[actor]] += 1
            now = tuple(clock)
            for receiver in sends_of(event, actor):
                flight.put(actor, receiver, now)
            yield OrderedEvent(actor, place, event, now)

    def check_clocks(self, document: Document) -> str:
        """Check that no actor, when it recorded, knew of an event behind another's recording. Raises Unproved."""
        cuts = self._cuts(document)
        clocks: dict[str, Clock] = {actor: (0,) * len(self.actors) for actor in cuts}
        for step in self.steps():
            if step.actor in cuts and step.place < cuts[step.actor]:
                clocks[step.actor] = step.clock
        places = [(actor, self.actors.index(actor)) for actor in cuts]
        for knower, clock in clocks.items():
            for actor, own in places:
                if clock[own] > clocks[actor][own]:
                    raise Unproved(
                        f"{knower} had recorded knowing of event {clock[own]} of {actor}, which had recorded after "
                        f"{clocks[actor][own]}"
                    )
        pairs = len(clocks) * max(0, len(clocks) - 1)
        return f"for each of {pairs:,} pairs of actors i, j: VC_j[i] <= VC_i[i] where they recorded"

    def check_theorem_1(self, document: Document) -> str:
        """Execute the permuted order; at the seam all counters must be the snapshot's. Raises Unproved."""
        cuts = self._cuts(document)
        behind_all = {actor: 0 for actor in self.actors if actor not in cuts}
        places = {**cuts, **behind_all}
        before = after = swapped = 0
        for actor, place, _ in self._ordered():
            if place >= places[actor]:
                after += 1
            else:
                before, swapped = before + 1, after  # this many events behind recordings stood before this one
        missing = sum(places.values()) - before
        if missing:
            raise Unproved(f"{missing} events before the recording need messages that were never sent")
        run = _Run(self.histories)
        for actor, place, event in self._ordered():
            if place < places[actor]:
                run.execute(actor, event)
        _compare(run, document, cuts)
        for actor, place, event in self._ordered():
            if place >= places[actor]:
                run.execute(actor, event)
        return (
            f"{before:,} events before the recording and {after:,} after it: with {swapped:,} of these moved "
            "behind the others each step can occur, and the order passes through the snapshot"
        )

    def _cuts(self, document: Document) -> dict[str, int]:
        """For each actor of the snapshot, how many of its events come before its recording."""
        cuts = {}
        for actor in self.actors:
            history = self.histories[actor]
            place = history.place_of(document.snapshot)
            has_ended = any(isinstance(event, Ended) for event in history.events[-1:])
            if actor in document.ended:
                place = len(history.events)
                if history.events and not has_ended:
                    raise Unproved(f"{actor} is said to have ended, but its trace goes on")
            elif place is not None and any(isinstance(event, Ended) for event in history.events[:place]):
                raise Unproved(f"{actor} is in the snapshot, but it had ended before it recorded")
            if place is not None:
                cuts[actor] = place
            elif actor in document.actors and document.actors[actor].born:
                raise Unproved(f"{actor} is in the snapshot, but its trace knows of no recording")
        return cuts


class _Loop(Enum):
    """Where a method with a loop is."""

    AT_TOP = "at the top of a pass"
    AT_WORK = "in a pass of its loop"


class _Flight:
    """Messages under way, each with the clock of its sending; None if sent before the cut, or if clocks are unused.

    Messages of each channel are numbered. Those up to `_taken` were taken, those up to `_sent` were sent. An actor
    takes a message where its handler begins: `_suspended` has the senders of those whose handlers have not ended, and
    `_loops` has the actors with a method in its loop. `_passes` are the last answers with which passes began.
    """

    def __init__(self, histories: Mapping[str, ActorHistory]) -> None:
        self._traced = histories.keys()
        self._sent: dict[tuple[str, str], int] = defaultdict(int)
        self._taken: dict[tuple[str, str], int] = defaultdict(int)
        self._clocks: dict[tuple[str, str], dict[int, Clock | None]] = defaultdict(dict)
        self._suspended: dict[str, str] = {}
        self._loops: dict[str, _Loop] = {}
        self._passes: dict[tuple[str, str], int] = defaultdict(int)
        for sender, history in histories.items():
            for receiver, sent in history.sent.items():
                known = histories.get(receiver)
                received = known.received.get(sender, 0) if known else 0
                if received > sent:
                    raise Unproved(
                        f"at the start {receiver} had received {received} of the {sent} messages of {sender}"
                    )
                self._sent[sender, receiver], self._taken[sender, receiver] = sent, received

    def awaits(self, actor: str, event: Event) -> str | None:
        """The sender whose message must be sent before this event can happen; None if it can happen now."""
        match event:
            case Handled(sender) | Suspended(sender) if actor not in self._suspended:
                number = self._taken[sender, actor] + 1
            case Resumed(sender, number) | PassBegan(sender, number):
                pass
            case _:
                return None
        return sender if sender in self._traced and number > self._sent[sender, actor] else None

    def learn(self, actor: str, event: Event) -> tuple[str, Clock] | None:
        """An event happens: whose message the actor sees there, and the clock of its sending if that is known.

        Raises Unproved if a handler that waits does not let it happen.
        """
        if isinstance(event, Sent):
            return None
        if not self._may_be(actor, event):
            raise Unproved(f"{actor} {describe(event)} while {self._in_words(actor)}")
        sender, clock = "", None
        match event:
            case Resumed(sender, number) | PassBegan(sender, number):
                clock = self._clocks[sender, actor].get(number)
            case Handled(sender) | Suspended(sender) if actor not in self._suspended:
                clock = self._take(sender, actor)
        self._go_on(actor, event)
        return None if clock is None else (sender, clock)

    def _may_be(self, actor: str, event: Event) -> bool:
        """Whether the handler of the actor, if one waits, or its loop lets an event happen."""
        waits_for, loop, at_top = self._suspended.get(actor), self._loops.get(actor), _Loop.AT_TOP
        match event:
            case Resumed(sender, number):
                return (waits_for is not None or loop is not None) and number > self._taken[sender, actor]
            case PassBegan(sender, number):
                last = max(self._taken[sender, actor], self._passes[sender, actor])
                return loop is at_top and (number == 0 or number > last)
            case PassWaited():
                return loop is _Loop.AT_WORK
            case LoopOver():
                return loop is not None
            case AtTop():
                return waits_for is None
            case Handled(sender, receivers):
                return waits_for in (None, sender) and (loop is None or (loop is at_top and not receivers))
            case Suspended(sender):
                return waits_for in (None, sender) and loop is None
            case _:
                return waits_for is None and loop is not _Loop.AT_WORK

    def _go_on(self, actor: str, event: Event) -> None:
        match event:
            case Suspended(sender):
                self._suspended[actor] = sender
            case Handled():
                self._suspended.pop(actor, None)
            case AtTop():
                self._loops[actor] = _Loop.AT_TOP
            case PassBegan(sender, number):
                self._loops[actor] = _Loop.AT_WORK
                self._passes[sender, actor] = number
            case LoopOver():
                del self._loops[actor]

    def _in_words(self, actor: str) -> str:
        if (loop := self._loops.get(actor)) is not None:
            return f"a method of its was {loop.value}"
        waits_for = self._suspended.get(actor)
        return f"{'no handler of its' if waits_for is None else f'its handler of a message of {waits_for}'} waited"

    def _take(self, sender: str, receiver: str) -> Clock | None:
        channel = sender, receiver
        self._taken[channel] += 1
        return self._clocks[channel].pop(self._taken[channel], None)

    def put(self, sender: str, receiver: str, clock: Clock | None) -> None:
        channel = sender, receiver
        self._sent[channel] += 1
        if clock is not None:
            self._clocks[channel][self._sent[channel]] = clock


class _Run:
    """The execution of one order, by counters alone."""

    def __init__(self, histories: Mapping[str, ActorHistory]) -> None:
        self.sent = {actor: dict(history.sent) for actor, history in histories.items()}
        self.received = {actor: dict(history.received) for actor, history in histories.items()}
        self.answered: dict[str, dict[str, int]] = {actor: {} for actor in histories}
        """Actor -> sender -> the highest number of an answer that came before its turn."""

    def execute(self, actor: str, event: Event) -> None:
        if isinstance(event, Handled | Suspended | Resumed | PassBegan):
            if isinstance(event, Resumed | PassBegan):
                answered = self.answered[actor]
                does, number = "get", event.number
                answered[event.sender] = max(number, answered.get(event.sender, 0))
            else:
                does, number = "handle", self.received[actor].get(event.sender, 0) + 1
            if event.sender in self.sent and number > self.sent[event.sender].get(actor, 0):
                raise Unproved(
                    f"in the permuted order {actor} would {does} message {number} of {event.sender}, which was sent "
                    "behind its recording"
                )
        count(event, actor, self.sent[actor], self.received[actor])


def _compare(run: _Run, document: Document, cuts: Iterable[str]) -> None:
    """Check that the counters at the seam are the snapshot's, and that it lacks no channel with messages in flight."""
    members = set(cuts)
    listed = {(channel.sender, channel.receiver): channel for channel in document.channels}
    for channel in document.channels:
        sent = run.sent[channel.sender].get(channel.receiver, 0) if channel.sender in members else channel.sent
        received = channel.received
        if channel.receiver in members:
            received = run.received[channel.receiver].get(channel.sender, 0)
        if (sent, received) != (channel.sent, channel.received):
            raise Unproved(
                f"channel {channel}: the events before the recording sent {sent} and received {received}, the snapshot "
                f"says {channel.sent} and {channel.received}"
            )
        answered = run.answered.get(channel.receiver, {}).get(channel.sender, 0)
        if answered > channel.sent:
            raise Unproved(f"channel {channel}: message {answered} was an answer that came before the recording")
    for receiver in members:
        for sender, received in run.received[receiver].items():
            if received and receiver in document.actors and not document.actors[receiver].born:
                raise Unproved(f"{receiver} is said not to be born, but it had handled messages")
            known = sender in document.actors or sender in document.ended or sender.startswith(DRIVER_PREFIX)
            if received and not known:
                raise Unproved(f"{receiver} had handled messages of {sender}, which the snapshot does not know")
    for sender in members:
        for receiver, sent in run.sent[sender].items():
            if sent and {sender, receiver} <= document.actors.keys() and (sender, receiver) not in listed:
                raise Unproved(f"channel {sender} -> {receiver} had carried messages and is not in the snapshot")
            received = run.received[receiver].get(sender, 0) if receiver in members else 0
            if sent > received and (sender, receiver) not in listed and receiver not in document.ended:
                raise Unproved(f"messages {received + 1} .. {sent} of {sender} to {receiver} are not in the snapshot")


def describe(event: Event) -> str:
    """An event in words."""
    match event:
        case Handled(sender, receivers, _):
            return f"handled a message of {sender}{_sent(receivers)}"
        case Suspended(sender, receivers):
            return f"waited in its handler of a message of {sender}{_sent(receivers)}"
        case Resumed(sender, number):
            return f"got answer {number} of {sender}"
        case AtTop(receivers):
            return f"came to the top of a pass of its loop{_sent(receivers)}"
        case PassBegan(sender, number):
            return f"began a pass of its loop{f' with answer {number} of {sender}' * bool(number)}"
        case PassWaited(receivers):
            return f"waited in a pass of its loop{_sent(receivers)}"
        case LoopOver(receivers):
            return f"ended its loop{_sent(receivers)}"
        case Sent(receivers):
            return f"sent {_counted(receivers)} beside its handlers"
        case Fired(_):
            return "a timer fired"
        case Recorded(snapshot):
            return f"recorded {snapshot}"
        case Ended():
            return "ended"


def _sent(receivers: Sequence[str]) -> str:
    return f", sent {_counted(receivers)}" if receivers else ""


def _counted(receivers: Sequence[str]) -> str:
    return ", ".join(f"{count} to {receiver}" for receiver, count in Counter(receivers).items())
