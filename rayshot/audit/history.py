"""What each actor did since a common cut: the segments of several snapshots joined.

A segment starts where its actor had recorded the last committed snapshot that it had heard of. Actors hear of commits
at different times, so segments of one snapshot may start at different cuts. Joined with the segments of the snapshots
around it, they have one cut in common. From there the actors' events are a computation.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rayshot.audit.findings import NoTrace, Unproved
from rayshot.audit.segment import Event, Handled, PassBegan, Recorded, Resumed, Segment, Suspended, sends_of
from rayshot.snapshots.snapshot import Snapshot


@dataclass(slots=True)
class ActorHistory:
    """One actor's events, beginning with number `first`, and its counters before them; `base` as in a Segment."""

    actor: str
    base: str
    first: int
    sent: dict[str, int]
    received: dict[str, int]
    events: list[Event] = field(default_factory=list)

    def place_of(self, snapshot: str) -> int | None:
        """How many events there are up to the recording of `snapshot`, which is counted; None if it is not there."""
        for index, event in enumerate(self.events):
            if isinstance(event, Recorded) and event.snapshot == snapshot:
                return index + 1
        return None

    def start_at(self, snapshot: str, place: int) -> None:
        """Drop the first `place` events, the last of which recorded `snapshot`."""
        for event in self.events[:place]:
            count(event, self.actor, self.sent, self.received)
        del self.events[:place]
        self.first += place
        self.base = snapshot


@dataclass(frozen=True, slots=True)
class Traced:
    """The histories of all actors since a common cut; `base` is the id of its snapshot, "" for the beginning.

    `near` are the other snapshots whose segments were used.
    """

    histories: Mapping[str, ActorHistory]
    base: str
    near: Sequence[Snapshot]


def count(event: Event, actor: str, sent: dict[str, int], received: dict[str, int]) -> None:
    """Count what an event of `actor` sent and received."""
    if isinstance(event, Handled):
        received[event.sender] = received.get(event.sender, 0) + 1
    for receiver in sends_of(event, actor):
        sent[receiver] = sent.get(receiver, 0) + 1


def join(segments: Iterable[Segment], target: str = "") -> dict[str, ActorHistory]:
    """Join the segments of each actor as long as one continues the other.

    At a gap the part that recorded `target` is kept; if no part did, the last one. Raises Unproved if two segments
    record the same events differently.
    """
    by_actor: dict[str, list[Segment]] = {}
    for segment in segments:
        if segment.base is not None:
            by_actor.setdefault(segment.actor, []).append(segment)
    return {actor: _join(sorted(several, key=lambda one: one.first), target) for actor, several in by_actor.items()}


def _join(segments: Sequence[Segment], target: str) -> ActorHistory:
    history = _begin(segments[0])
    for segment in segments[1:]:
        overlap = history.first + len(history.events) - segment.first
        if overlap < 0:  # no snapshot at hand has the events between
            if history.place_of(target) is not None:
                return history
            history = _begin(segment)
            continue
        known = history.events[segment.first - history.first :]
        if known[: len(segment.events)] != list(segment.events[: len(known)]):
            raise Unproved(f"two traces of {segment.actor} differ in its events from {segment.first} on")
        history.events.extend(segment.events[overlap:])
    return history


def _begin(segment: Segment) -> ActorHistory:
    assert segment.base is not None
    counters = dict(segment.sent), dict(segment.received)
    return ActorHistory(segment.actor, segment.base, segment.first, *counters, list(segment.events))


def forget_strangers(histories: dict[str, ActorHistory], known: Collection[str]) -> None:
    """Drop histories of actors that have nothing to do with a snapshot.

    `known` are the actors that were born or had ended before the snapshot. Any other actor came into being behind it.
    Its history is dropped if it does not begin with the actor and no other history has a message of the actor: then it
    belongs to a later part of a system that is traced only now and then.
    """
    strangers = {name for name, history in histories.items() if name not in known and history.base}
    if strangers:
        events = ((name, event) for name, history in histories.items() for event in history.events)
        sees = Handled | Suspended | Resumed | PassBegan
        seen = ((name, event.sender) for name, event in events if isinstance(event, sees))
        strangers -= {sender for name, sender in seen if sender != name}
    for name in strangers:
        del histories[name]


def from_common_cut(
    histories: Mapping[str, ActorHistory],
    target: str,
    actors: Iterable[str],
    ended: Mapping[str, Collection[str]],
    at_hand: Collection[str] = (),
) -> str:
    """Let all histories start at one cut before `target`, the earliest possible; returns its id, "" for the beginning.

    `actors` are those that recorded `target`; `ended` gives, per snapshot, the actors that had ended before it. The
    beginning, and cuts whose snapshot is `at_hand`, are preferred, because a replay can start from there. Raises
    NoTrace if there is no such cut.
    """
    recorders = list(actors)
    missing = sorted(actor for actor in recorders if actor not in histories)
    if missing:
        raise NoTrace(f"there is no trace of {', '.join(missing[:5])}")
    if not recorders:
        raise NoTrace("no actor recorded it: there was none yet, or all had ended")
    candidates = _candidates(histories, target, recorders)
    for candidate in sorted(candidates, key=lambda cut: cut != "" and cut not in at_hand):
        gone = ended.get(candidate, ())
        places = {
            actor: len(history.events) if actor in gone else _start(history, candidate)
            for actor, history in histories.items()
        }
        if all(place is not None for place in places.values()) and not any(
            _is_behind(histories[actor], place or 0, target) for actor, place in places.items()
        ):
            for actor, place in places.items():
                if place:
                    histories[actor].start_at(candidate, place)
            return candidate
    raise NoTrace("the traces at hand start at different cuts: read it together with the snapshots before it")


def _candidates(histories: Mapping[str, ActorHistory], target: str, actors: Sequence[str]) -> list[str]:
    """The cuts at which histories start, or which they pass before they reach `target`; the earliest first."""
    places: dict[str, int] = {}
    for actor in actors:
        history = histories[actor]
        if history.place_of(target) is None:
            continue  # it came into being behind the target, so cuts that it passes may be behind the target too
        if history.base != target:
            places[history.base] = max(0, places.get(history.base, 0))
        for index, event in enumerate(history.events):
            if isinstance(event, Recorded):
                if event.snapshot == target:
                    break
                places[event.snapshot] = max(index + 1, places.get(event.snapshot, 0))
    return sorted(places, key=lambda snapshot: (places[snapshot], snapshot))


def _is_behind(history: ActorHistory, place: int, target: str) -> bool:
    """Whether a start at this place would lose the recording of the target."""
    recorded = history.place_of(target)
    return recorded is not None and place >= recorded


def _start(history: ActorHistory, snapshot: str) -> int | None:
    """Where a history passes the cut; 0 for an actor that came into being behind it; None if this is unknown.

    An actor that had neither sent nor received anything at the start of its history, and does not pass the cut later,
    came into being behind it.
    """
    if history.base == snapshot:
        return 0
    place = history.place_of(snapshot)
    unborn = not any((*history.sent.values(), *history.received.values()))
    return 0 if place is None and unborn else place
