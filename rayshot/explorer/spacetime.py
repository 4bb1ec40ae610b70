"""The space-time diagram of a traced cut: a window of events around the records, and a place on the page for each.

Theory of operation. The events of an actor are one row. The n-th message handled on a channel is the n-th one sent
on it, so counting joins the sends to the receives. Each row has one event that is its cut: the record of the snapshot,
or the place where it would be if the row does not record. Drivers, and other rows without a trace, have sends that the
numbers of the messages show; their order here could have been the real one.

Each event gets two places, from 0 (left) to 1. `x` is "as it could have happened": an event is to the right of all
events on which it depends. If neither of two depends on the other, clocks say which comes first; without clocks, the
length of the longest chain of causes does. `straight` is the order of Theorem 1 (Chandy and Lamport 1985): the events
keep their order, those before their process's record are left of the middle, all records are in the middle, all others
right of it. In both every message goes from left to right. If the cut were not consistent, a message would go from its
right side to its left.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import islice, pairwise
from math import inf
from typing import Any

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
    Suspended,
    sends_of,
)
from rayshot.format.entries import ChannelEntry
from rayshot.protocol.identity import is_driver

EVENTS_MAX = 500
EVENTS_BESIDE_CUT_MAX = 18
"""The page shows so many events of one row before its cut, and so many after it."""
EVENTS_BEFORE_MAX = 200
"""So many events of one row before its cut influence the places of the shown events."""
ARROWS_UNSEEN_MAX = 120
"""The page draws at most so many messages that are neither sent nor handled in the window."""
COLUMNS_BEHIND_MAX = 2
"""A later event may be so far left of the rightmost event until now: events at the same time share a column."""
PAST, CUT, FUTURE = -1, 0, 1

_Message = tuple[str, str, int]
"""Sender, receiver, number."""


@dataclass(slots=True)
class _Window:
    """The events around the cut. `sends` and `receives` say at which event a message was sent and first seen.

    An answer may be seen before its turn: `turns` says where this came, if it is on the other side of the cut. The page
    does not show the events of `hidden`, but they influence the places of the others.
    """

    events: list[dict[str, Any]] = field(default_factory=list)
    rows: list[list[int]] = field(default_factory=list)
    sends: dict[_Message, int] = field(default_factory=dict)
    receives: dict[_Message, int] = field(default_factory=dict)
    turns: dict[_Message, int] = field(default_factory=dict)
    hidden: set[int] = field(default_factory=set)

    def add(self, lane: int, kind: str, side: int, **more: Any) -> int:
        """Add the next event of a row; returns its index."""
        self.events.append({"lane": lane, "kind": kind, "side": side, **more})
        index = len(self.events) - 1
        self.rows[lane].append(index)
        return index

    def see(self, message: _Message, index: int) -> None:
        """The receiver sees a message in this event, maybe again."""
        first = self.receives.setdefault(message, index)
        if self.events[first]["side"] != self.events[index]["side"]:
            self.turns[message] = index

    def handled_behind_cut(self, message: _Message) -> int | None:
        """The event behind the cut in which a message was handled; None if there is none here."""
        index = self.turns.get(message, self.receives.get(message))
        return None if index is None or self.events[index]["side"] == PAST else index

    def clear(self) -> None:
        """Remove the hidden events, once everything has its place."""
        shown = [index for index in range(len(self.events)) if index not in self.hidden]
        moved = {old: new for new, old in enumerate(shown)}
        self.events = [self.events[index] for index in shown]
        self.rows = [[moved[index] for index in row if index in moved] for row in self.rows]
        self.sends = {message: moved[index] for message, index in self.sends.items() if index in moved}
        self.receives = {message: moved[index] for message, index in self.receives.items() if index in moved}
        self.turns = {message: moved[index] for message, index in self.turns.items() if index in moved}
        self.hidden = set()


def spacetime(
    snapshot: str,
    histories: Mapping[str, ActorHistory],
    channels: Collection[ChannelEntry],
    lanes: Sequence[str],
    ended: Collection[str] = (),
) -> dict[str, Any]:
    """The diagram as a document.

    Args:
        snapshot: the id of the snapshot whose cut is shown.
        histories: the events of the actors.
        channels: the channels of the snapshot.
        lanes: the names of the actors and drivers to show, in their order on the page.
        ended: actors that had ended before the cut.

    Raises Unproved if the trace has an impossible order of events.
    """
    beside = min(EVENTS_BESIDE_CUT_MAX, EVENTS_MAX // (2 * len(lanes)) - 1) if lanes else 0
    sent_at_cut, received_at_cut = _counters_at_cut(snapshot, histories, ended)
    window = _Window()
    for lane, name in enumerate(lanes):
        window.rows.append([])
        if name in histories:
            _add_actor(window, lane, histories[name], snapshot, beside, has_ended=name in ended)
    by_ends = {(channel.sender, channel.receiver): channel for channel in channels}
    for lane, name in enumerate(lanes):
        if name not in histories:
            told = {receiver: channel for (sender, receiver), channel in by_ends.items() if sender == name}
            _add_untraced(window, lane, name, told, lanes, beside)
    _place(window)
    window.clear()
    arrows, unseen = _arrows(window, by_ends, lanes)
    orphans = sum(
        max(0, received - sent_at_cut[sender].get(receiver, 0))
        for receiver, senders in received_at_cut.items()
        for sender, received in senders.items()
        if sender in histories
    )
    return {
        "kind": "traced",
        "lanes": [{"name": name, "driver": is_driver(name), "traced": name in histories} for name in lanes],
        "events": window.events,
        "cuts": [next(one for one in row if window.events[one]["side"] == CUT) for row in window.rows],
        "messages": arrows,
        "crossing": sum(channel.sent - channel.received for channel in channels),
        "from_right_to_left": orphans,
        "undrawn": unseen,
        "other_cuts": _other_cuts(window, histories, lanes, snapshot),
    }


def _place_of_cut(history: ActorHistory, snapshot: str, *, has_ended: bool) -> tuple[int, bool]:
    """How many events are before the cut, and whether the next one is the record itself."""
    place = history.place_of(snapshot)
    if place is None:
        return (len(history.events) if has_ended else 0), False
    return place - 1, True


def _counters_at_cut(
    snapshot: str, histories: Mapping[str, ActorHistory], ended: Collection[str]
) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, int]]]:
    """For each actor, how many messages it had sent, and seen the last of, before its cut, from the traces."""
    sent, received = {}, {}
    for name, history in histories.items():
        sent[name], received[name] = dict(history.sent), dict(history.received)
        place, _ = _place_of_cut(history, snapshot, has_ended=name in ended)
        seen: Counter[str] = Counter()
        for event in history.events[:place]:
            count(event, name, sent[name], received[name])
            if isinstance(event, Resumed | PassBegan):
                seen[event.sender] = max(seen[event.sender], event.number)
        received[name] |= {sender: number for sender, number in seen.items() if number > received[name].get(sender, 0)}
    return sent, received


def _add_actor(
    window: _Window, lane: int, history: ActorHistory, snapshot: str, beside: int, *, has_ended: bool
) -> None:
    place, recorded = _place_of_cut(history, snapshot, has_ended=has_ended)
    sent, received = Counter(history.sent), Counter(history.received)
    for index, event in enumerate(history.events[: place + beside + 1]):
        if index == place and not recorded:
            window.add(lane, "cut", CUT)
        sees = _seen_at(event, received)
        if isinstance(event, Handled):
            received[event.sender] += 1
        messages = []
        for receiver in sends_of(event, history.actor):
            sent[receiver] += 1
            messages.append((receiver, sent[receiver]))
        if index < place - EVENTS_BEFORE_MAX:
            continue
        side = PAST if index < place else CUT if index == place and recorded else FUTURE
        number, sends = history.first + index, list(map(list, messages))
        added = window.add(lane, *_words(event, side), n=number, at=event.at, sent=sends)
        if index < place - beside:
            window.hidden.add(added)
        if isinstance(event, Recorded):
            window.events[added]["snapshot"] = event.snapshot
        if sees is not None:
            sender, number = sees
            method = event.method if isinstance(event, Handled) else None
            window.events[added] |= {"sender": sender, "number": number, "method": method or None}
            window.see((sender, history.actor, number), added)
        for receiver, number in messages:
            window.sends[history.actor, receiver, number] = added
    if place >= len(history.events):
        window.add(lane, "cut", CUT)


def _seen_at(event: Event, received: Mapping[str, int]) -> tuple[str, int] | None:
    """The message that the actor sees in an event, by sender and number; None if it sees none."""
    match event:
        case Handled(sender) | Suspended(sender):
            return sender, received[sender] + 1
        case Resumed(sender, number) | PassBegan(sender, number) if number:
            return sender, number
    return None


def _words(event: Event, side: int) -> tuple[str, int]:
    match event:
        case Handled():
            return "handled", side
        case Fired():
            return "fired", side
        case Recorded():
            return ("recorded" if side == CUT else "recorded other"), side
        case Ended():
            return "ended", side
        case Suspended() | PassWaited():
            return "waited", side
        case Resumed():
            return "answered", side
        case AtTop():
            return "at top", side
        case PassBegan():
            return "pass began", side
        case LoopOver():
            return "loop over", side
    return "sent", side


def _add_untraced(
    window: _Window, lane: int, name: str, told: Mapping[str, ChannelEntry], lanes: Collection[str], beside: int
) -> None:
    """The sends of a driver or an actor without a trace: the messages in flight, and those handled in the window."""
    numbers = defaultdict(set)
    for sender, receiver, number in window.receives:
        if sender == name:
            numbers[receiver].add(number)
    for receiver, channel in told.items():
        if receiver in lanes:
            numbers[receiver].update(range(max(channel.received, channel.sent - beside) + 1, channel.sent + 1))
    known = sorted((number, receiver) for receiver, several in numbers.items() for number in several)
    past = [one for one in known if one[1] in told and one[0] <= told[one[1]].sent]
    future = [one for one in known if one not in set(past)]
    for number, receiver in past[-beside:]:
        window.sends[name, receiver, number] = window.add(lane, "told", PAST, sent=[[receiver, number]])
    window.add(lane, "cut", CUT)
    for number, receiver in future[:beside]:
        window.sends[name, receiver, number] = window.add(lane, "told", FUTURE, sent=[[receiver, number]])


def _arrows(
    window: _Window, channels: Mapping[tuple[str, str], ChannelEntry], lanes: Sequence[str]
) -> tuple[list[dict[str, Any]], int]:
    """The messages to draw, and how many that cross are left out: those of other actors, and too many unseen ones."""
    lane_of = {name: lane for lane, name in enumerate(lanes)}
    seen: dict[tuple[str, str], set[int]] = {ends: set() for ends in channels}
    both = []
    for message in window.sends.keys() | window.receives.keys():
        sender, receiver, number = message
        channel = channels.get((sender, receiver))
        if channel is not None and channel.received < number <= channel.sent:
            seen[sender, receiver].add(number)
        elif message in window.sends and message in window.receives:
            both.append(message)
    unseen_left = ARROWS_UNSEEN_MAX
    crossing = []
    for (sender, receiver), channel in channels.items():
        if not {sender, receiver} <= lane_of.keys():
            continue
        numbers = seen[sender, receiver]
        unseen = (one for one in range(channel.received + 1, channel.sent + 1) if one not in numbers)
        some = list(islice(unseen, unseen_left))
        unseen_left -= len(some)
        crossing += [(sender, receiver, number) for number in sorted({*numbers, *some})]
    arrows = [
        {
            "from": lane_of[sender],
            "to": lane_of[receiver],
            "number": number,
            "sent_at": window.sends.get((sender, receiver, number)),
            "handled_at": (window.handled_behind_cut if crosses else window.receives.get)((sender, receiver, number)),
            "crosses": crosses,
        }
        for crosses, several in ((False, sorted(both)), (True, crossing))
        for sender, receiver, number in several
    ]
    return arrows, sum(channel.sent - channel.received for channel in channels.values()) - len(crossing)


def _place(window: _Window) -> None:
    """Give each event its `x` and `straight`."""
    after: list[list[int]] = [[] for _ in window.events]
    for row in window.rows:
        for one, following in pairwise(row):
            after[one].append(following)
    for message in window.sends.keys() & window.receives.keys():
        after[window.sends[message]].append(window.receives[message])
    moments = _moments(window, after)
    behind = COLUMNS_BEHIND_MAX if min(moments, default=inf) < inf else len(after)
    depth, front = [0] * len(after), 0
    for one in _sorted(after, moments):
        depth[one] = max(depth[one], front - behind)
        front = max(front, depth[one])
        for following in after[one]:
            depth[following] = max(depth[following], depth[one] + 1)
    shown = [index for index in range(len(depth)) if index not in window.hidden]
    column = {at: place for place, at in enumerate(sorted({depth[index] for index in shown}))}
    sides = {
        side: sorted({depth[one] for one in shown if window.events[one]["side"] == side}) for side in (PAST, FUTURE)
    }
    straight = {CUT: {}, PAST: _spread(sides[PAST], 0, 0.5), FUTURE: _spread(sides[FUTURE][::-1], 1, 0.5)}
    for index in shown:
        event = window.events[index]
        event["x"] = round(column[depth[index]] / max(1, len(column) - 1), 4)
        event["straight"] = straight[event["side"]].get(depth[index], 0.5)


def _spread(columns: Sequence[int], first: float, end: float) -> dict[int, float]:
    """A place for each column: the first one at `first`, the others in steps towards `end`, which stays free."""
    return {at: round(first + (end - first) * place / len(columns), 4) for place, at in enumerate(columns)}


def _moments(window: _Window, after: Sequence[Sequence[int]]) -> list[float]:
    """The time of each event, from clocks: an event without a clock was just before the first event that needed it.

    If the cut of a row has no record, it gets the time of the other records.
    """
    known = [event.get("at") for event in window.events]
    records = [at for event, at in zip(window.events, known, strict=True) if event["side"] == CUT and at is not None]
    at_cut = sorted(records)[len(records) // 2] if records else inf
    moments = [at if at is not None else inf for at in known]
    for row in window.rows:
        for one in reversed(row):
            if known[one] is None:
                moments[one] = min((moments[following] for following in after[one]), default=inf)
                if window.events[one]["side"] == CUT:
                    moments[one] = min(moments[one], at_cut)
    return moments


def _sorted(after: Sequence[Sequence[int]], moments: Sequence[float]) -> list[int]:
    """The events in a possible order, as near to the clocks as causes allow. Raises Unproved."""
    waits_for = Counter(following for several in after for following in several)
    ready = [(moments[index], index) for index in range(len(after)) if not waits_for[index]]
    heapify(ready)
    order = []
    while ready:
        order.append(heappop(ready)[1])
        for following in after[order[-1]]:
            waits_for[following] -= 1
            if not waits_for[following]:
                heappush(ready, (moments[following], following))
    if len(order) < len(after):
        raise Unproved("the trace tells of events that come before themselves")
    return order


def _other_cuts(
    window: _Window, histories: Mapping[str, ActorHistory], lanes: Sequence[str], snapshot: str
) -> dict[str, list[int | str | None]]:
    """The cuts of other snapshots in the window: for each lane the event, "left" or "right" of the window, or None."""
    places: dict[str, list[int | str | None]] = {}
    for index, event in enumerate(window.events):
        if event["kind"] == "recorded other":
            places.setdefault(event["snapshot"], [None] * len(lanes))[event["lane"]] = index
    for other, found in places.items():
        for lane, name in enumerate(lanes):
            if found[lane] is None and name in histories:
                place, here = histories[name].place_of(other), histories[name].place_of(snapshot)
                if place is not None and here is not None:
                    found[lane] = "left" if place < here else "right"
    return places
