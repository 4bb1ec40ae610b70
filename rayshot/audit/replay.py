"""Replay: a class that is declared deterministic, run again on the messages it got, must come to the recorded state.

This executes user code and unpickles: the caller has looked at the signatures.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rayshot.audit.document import Document
from rayshot.audit.findings import NoTrace, Unproved
from rayshot.audit.history import Traced
from rayshot.audit.segment import Event, Fired, Handled
from rayshot.errors import CodeMismatch
from rayshot.format.codec import Codec, Frame, read_messages
from rayshot.format.inert import alike
from rayshot.format.inert import read as read_inertly
from rayshot.format.pickling import dump_state, load_state
from rayshot.model.cell import Cell
from rayshot.model.current import enter
from rayshot.model.handle import ActorHandle
from rayshot.model.port import swap_port
from rayshot.model.reply import OpenCall, Reply
from rayshot.model.specification import ActorSpecification
from rayshot.store.snapshot import Snapshot

DRIVER_PREFIX = "driver:"


def replay_all(document: Document, traced: Traced, snapshot: Snapshot, others: Sequence[Snapshot]) -> str:
    """Replay each deterministic actor from the common cut to its recording; returns what was proved.

    Raises Unproved where one comes to another state or sends otherwise than it did, NoTrace where there is nothing to
    replay from, CodeMismatch where a class is not to be found.
    """
    names = [name for name, actor in document.actors.items() if actor.born and actor.deterministic]
    if not names:
        raise NoTrace("no actor is of a class that is declared @rayshot.actor(deterministic=True)")
    base = next((one for one in others if str(one.id) == traced.base), None)
    if traced.base and base is None:
        raise NoTrace(f"snapshot {traced.base}, from which the trace starts, is not there any more")
    handled = compared = 0
    for name in names:
        history = traced.histories[name]
        place = history.place_of(document.snapshot)
        assert place is not None, "the clocks were checked before"
        events = history.events[:place]
        if any(isinstance(event, Handled) and event.message is None for event in events):
            raise NoTrace("messages were not kept: rayshot.init(..., trace='full') keeps them")
        replay = _Replay(name, snapshot)
        with replay.at_work():
            if base is not None and name in base.actors:
                replay.load(base)
            for event in events:
                replay.execute(event)
                handled += isinstance(event, Handled)
            replay.compare(snapshot)
            compared += replay.compare_messages(snapshot)
    rest = sum(actor.born for actor in document.actors.values()) - len(names)
    unsaid = f"; {rest:,} more are not declared deterministic" if rest else ""
    return (
        f"{len(names):,} actors, run again on {handled:,} messages, come to the states that were recorded and send "
        f"again {compared:,} messages that were in flight{unsaid}"
    )


class _Channel:
    """Notes what is sent."""

    def __init__(self, replay: "_Replay", receiver: str) -> None:
        self._replay = replay
        self._receiver = receiver

    def append(self, message: bytes) -> None:
        """See OutPort."""
        self._replay.note(self._receiver, message)


class _Replay:
    """One actor's cell in a world in which everything was sent before: implements CellPort."""

    def __init__(self, name: str, snapshot: Snapshot) -> None:
        self.name = name
        self.system = system = snapshot.system
        self._in_flight = {
            receiver: deque[bytes | OpenCall | None](maxlen=channel.count)
            for (sender, receiver), channel in snapshot.channels.items()
            if sender == name and channel.count
        }
        self.codec = Codec(ActorHandle, lambda handle: handle.name_in(system), self._handle_of)
        self.cell = Cell(name, self, lambda: 0.0)
        self.sent: list[str] = []
        self._expected: Sequence[str] = ()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Handlers of this actor run here."""
        before = swap_port(lambda: self)
        enter(self.cell)
        try:
            yield
        finally:
            enter(None)
            swap_port(before)

    def load(self, base: Snapshot) -> None:
        """Start from the state that `base` holds."""
        entry = next(actor for actor in base.manifest.actors if actor.name == self.name)
        if entry.state is None:
            return
        class_pickle = None if entry.class_pickle is None else base.read(entry.class_pickle)
        specification = ActorSpecification(
            entry.class_module, entry.class_name, class_pickle, entry.methods, entry.options
        )
        user_class = specification.resolve()
        buffers = [bytearray(base.read(buffer)) for buffer in entry.state.buffers]
        try:
            own = self.cell.become(specification, user_class)
            self.cell.load(load_state(base.read(entry.state.stream), buffers, own))
        except (AttributeError, TypeError, KeyError) as error:
            raise CodeMismatch(f"{self.name} cannot be loaded for a replay: {error!r}", actor=self.name) from error

    def execute(self, event: Event) -> None:
        """Let the actor do again what it did."""
        match event:
            case Handled(sender, receivers, message):
                assert message is not None
                self._handle(sender, receivers, message)
            case Fired(message):
                self._fire(message)
            case _:
                pass

    def _handle(self, sender: str, receivers: Sequence[str], message: bytes) -> None:
        self.sent.clear()
        self._expected = receivers
        self.cell.sender = sender
        for fields in self.codec.unpacker(message):
            try:
                self.cell.handle(fields)
            except CodeMismatch:
                raise
            except (Exception, SystemExit):  # noqa: BLE001, S110 - it may have raised before as well, and does so again
                pass
        self.cell.open_calls.clear()
        if tuple(self.sent) != tuple(receivers):
            raise Unproved(
                f"{self.name}, run again, sent to {', '.join(self.sent) or 'nobody'} on a message of {sender}, and "
                f"before to {', '.join(receivers) or 'nobody'}: is its class deterministic?"
            )

    def note(self, receiver: str, message: bytes | OpenCall | None) -> None:
        """The actor sent this; None stands for what cannot be compared. Of each channel the last ones are kept."""
        self.sent.append(receiver)
        if receiver in self._in_flight:
            self._in_flight[receiver].append(message)

    def _fire(self, message: bytes | None) -> None:
        assert message is not None
        self.note(self.name, message)
        method, args, _ = self.codec.decode_tell(message)
        for timer in sorted(self.cell.timers, key=lambda timer: timer.due):
            if (timer.method, list(timer.args)) == (method, list(args)):
                self.cell.timers.remove(timer)
                return
        raise Unproved(f"{self.name}, run again, has not set the timer that fired")

    def compare(self, snapshot: Snapshot) -> None:
        """Raise Unproved unless the actor is in the state that `snapshot` holds. A timer's time is not compared."""
        recorded = snapshot.recorded(self.name)
        pickled = dump_state(self.cell.state(), self.name, self.cell.instance)
        replayed = read_inertly(pickled.stream, [bytes(buffer) for buffer in pickled.buffers])
        for what, before, now in (
            ("state", recorded.state, replayed["state"]),
            ("pending calls", recorded.calls, replayed["calls"]),
            ("timers", _without_time(recorded.timers), _without_time(replayed["timers"])),
        ):
            if not alike(before, now):
                raise Unproved(
                    f"{self.name}, run again, comes to other {what}: {now!r:.200} instead of {before!r:.200}"
                )

    def compare_messages(self, snapshot: Snapshot) -> int:
        """Raise Unproved unless what was sent and is in flight is what the actor sends again; returns how many."""
        compared = 0
        for receiver, sent in self._in_flight.items():
            stored = snapshot.channel(self.name, receiver).messages
            for before, message in zip(stored[len(stored) - len(sent) :], sent, strict=True):
                if message is None:
                    continue
                (now,) = read_messages(Frame(before.number, 1, self._settled(message)))
                if before[:3] != now[:3] or not alike([before.args, dict(before.kwargs)], [now.args, dict(now.kwargs)]):
                    raise Unproved(
                        f"message {before.number} of {self.name} to {receiver} is {before.method}{before.args!r:.100}, "
                        f"but {self.name}, run again, sends {now.method}{now.args!r:.100}"
                    )
                compared += 1
        return compared

    def _settled(self, message: bytes | OpenCall) -> bytes:
        """A call is a tell where nobody waits for its reply, as it is when it leaves an actor."""
        if not isinstance(message, OpenCall):
            return message
        return message.tell if message.call_id is None else self.codec.call(message.call_id, message.tell)

    def _handle_of(self, name: str) -> ActorHandle:
        return ActorHandle(self.system, name, None, self)

    # What user code reaches ------------------------------------------------------------------------------------

    def channel(self, receiver: str) -> _Channel:
        """See Port."""
        return _Channel(self, receiver)

    def call(self, receiver: str, tell: bytes) -> Reply:
        """See Port."""
        call = OpenCall(tell)
        self.cell.open_calls.append(call)
        self.note(receiver, call)
        return Reply(self.cell, call)

    def spawn(
        self, specification: ActorSpecification, name: str | None, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> ActorHandle:
        """See Port. Who was given no name gets the one that it had."""
        message = self.codec.create(specification.pack(), self.codec.tell("__init__", args, kwargs))
        if name is None:
            place = len(self.sent)
            name = self._expected[place] if place < len(self._expected) else ""
        self.note(name, message)
        return ActorHandle(self.system, name, frozenset(specification.methods), self)

    def answer(self, sender: str, call_id: int, value: object, *, ok: bool) -> None:
        """See CellPort."""
        if sender.startswith(DRIVER_PREFIX):
            return
        try:
            message = self.codec.reply(call_id, value, ok=ok)
        except Exception:  # noqa: BLE001 - encoding runs code of the value's class; then an error of ours was sent
            message = None
        self.note(sender, message)

    def request_snapshot(self) -> None:
        """See CellPort: the snapshot was taken."""

    def request_end(self) -> None:
        """See CellPort: the end came behind all that is replayed."""


def _without_time(timers: Any) -> list[Any]:
    return sorted(((method, args) for _, method, args in timers or ()), key=repr)
