"""Replay: a class that is declared deterministic, run again on the messages it got, must reach the recorded state.

This executes user code and unpickles: the caller has checked the signatures. The code must have the version that
recorded. The state from which a trace starts may have an older version, for example if a restore migrated it. Then it
is migrated here as well, and the replay proves this migration together with what followed.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from rayshot.audit.document import Document
from rayshot.audit.findings import NoTrace, Unproved
from rayshot.audit.history import Traced
from rayshot.audit.segment import AtTop, Event, Fired, Handled, Sent, Suspended
from rayshot.errors import CodeMismatch
from rayshot.format.codec import Codec, Frame, read_messages
from rayshot.format.entries import ActorEntry
from rayshot.format.pickle_bytes import holds_code
from rayshot.format.pickling import dump_state, load_state
from rayshot.inert.likeness import alike
from rayshot.inert.reader import read as read_inertly
from rayshot.model.calls import OpenCall, Question
from rayshot.model.cell import Cell
from rayshot.model.current import enter
from rayshot.model.handle import ActorHandle
from rayshot.model.hook_calls import tell_of_restore
from rayshot.model.methods import durable_inside
from rayshot.model.port import OutPort, swap_port
from rayshot.model.reply import Reply
from rayshot.model.specification import ActorSpecification, find_class
from rayshot.model.versions import version_of
from rayshot.snapshots.snapshot import Snapshot

DRIVER_PREFIX = "driver:"


def replay_all(document: Document, traced: Traced, snapshot: Snapshot, others: Sequence[Snapshot]) -> str:
    """Replay each deterministic actor from the common cut to its recording; returns what was proved.

    Raises Unproved if an actor reaches another state or sends other messages than before; NoTrace if there is nothing
    to replay from, or if the program has another version of the class; Incompatible if a class cannot be found or does
    not accept its state.
    """
    names = [name for name, actor in document.actors.items() if actor.born and actor.deterministic]
    if not names:
        raise NoTrace("no actor is of a class that is declared @rayshot.actor(deterministic=True)")
    base = next((one for one in others if str(one.id) == traced.base), None)
    if traced.base and base is None:
        raise NoTrace(f"snapshot {traced.base}, from which the trace starts, is not there any more")
    handled = compared = migrated = 0
    for name in names:
        history = traced.histories[name]
        place = history.place_of(document.snapshot)
        assert place is not None, "the clocks were checked before"
        events = history.events[:place]
        if any(isinstance(event, AtTop) for event in events):
            raise NoTrace(f"a method of {name} loops: such a class is not proved by running it again")
        if any(isinstance(event, Handled) and event.message is None for event in events):
            raise NoTrace("messages were not kept: rayshot.init(..., trace='full') keeps them")
        if any(isinstance(event, Sent) for event in events):
            raise NoTrace(f"beside its handlers {name} sent messages, and only handlers can be run again")
        if any(isinstance(event, Suspended) for event in events):
            raise NoTrace(f"handlers of {name} waited for answers: such a class is not proved by running it again")
        replay = Replay(name, snapshot)
        replay.check_version()
        with replay.at_work():
            if base is not None and name in base.actors:
                migrated += replay.load(base)
            compared += replay.run(events)
        handled += sum(isinstance(event, Handled) for event in events)
    rest = sum(actor.born for actor in document.actors.values()) - len(names)
    unsaid = f"; {rest:,} more are not declared deterministic" if rest else ""
    older = f", {migrated:,} of them from states of older versions, migrated again," if migrated else ""
    return (
        f"{len(names):,} actors, run again on {handled:,} messages{older or ','} come to the states that were recorded "
        f"and send again {compared:,} messages that were in flight{unsaid}"
    )


class _Channel(OutPort):
    """Notes the messages that are sent."""

    def __init__(self, replay: "Replay", receiver: str) -> None:
        self.codec = replay.codec
        self._replay = replay
        self._receiver = receiver

    def append(self, message: bytes) -> None:
        """See OutPort."""
        self._replay.note(self._receiver, message)


class Replay:
    """One actor's cell in a world where all messages were already sent; implements CellPort."""

    def __init__(self, name: str, snapshot: Snapshot) -> None:
        self.name = name
        self.system = system = snapshot.system
        self._recorded = _entry(snapshot, name)
        self._snapshot = snapshot
        self._moved = False
        self._waited = False
        self._in_flight = {
            receiver: deque[bytes | OpenCall | None](maxlen=channel.count)
            for (sender, receiver), channel in snapshot.channels.items()
            if sender == name and channel.count
        }
        self.codec = Codec(ActorHandle, lambda handle: handle.name_in(system), self.handle_of)
        self.cell = Cell(name, self, lambda: 0.0)
        self.sent: list[str] = []
        self._expected: Sequence[str] = ()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Inside, handlers of this actor run on this thread and use this port."""
        before = swap_port(lambda: self)
        enter(self.cell)
        try:
            yield
        finally:
            self.cell.coroutines.close()
            enter(None)
            swap_port(before)

    def check_version(self) -> None:
        """Raise NoTrace unless this program's class has the version that recorded."""
        recorded = self._recorded
        here = find_class(recorded.class_module, recorded.class_name)
        if here is not None and version_of(here) != recorded.version:
            raise NoTrace(
                f"{self.name} was recorded at version {recorded.version} of {here.__qualname__} and this program has "
                f"version {version_of(here)}: what it did can be run again with the code that did it only"
            )

    def load(self, base: Snapshot) -> bool:
        """Start from the state in `base`, as the actor's present class; returns whether the state was migrated."""
        entry, now = _entry(base, self.name), self._recorded
        if entry.state is None:
            return False
        stream = base.read(entry.state.stream)
        restored = base.id.incarnation != self._snapshot.id.incarnation
        renamed = (entry.class_module, entry.class_name) != (now.class_module, now.class_name)
        self._moved = (restored and holds_code(stream)) or renamed
        class_pickle = None if now.class_pickle is None else self._snapshot.read(now.class_pickle)
        named = now.class_module, now.class_name
        specification = ActorSpecification(*named, class_pickle, now.methods, now.options, now.version)
        user_class = specification.resolve()
        buffers = [bytearray(base.read(buffer)) for buffer in entry.state.buffers]
        try:
            own = self.cell.become(specification, user_class)
            self.cell.load(load_state(stream, buffers, own), entry.version)
        except (ImportError, AttributeError, TypeError, KeyError) as error:
            raise CodeMismatch(f"{self.name} cannot be loaded for a replay: {error!r}", actor=self.name) from error
        if restored:
            tell_of_restore(self.cell, None)
            self.sent.clear()
        return entry.version < now.version

    def run(self, events: Sequence[Event]) -> int:
        """Do again what the actor did; returns how many messages in flight it sent again.

        Raises Unproved, or NoTrace if the difference may have another reason.
        """
        try:
            for event in events:
                self.execute(event)
            self.compare(self._snapshot)
            return self.compare_messages(self._snapshot)
        except Unproved as error:
            if not self._moved:
                raise
            raise NoTrace(
                f"{self.name} was restored into another class, or by a program that has classes of its values anew, "
                f"and the replay does not know which values moved: {error}"
            ) from error

    def execute(self, event: Event) -> None:
        """Let the actor process one event again."""
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
        self.cell.now.sender = sender
        for fields in self.codec.unpacker(message):
            try:
                self.cell.handle(fields)
            except CodeMismatch:
                raise
            except (Exception, SystemExit):  # noqa: BLE001, S110 - the handler may have raised before too, and does so again
                pass
        self.cell.ask()
        if self._waited:  # the handler may have caught the error
            self.await_answers((), 0, None)
        if tuple(self.sent) != tuple(receivers):
            raise Unproved(
                f"{self.name}, run again, sent to {', '.join(self.sent) or 'nobody'} on a message of {sender}, and "
                f"before to {', '.join(receivers) or 'nobody'}: is its class deterministic?"
            )

    def note(self, receiver: str, message: bytes | OpenCall | None) -> None:
        """Note a message that the actor sent; None: not comparable. Of each channel only the last ones are kept."""
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
        """Raise Unproved unless the actor's state is the one in `snapshot`. The times of timers are not compared."""
        recorded = snapshot.recorded(self.name)
        pickled = dump_state(self.cell.state(), self.name, self.cell.instance)
        replayed = read_inertly(pickled.stream, [bytes(buffer) for buffer in pickled.buffers])
        for what, before, now in (
            ("state", recorded.state, replayed["state"]),
            ("pending calls", recorded.calls, replayed["calls"]),
            ("callees of pending calls", recorded.callees, replayed.get("callees") if recorded.callees else None),
            ("questions", recorded.questions, replayed.get("questions") if recorded.questions else None),
            ("timers", _without_time(recorded.timers), _without_time(replayed["timers"])),
        ):
            if not alike(before, now):
                raise Unproved(
                    f"{self.name}, run again, comes to other {what}: {now!r:.200} instead of {before!r:.200}"
                )

    def compare_messages(self, snapshot: Snapshot) -> int:
        """Raise Unproved unless the actor sends its messages in flight again; returns how many were compared."""
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
        """A call's message as it leaves the actor: a tell if nobody waits for its reply."""
        if not isinstance(message, OpenCall):
            return message
        return message.tell if message.call_id is None else self.codec.call(message.call_id, message.tell)

    def handle_of(self, name: str) -> ActorHandle:
        """See Port."""
        return ActorHandle(self.system, name, None, self)

    # What user code reaches ------------------------------------------------------------------------------------

    def is_there(self, name: str) -> bool | None:
        """See Port. In a replay nobody knows."""

    def channel(self, receiver: str) -> _Channel:
        """See Port."""
        return _Channel(self, receiver)

    def call(self, receiver: str, tell: bytes, *, durable: bool = False) -> Reply:
        """See Port."""
        if durable:
            raise durable_inside(self.cell.name, receiver)
        call = OpenCall(tell)
        self.cell.open_calls.append(call)
        self.note(receiver, call)
        return Reply(self.cell, call, receiver)

    def spawn(
        self, specification: ActorSpecification, name: str | None, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> ActorHandle:
        """See Port. An actor that was given no name gets the name that it had."""
        message = self.codec.create(specification.pack(), self.codec.tell("__init__", args, kwargs))
        if name is None:
            place = len(self.sent)
            name = self._expected[place] if place < len(self._expected) else ""
        self.note(name, message)
        return ActorHandle(self.system, name, frozenset(specification.methods), self)

    def await_answers(self, questions: Sequence[Question], count: int, timeout_s: float | None) -> NoReturn:
        """See CellPort."""
        del questions, count, timeout_s
        self._waited = True
        raise Unproved(f"{self.name}, run again, waits for an answer, and it did not before")

    def answered(self, question: Question) -> NoReturn:
        """See CellPort."""
        self.await_answers([question], 1, None)

    def answer(self, sender: str, call_id: int, value: object, *, ok: bool) -> None:
        """See CellPort."""
        if sender.startswith(DRIVER_PREFIX):
            return
        try:
            message = self.codec.reply(call_id, value, ok=ok)
        except Exception:  # noqa: BLE001 - encoding runs code of the value's class; then rayshot's error was sent
            message = None
        self.note(sender, message)

    def is_gone(self, caller: str) -> bool:
        """See CellPort: it took its answers when they were sent."""
        del caller
        return False

    def message_now(self) -> None:
        """See CellPort: no loop is replayed."""

    def sent_so_far(self) -> int:
        """See CellPort."""
        return len(self.sent)

    def await_pass(self, may_begin: Callable[[], bool]) -> NoReturn:
        """See CellPort."""
        raise Unproved(f"{self.name} loops, which is not replayed: {may_begin}")

    def request_snapshot(self) -> None:
        """See CellPort: the snapshot was already taken."""

    def request_end(self) -> None:
        """See CellPort: the end came after everything that is replayed."""

    def has_own_mail(self) -> bool:
        """See CellPort. It only decides about an end, and nothing after an end is replayed."""
        return False


def _entry(snapshot: Snapshot, name: str) -> ActorEntry:
    return next(actor for actor in snapshot.manifest.actors if actor.name == name)


def _without_time(timers: Any) -> list[Any]:
    return sorted(((method, args) for _, method, args in timers or ()), key=repr)
