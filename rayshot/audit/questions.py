"""What states ask: a question whose answer a state awaits is on its way once: as itself, as its answer, or owed.

A handler that takes a question answers it before its actor records, or the state of its actor says that it owes the
answer. If the actor that was asked has ended, nothing need be on its way.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from rayshot.audit.document import Document
from rayshot.audit.findings import Unproved
from rayshot.errors import BadState, Damaged
from rayshot.snapshots.snapshot import Snapshot
from rayshot.snapshots.state import RecordedState, read_owed, read_questions

KEYS = b"questions", b"owed"
"""A recorded state that awaits or owes answers has one of these words, so no other one is read."""


class OpenQuestion(NamedTuple):
    """A question of an actor; its number is below 0."""

    caller: str
    number: int


class OwedCall(NamedTuple):
    """A call that an actor has handled and not answered."""

    owed_by: str
    caller: str
    call_id: int
    number: int


def check_questions(document: Document, snapshot: Snapshot) -> str:
    """Returns what was proved; "" if no state awaits an answer. Raises Unproved."""
    awaited: dict[OpenQuestion, str] = {}
    owed: set[OwedCall] = set()
    for name, recorded in _that_ask_or_owe(document, snapshot):
        try:
            awaited |= {OpenQuestion(name, call): callee for call, callee in read_questions(name, recorded.questions)}
            owed |= {OwedCall(name, *call) for call in read_owed(name, recorded.owed)}
        except BadState as error:
            raise Unproved(error.message) from error
    _check_owed(snapshot, owed)
    if not awaited:
        return ""
    on_their_way = Counter(_on_their_way(snapshot, {asked.caller for asked in awaited}))
    on_their_way.update(OpenQuestion(one.caller, one.call_id) for one in owed)
    return check_ways(awaited, on_their_way, document.ended)


def _check_owed(snapshot: Snapshot, owed: Collection[OwedCall]) -> None:
    """What the manifest says of calls of drivers that are not answered is what the states say."""
    in_states = {(one.caller, one.owed_by, one.number) for one in owed}
    for of, channel in snapshot.channels.items():
        for number in channel.entry.owed:
            if (*of, number) not in in_states:
                raise Unproved(f"the state of {of.receiver} does not owe {of.sender} an answer to message {number}")


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


def _that_ask_or_owe(document: Document, snapshot: Snapshot) -> Iterator[tuple[str, RecordedState]]:
    for entry in snapshot.manifest.actors:
        if document.actors[entry.name].born and entry.state is not None:
            try:
                stream = snapshot.read(entry.state.stream)
                if any(key in stream for key in KEYS):
                    yield entry.name, snapshot.recorded(entry.name)
            except Damaged:  # what is said of chunks and states covers this
                continue


def _on_their_way(snapshot: Snapshot, callers: Collection[str]) -> Iterator[OpenQuestion]:
    for of, channel in snapshot.channels.items():
        if of.sender in callers or of.receiver in callers:
            for message in channel.messages:
                if message.call_id is not None:
                    yield OpenQuestion(of.sender if message.kind == "call" else of.receiver, message.call_id)
