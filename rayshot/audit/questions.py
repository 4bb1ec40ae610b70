"""What states ask: a question whose answer a state awaits is on its way exactly once, as itself or as its answer.

A handler that takes a question answers it before its actor records, so no state owes an answer. If the actor that was
asked has ended, nothing need be on its way.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from rayshot.audit.document import Document
from rayshot.audit.findings import Unproved
from rayshot.errors import Damaged
from rayshot.snapshots.snapshot import Snapshot

KEY = b"questions"
"""A recorded state that awaits answers has this word, so no other one is read."""


class OpenQuestion(NamedTuple):
    """A question of an actor; its number is below 0."""

    caller: str
    number: int


def check_questions(document: Document, snapshot: Snapshot) -> str:
    """Returns what was proved; "" if no state awaits an answer. Raises Unproved."""
    awaited = dict(_awaited(document, snapshot))
    if not awaited:
        return ""
    return check_ways(awaited, Counter(_on_their_way(snapshot, {asked.caller for asked in awaited})), document.ended)


def check_ways(
    awaited: Mapping[OpenQuestion, str], on_their_way: Mapping[OpenQuestion, int], ended: Collection[str]
) -> str:
    """As `check_questions`; `awaited` has who was asked, and `on_their_way` counts questions and answers in flight."""
    for asked, callee in awaited.items():
        count = on_their_way.get(asked, 0)
        if count > 1:
            raise Unproved(f"question {asked.number} of {asked.caller} to {callee} is on its way {count} times")
        if count == 0 and callee not in ended:
            raise Unproved(f"question {asked.number} of {asked.caller} to {callee} is lost: nothing is on its way")
    return f"each of {len(awaited):,} questions whose answers states await is on its way once"


def _awaited(document: Document, snapshot: Snapshot) -> Iterator[tuple[OpenQuestion, str]]:
    for entry in snapshot.manifest.actors:
        if document.actors[entry.name].born and entry.state is not None:
            try:
                awaits = KEY in snapshot.read(entry.state.stream)
                recorded = snapshot.recorded(entry.name).questions if awaits else None
            except Damaged:  # what is said of chunks and states covers this
                continue
            yield from _open_in(entry.name, recorded or {})


def _open_in(caller: str, recorded: object) -> Iterator[tuple[OpenQuestion, str]]:
    for number, question in recorded.items() if isinstance(recorded, Mapping) else ((None, None),):
        match number, getattr(question, "args", None):
            case int(), (_, str(callee), None):
                yield OpenQuestion(caller, number), callee
            case int(), (_, str(), _) | ():  # it has an outcome, or is left out as the state is large
                pass
            case _:
                raise Unproved(f"the questions of {caller} are not laid out as documented")


def _on_their_way(snapshot: Snapshot, callers: Collection[str]) -> Iterator[OpenQuestion]:
    for of, channel in snapshot.channels.items():
        if of.sender in callers or of.receiver in callers:
            for message in channel.messages:
                if message.call_id is not None:
                    yield OpenQuestion(of.sender if message.kind == "call" else of.receiver, message.call_id)
