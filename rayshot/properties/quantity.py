"""Something that can be counted in states and in messages: money, tokens, work."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from typing import Any

from rayshot.errors import ConfigError, PredicateFailed
from rayshot.inert.redaction import REDACTED, shown, shown_call
from rayshot.properties.global_state import ActorState, GlobalState, Message, timer_messages

Exact = int | Fraction
"""A sum without rounding: a float is added as the fraction that it is exactly."""
BITS_MAX = 4_096
"""A number with more bits is refused: no float holds it, and Python does not write much wider ones as text."""
REPLY = "reply"
CREATE = "create"
OfActor = str | Callable[[ActorState], Any]
OfMessage = str | Callable[[Message], Any] | None


@dataclass(frozen=True, slots=True)
class Quantity:
    """How much of something a state holds, and how much a message carries. See `quantity`."""

    of_actor: OfActor
    of_message: OfMessage

    def held(self, actor: ActorState) -> Exact:
        """Internal: how much an actor holds, with what its timers bring. Raises ConfigError if that is no number."""
        return self.own(actor) + sum(self.carried(message) for message in timer_messages(actor))

    def own(self, actor: ActorState) -> Exact:
        """Internal: as `held`, without timers."""
        if callable(self.of_actor):
            where = f"what {actor.name} holds"
            return exact(_called(self.of_actor, actor, where), where)
        return exact(seen(self.of_actor, actor.get(self.of_actor, 0)), f"{actor.name}.{self.of_actor}")

    def carried(self, message: Message) -> Exact:
        """Internal: how much a message carries. Raises ConfigError for a value that is not a number."""
        if self.of_message is None:
            return 0
        where = f"message {message.number} of {message.sender} to {message.receiver}, {message.method}"
        if callable(self.of_message):
            return exact(_called(self.of_message, message, where), where)
        if message.method != self.of_message or message.kind == REPLY:
            return 0
        args, kwargs = shown_call(message.method, message.args, message.kwargs)
        given = [*args, *kwargs.values()]
        if not given:
            raise ConfigError(f"{where}, has no argument to count; give a function of the message")
        return exact(seen(message.method, given[0]), where)


def quantity(of_actor: OfActor, of_message: OfMessage = None) -> Quantity:
    """Say what to count.

    Args:
        of_actor: an attribute that holds a number, in actors that have it; or a function of an ActorState.
        of_message: a method whose first argument is a number that is on its way; or a function of a Message, which also
            gets replies, the messages of timers and those that create an actor. None if messages carry nothing.

    An attribute and a method count nothing in a reply, nor in the context that `then` keeps for it. So while an actor
    awaits a reply with that method, the sum is unknown: the answer is None, with the reason. Give functions that count
    both: `of_message` the replies, by their `kind`, and `of_actor` the context of its `calls`.

    They do not count a constructor's arguments either. While an actor is not born yet, and its constructor has
    arguments, the sum is unknown too. A function finds these arguments in a message of the kind "create", whose method
    is `__init__`.

    A value that is named like a secret is counted only if it is shown, see `rayshot help security`.
    """
    return Quantity(of_actor, of_message)


@dataclass(frozen=True, slots=True)
class Sum:
    """How much there is in one state: `held` by each actor that holds any, `moving` on channels.

    `counted` is the number of actors with something to count, even if its value is 0. `untold` are sentences about what
    may carry more but is not counted.
    """

    held: dict[str, Exact]
    moving: dict[tuple[str, str], Exact]
    counted: int
    untold: tuple[str, ...] = ()

    @property
    def at_rest(self) -> Exact:
        """The amount that all actors hold."""
        return sum(self.held.values())

    @property
    def in_flight(self) -> Exact:
        """The amount that all messages carry."""
        return sum(self.moving.values())

    @property
    def total(self) -> Exact:
        """The whole amount."""
        return self.at_rest + self.in_flight


def add_up(what: Quantity, state: GlobalState) -> Sum:
    """Count in one state. It reads messages only if `what` counts them. Raises ConfigError for what is no number."""
    held: dict[str, Exact] = {}
    counted = 0
    untold: list[str] = []
    for actor in state.born():
        held[actor.name] = what.held(actor)
        untold += untold_of(what.of_message, actor)
        counted += callable(what.of_actor) or actor.get(what.of_actor, state) is not state
    moving: dict[tuple[str, str], Exact] = {}
    for message in state.messages() if what.of_message is not None else ():
        ends = message.sender, message.receiver
        untold += untold_in(what.of_message, message)
        moving[ends] = moving.get(ends, 0) + what.carried(message)
    some_held, some_moving = {name: n for name, n in held.items() if n}, {ends: n for ends, n in moving.items() if n}
    return Sum(some_held, some_moving, counted, tuple(untold))


def untold_of(counted: OfMessage, actor: ActorState) -> list[str]:
    """What a method does not count: replies that an actor awaits with that method, and the context kept for them."""
    return [
        f"{actor.name} awaits a reply of {call.callee or 'somebody'} with {counted}, and what replies carry is not "
        "counted by a method: give functions"
        for call in actor.calls
        if isinstance(counted, str) and counted in {call.method, call.on_error}
    ]


def untold_in(counted: OfMessage, message: Message) -> list[str]:
    """What a method does not count: the arguments of a constructor."""
    given = message.kind == CREATE and (message.args or message.kwargs)
    if not given or not isinstance(counted, str) or counted == message.method:
        return []
    creates = f"{message.sender} creates {message.receiver}"
    return [f"{creates}, and what a constructor is given is not counted by a method: give functions"]


def _called(function: Callable[[Any], Any], given: ActorState | Message, where: str) -> Any:
    try:
        return function(given)
    except SystemExit as error:  # the counting program goes on, with an error that says what happened
        raise PredicateFailed(f"{where}: the function that counts it raised SystemExit: {error}") from error


def exact(value: Any, where: str) -> Exact:
    """A number of Python or numpy, or a Decimal, without rounding.

    Raises ConfigError for anything else, for NaN, and for a number with more than BITS_MAX bits.
    """
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.number | numpy.bool_):
        value = value.item()
    if _is_wide(value):
        raise ConfigError(
            f"{where} has more than {BITS_MAX:,} bits and is not added up: give a function that returns a smaller one",
            at=where,
        )
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Fraction):
        return value
    if (isinstance(value, float) and isfinite(value)) or (isinstance(value, Decimal) and value.is_finite()):
        return Fraction(value)
    raise ConfigError(
        f"{where} is {value!r:.100}, which cannot be added up: name a number, or give a function", at=where
    )


def _is_wide(value: Any) -> bool:
    """Whether a number is so large, or so finely divided, that its digits cannot be written out."""
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        digits_max = BITS_MAX // 4
        return isinstance(exponent, int) and max(abs(exponent), abs(value.adjusted())) > digits_max
    if isinstance(value, int | Fraction):
        return max(value.numerator.bit_length(), value.denominator.bit_length()) > BITS_MAX
    return False


def size(number: Exact) -> Exact:
    """The number without its sign."""
    return -number if number < 0 else number


def plain(number: Exact) -> int | float:
    """A sum for people and JSON. A number larger than any float loses its fraction."""
    whole = number.denominator == 1 or size(number) > sys.float_info.max
    return int(number) if whole else float(number)


def seen(name: str, value: Any) -> Any:
    """The value; raises ConfigError if its name hides it."""
    if shown(name, value) is REDACTED or value is REDACTED:
        raise ConfigError(f"{name!r} is named like a secret and is not shown: ask for it with show_secrets", name=name)
    return value
