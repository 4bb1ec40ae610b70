"""Ready-made properties that count: remaining work, a counter, tokens, sums."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rayshot.errors import ConfigError
from rayshot.properties.global_state import ActorState, GlobalState, Message
from rayshot.properties.property import OUTSIDE, UNLESS_A_DRIVER_SPEAKS, Answer, Kind, Property
from rayshot.properties.quantity import (
    REPLY,
    Exact,
    OfActor,
    OfMessage,
    Quantity,
    add_up,
    exact,
    plain,
    quantity,
    seen,
    size,
    untold_in,
    untold_of,
)
from rayshot.snapshots.relation import some_of


def termination(sources: Mapping[str, str] | None = None) -> Property:
    """The computation is over: no message is in flight, no timer is set, no reply is awaited, every source has ended.

    Stable if the system is closed, as then nothing more can happen. So the conditions are that no driver speaks from
    before the snapshot began, and that no actor is woken from outside: by a thread of its own, or by a source that is
    not named here. Messages that the program that took the snapshot had told before, and that are not inside it, count
    as in flight.

    Once the computation is over no counter moves. If one did, a driver came, spoke and went between two snapshots, or a
    condition was broken in another way: a verdict says nothing about a cut in which any counter differs.

    A pending call whose reply can never come prevents the answer that it is over; `lost_reply` finds such a call.

    Args:
        sources: actors that read from outside, each with the attribute that is true once it has reached its end.
            An actor that has ended is at its end too.
    """
    outside = "no thread of an actor, and no source that was not named, brings anything in"
    conditions = (outside, UNLESS_A_DRIVER_SPEAKS)
    return Property("termination", "stable", _Over(dict(sources or {})), conditions, closed=True, still=True)


@dataclass(frozen=True, slots=True)
class _Over:
    sources: dict[str, str]

    def __call__(self, state: GlobalState) -> Answer:
        evidence: dict[str, Any] = {"told": dict(state.told)}
        if state.in_flight:
            return Answer.no(f"messages in flight: {state.in_flight:,}", evidence)
        if state.left_out:
            count = sum(state.left_out.values())
            return Answer.no(f"messages told before and not inside the snapshot: {count:,}", evidence)
        unborn = [name for name, info in state.actors.items() if info.status != "born"]
        if unborn:
            return Answer.no(f"not born yet: {some_of(unborn)}", evidence)
        for actor in state.born():
            if actor.timers:
                return Answer.no(f"{actor.name} has set a timer for {actor.timers[0].method}", evidence)
            if actor.calls:
                return Answer.no(f"{actor.name} awaits a reply for {actor.calls[0].method}", evidence)
            done = self.sources.get(actor.name)
            if done is not None and not _truth(actor.get(done)):
                return Answer.no(f"the source {actor.name} has not come to its end", evidence)
        unknown = sorted(self.sources.keys() - state.actors.keys() - state.ended)
        if unknown:
            return Answer.unknown(f"there is no source {some_of(unknown)}", evidence)
        return Answer.yes("nothing is in flight, no timer is set and no reply awaited", evidence)


def counter_reached(actor: str, attribute: str, least: float) -> Property:
    """A counter of one actor, or a stage of its work, has reached `least`.

    Stable if the counter never falls. It is a property of only one actor. If the actor has ended, its counter is gone,
    and the answer is unknown.
    """
    never = f"{actor}.{attribute} never falls"
    wanted = exact(least, "least")
    return Property(f"{actor}.{attribute} >= {plain(wanted)}", "stable", _Reached(actor, attribute, wanted), (never,))


@dataclass(frozen=True, slots=True)
class _Reached:
    actor: str
    attribute: str
    least: Exact

    def __call__(self, state: GlobalState) -> Answer:
        if self.actor in state.ended:
            return Answer.unknown(f"{self.actor} has ended, and its counter is gone")
        info = state.actors.get(self.actor)
        if info is None or info.status != "born":
            return Answer.no(f"{self.actor} is not born yet")
        actor = state.actor(self.actor)
        if actor.get(self.attribute) is None:
            return Answer.unknown(f"{self.actor} has no {self.attribute}")
        count = Quantity(self.attribute, None).own(actor)
        evidence = {"count": plain(count)}
        return Answer(count >= self.least, f"{self.attribute} is {plain(count):,}", evidence)


def token_census(
    holds: OfActor, carries: OfMessage, *, expected: int = 1, or_more: bool = False, name: str | None = None
) -> Property:
    """There are exactly `expected` tokens, held by actors or in messages; with `or_more`, at least as many.

    If no step makes or destroys a token, one token, or any fixed number above 0, is an invariant: a no proves a bug.
    Zero tokens are stable if nobody makes tokens: the token was lost. Two or more, with `or_more`, are stable if nobody
    destroys any: one was doubled.

    A method counts no token in a reply, nor in the context that `then` keeps for it. So while an actor awaits a reply
    with that method the answer is unknown, unless there are more than `expected` without it. Give functions that count
    both: `holds` the context of `actor.calls`, and `carries` the replies, by their `kind`. The same is true of a
    constructor's arguments while the message of the kind "create" that brings them is in flight.

    Args:
        holds: the attribute that is true, or a number of tokens, if an actor holds one; or a function of ActorState.
            A value that is neither counts as one token if it is not empty. A value that is named like a secret is
            counted only if it is shown, except true and false.
        carries: the method whose message brings a token; or a function of a Message, which is given all kinds.
        expected: the number of tokens.
        or_more: whether more are allowed.
        name: the property's name in answers.
    """
    if expected < 0 or (or_more and expected == 0):
        raise ConfigError(
            f"expected={expected}, or_more={or_more}: tokens are counted from 0, and 0 or more always are"
        )
    conditions = (
        *(("nobody makes tokens",) if not or_more else ()),
        *(("nobody destroys tokens",) if expected else ()),
    )
    shown = name or f"tokens {'>=' if or_more else '='} {expected}"
    kind: Kind = "invariant" if expected and not or_more else "stable"
    return Property(shown, kind, _Census(holds, carries, expected, or_more), conditions)


@dataclass(frozen=True, slots=True)
class _Census:
    holds: OfActor
    carries: OfMessage
    expected: int
    or_more: bool

    def __call__(self, state: GlobalState) -> Answer:
        holds, carries, having, untold = self.holds, self.carries, set[str](), list[str]()

        def held(actor: ActorState) -> Any:
            untold.extend(untold_of(carries, actor))
            if callable(holds):
                return holds(actor)
            value = actor.get(holds, state)
            if value is state:
                return 0
            value = seen(holds, value)
            having.add(actor.name)
            return value if isinstance(value, int) else int(_truth(value))

        def carried(message: Message) -> Any:
            untold.extend(untold_in(carries, message))
            return carries(message) if callable(carries) else message.kind != REPLY and message.method == carries

        found = add_up(quantity(held, carried), state)
        count = found.total
        evidence = {
            "count": plain(count),
            "holders": sorted(found.held),
            "on_their_way": [f"{sender} -> {receiver}" for sender, receiver in sorted(found.moving)],
        }
        if not callable(holds) and not having:
            return Answer.unknown(f"no actor has an attribute {holds}", evidence)
        if count == self.expected == 0 and state.left_out:
            return Answer.unknown(OUTSIDE, evidence)
        if untold and not (count > self.expected or (self.or_more and count == self.expected)):
            return Answer.unknown(untold[0], evidence)
        enough = count >= self.expected if self.or_more else count == self.expected
        return Answer(enough, f"tokens: {plain(count):,}, {some_of(_where(found.held, found.moving))}", evidence)


def conserved_sum(of: Quantity, total: float, *, tolerance: float = 0, name: str | None = None) -> Property:
    """What all actors hold and all messages carry is `total` together.

    An invariant if no step makes or loses any of it, and drivers bring nothing in. Then a no proves a bug, as the
    recorded state can be reached; it does not show that the sum is wrong now. `conservation` finds where it broke. The
    answer is unknown while a reply or a constructor's arguments may carry some that `of` does not count, see
    `quantity`.

    Args:
        of: the quantity to add up, see `quantity`. Sums are exact.
        total: the expected sum.
        tolerance: how far the sum may differ. Give one if the actors themselves round, as with floats.
        name: the property's name in answers.
    """
    conditions = ("no step makes or loses any of it", "drivers bring nothing in")
    wanted, allowed = exact(total, "total"), exact(tolerance, "tolerance")
    return Property(name or f"sum = {plain(wanted):,}", "invariant", _Conserved(of, wanted, allowed), conditions)


@dataclass(frozen=True, slots=True)
class _Conserved:
    of: Quantity
    total: Exact
    tolerance: Exact = field(default=0)

    def __call__(self, state: GlobalState) -> Answer:
        found = add_up(self.of, state)
        evidence = {"held": plain(found.at_rest), "in_flight": plain(found.in_flight), "total": plain(found.total)}
        if not found.counted and not callable(self.of.of_actor):
            return Answer.unknown(f"no actor has an attribute {self.of.of_actor}", evidence)
        if found.untold:
            return Answer.unknown(found.untold[0], evidence)
        off = found.total - self.total
        why = f"{plain(found.at_rest):,} held and {plain(found.in_flight):,} in flight"
        return Answer(size(off) <= self.tolerance, f"{why}, {plain(off):+,} to {plain(self.total):,}", evidence)


def _where(held: Mapping[str, Exact], moving: Mapping[tuple[str, str], Exact]) -> list[str]:
    return [*sorted(held), *(f"{sender} -> {receiver}" for sender, receiver in sorted(moving))] or ["nowhere"]


def _truth(value: Any) -> bool:
    return value is not None and (value.any() if hasattr(value, "any") else bool(value))
