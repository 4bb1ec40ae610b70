"""Ready-made: replies that never come."""

from collections.abc import Iterator
from typing import NamedTuple

from rayshot.properties.global_state import GlobalState
from rayshot.properties.property import Answer, Property
from rayshot.snapshots.relation import some_of


class Wait(NamedTuple):
    """A reply that `caller` awaits. `where` says what is on its way: the request, the reply, or nothing.

    It may also be owed: the callee has handled the request, and will reply later.

    `callee` is None if an older rayshot recorded the call.
    """

    caller: str
    callee: str | None
    number: int
    method: str
    where: str

    def __str__(self) -> str:
        return f"{self.caller}.{self.method} awaits {self.callee or 'somebody'}"


REQUEST, REPLY, OWED, NOTHING = "request", "reply", "owed", "nothing"
KEPT = "(a reply that is kept)"
"""In place of the method that gets it."""


def waits(state: GlobalState) -> list[Wait]:
    """All awaited replies, also those that states keep. It reads states, and messages too if any reply is awaited."""
    pending = [(actor.name, call.number, call.callee, call.method) for actor in state.born() for call in actor.calls]
    born = [name for name, actor in state.actors.items() if actor.status == "born"]
    pending += [(name, number, callee, KEPT) for name in born for number, callee in state.questions(name).items()]
    known = {key: OWED for name in born for key in state.owed(name)} if pending else {}
    known |= _moving(state) if pending else {}
    return [
        Wait(caller, callee, number, method, known.get((caller, number), NOTHING))
        for caller, number, callee, method in pending
    ]


def lost_reply() -> Property:
    """Some actor awaits a reply that never comes: neither its request nor the reply is in flight, and nobody owes it.

    A handler that takes a request sends its reply in the same step, or its actor's state says that it owes it. If none
    of this is so, the reply never comes: the callee ended before it took the request, for example. It stays so until
    the caller ends, as then nobody awaits the reply any more. So it is stable as long as no actor ends while it awaits
    a reply.

    If an older rayshot recorded the call, without the name of the callee, the answer is unknown, unless the request or
    the reply is seen.
    """
    condition = "no actor ends while it awaits a reply"
    return Property("lost reply", "stable", _lost, (condition,))


def _lost(state: GlobalState) -> Answer:
    found = [wait for wait in waits(state) if wait.where == NOTHING]
    lost = [wait for wait in found if wait.callee is not None]
    unknown = [wait for wait in found if wait.callee is None]
    evidence = {
        "lost": [{"caller": one.caller, "callee": one.callee, "call_id": one.number} for one in lost],
        "unknown": [{"caller": one.caller, "call_id": one.number} for one in unknown],
    }
    if lost:
        return Answer.yes(f"nothing is on its way: {some_of(map(str, lost))}", evidence)
    if unknown:
        return Answer.unknown(f"recorded without the name of the callee: {some_of(map(str, unknown))}", evidence)
    return Answer.no("every reply that is awaited can come", evidence)


def _moving(state: GlobalState) -> Iterator[tuple[tuple[str, int], str]]:
    """For each call, by caller and number, what is in flight for it."""
    for message in state.messages():
        if message.call_id is not None:
            if message.kind == "call":
                yield (message.sender, message.call_id), REQUEST
            else:
                yield (message.receiver, message.call_id), REPLY
