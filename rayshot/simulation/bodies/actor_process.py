"""A process with a user's actor inside, a Cell. The messages of a handler are numbered when the handler has ended.

This corresponds to `rayshot.runtime.actor.process` and its worker, for one thread. A snapshot is recorded as soon as
the process has learned of it: no handler runs while a machine gets an event.
"""

import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import Any

from rayshot.errors import ActorDied, OutsideHandler
from rayshot.format.codec import Codec, Frame, creation_of
from rayshot.format.pickling import dump_state
from rayshot.model.calls import EXPIRE, LoopBegunAnew, LoopEnded, OpenCall, Question, encode_reply, no_answer
from rayshot.model.cell import Cell
from rayshot.model.current import enter, running_cell
from rayshot.model.dead_letter import DeadLetter
from rayshot.model.event_loop import Coroutines
from rayshot.model.handle import ActorHandle
from rayshot.model.hook_calls import tell_of_restore
from rayshot.model.methods import durable_inside
from rayshot.model.port import OutPort, swap_port
from rayshot.model.reply import Reply
from rayshot.model.specification import ActorSpecification
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.events import CaptureFailed, DeadlinePassed, SnapshotRequested
from rayshot.protocol.identity import is_driver
from rayshot.protocol.participant import Participant
from rayshot.simulation.bodies.actor_surroundings import ActorSurroundings
from rayshot.simulation.bodies.named_world import name_in
from rayshot.simulation.bodies.strand import Strand
from rayshot.simulation.bodies.suspension import SimulatedSuspension
from rayshot.simulation.bodies.virtual_loop import no_loop_around
from rayshot.simulation.bodies.world_snapshot import RecordedActor
from rayshot.simulation.world.packets import Packet
from rayshot.simulation.world.process import Process


class ProcessOutPort(OutPort):
    """The sending end of one channel."""

    __slots__ = ("_process", "_receiver", "codec")

    def __init__(self, process: "SimulatedActor", receiver: str) -> None:
        self._process = process
        self.codec = process.codec
        self._receiver = receiver

    def append(self, message: bytes) -> None:
        """Send an encoded message."""
        self._process.send(self._receiver, message)


class SimulatedActor(Process):
    """See the module. `children` are the actors that the running handler made. `ending`: it handles nothing more."""

    world: ActorSurroundings

    def __init__(self, name: str, machine: Participant, world: ActorSurroundings) -> None:
        super().__init__(name, machine, world)
        self.system = world.system
        self.codec = Codec(ActorHandle, lambda handle: name_in(handle, world), self.handle_of)
        self.cell = Cell(name, self, world.clock, Coroutines(name, world.event_loop))
        self.suspension = SimulatedSuspension(self)
        self.cell.number_now = lambda: (
            self.cell.now.loop.number if self.cell.now.loop else self.received[self.cell.now.sender]
        )
        self.children: list[str] = []
        self.ending = False
        self._busy = False
        self._settling = False
        self._gone: set[str] = set()
        self._refused: dict[str, int] = {}
        self._strand: Strand | None = None
        """The handler that runs or waits."""
        self._ending_handler: Callable[[], str] = str
        self._sends: list[tuple[str, bytes | OpenCall]] | None = None
        self._sent_by_hook: list[tuple[str, bytes | OpenCall]] = []
        self._requests = 0
        self._message = b""
        """The message that is handled, or was handled last."""
        self._sent_count = 0

    @property
    def is_born(self) -> bool:
        """See Process."""
        return self.cell.born

    @property
    def is_ending(self) -> bool:
        """See Process."""
        return self.ending

    @property
    def is_busy(self) -> bool:
        """See Process."""
        return self._busy

    @property
    def owed(self) -> dict[str, tuple[int, ...]]:
        """See Process."""
        return self.cell.owed.to_drivers

    @property
    def is_in_handler(self) -> bool:
        """Whether a handler runs, waits, or is at the top of its loop."""
        return self._strand is not None

    def next_senders(self) -> list[str]:
        """See Process; none while a handler waits."""
        return [] if self.suspension.is_on or self.cell.now.loop is not None else super().next_senders()

    def is_creation(self, message: bytes) -> bool:
        """See Process."""
        return creation_of(Frame(1, 1, message)) is not None

    def state(self) -> RecordedActor:
        """See Process."""
        if not self.cell.born:
            return RecordedActor(self.cell.specification, None)
        captured = dump_state(self.cell.state(), self.name, self.cell.instance)
        copies = tuple(memoryview(bytes(buffer)) for buffer in captured.buffers)  # else they are views of live objects
        return RecordedActor(self.cell.specification, captured._replace(buffers=copies))

    # Port: what user code reaches ------------------------------------------------------------------------------

    def handle_of(self, name: str) -> ActorHandle:
        """This process's handle of the actor `name`."""
        return ActorHandle(self.system, name, None, self)

    def is_there(self, name: str) -> bool | None:
        """See Port."""
        return self.world.is_there(name)

    def channel(self, receiver: str) -> OutPort:
        """The channel to `receiver`."""
        return ProcessOutPort(self, receiver)

    def send(self, receiver: str, message: bytes | OpenCall) -> None:
        """Send when the running handler has ended. Raises OutsideHandler if no handler runs."""
        if self._sends is None:
            raise OutsideHandler(
                f"a handle that actor {self.name!r} holds was used outside its handlers: "
                "in a test use world.get_actor(name), which sends as the test's driver"
            )
        self._sends.append((receiver, message))
        self._sent_count += 1

    def call(self, receiver: str, tell: bytes, *, durable: bool = False) -> Reply:
        """Send a call; when the handler ends, it is known whether it wants a reply."""
        if durable:
            raise durable_inside(self.name, receiver)
        call = OpenCall(tell)
        self.send(receiver, call)
        self.cell.open_calls.append(call)
        return Reply(self.cell, call, receiver)

    def spawn(
        self, specification: ActorSpecification, name: str | None, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> ActorHandle:
        """Make an actor and send it its constructor's call."""
        message = self.codec.create(specification.pack(), self.codec.tell("__init__", args, kwargs))
        name = self._free_name(specification.class_name) if name is None else name
        made = self.world.spawn(specification, name)
        self.children.append(made)
        self.send(made, message)
        return ActorHandle(self.system, made, frozenset(specification.methods), self)

    def _free_name(self, class_name: str) -> str:
        """The first name for an anonymous actor that is free: a program may have given one by hand."""
        while self.world.is_taken(name := self.cell.name_child(class_name)):
            pass
        return name

    def answer(self, sender: str, call_id: int, value: object, *, ok: bool) -> None:
        """Send the outcome of a call back."""
        if is_driver(sender):
            self.world.answer_driver(self, sender, call_id, value, ok=ok)
            return
        self.send(sender, encode_reply(self.codec, call_id, value, ok=ok))

    def is_gone(self, caller: str) -> bool:
        """See CellPort."""
        return not self.world.takes_answers(caller) if is_driver(caller) else caller in self._gone

    def await_answers(self, questions: Sequence[Question], count: int, timeout_s: float | None) -> None:
        """See CellPort."""
        self.suspension.wait(questions, count, timeout_s)

    def answered(self, question: Question) -> Awaitable[None]:
        """See CellPort."""
        return self.suspension.answered(question)

    def message_now(self) -> bytes | None:
        """See CellPort."""
        return self._message  # in a world values are inside messages

    def sent_so_far(self) -> int:
        """See CellPort."""
        return self._sent_count

    def await_pass(self, may_begin: Callable[[], bool]) -> bool:
        """See CellPort."""
        self.leave_all()
        return self.suspension.await_pass(may_begin)

    def at_top(self, *, is_timed: bool) -> None:
        """Tell the world that a method is at the top of a pass of its loop."""
        self.world.at_top(self, is_timed=is_timed)

    def leave_all(self) -> None:
        """The handler waits: what it has sent leaves."""
        self.cell.ask()
        sends, self._sends = self._sends or [], []
        self._send_all(sends)

    def park(self) -> None:
        """Let the world go on, until the running handler is let go on."""
        assert self._strand is not None, "a handler runs"
        self._strand.park()

    def suspended(self, timeout_s: float | None) -> None:
        """Tell the world that the handler waits."""
        self.world.suspended(self, timeout_s)

    @contextmanager
    def parked(self) -> Iterator[None]:
        """While the handler is parked, nothing is sent; then all is as it was."""
        sends, self._sends = self._sends, None
        sender, slots = self.cell.now.sender, self.cell.now.slots
        try:
            yield
        finally:
            self._sends, self.cell.now.sender, self.cell.now.slots = sends, sender, slots

    @property
    def gone(self) -> AbstractSet[str]:
        """The actors that have ended, as far as this one knows."""
        return self._gone

    def refuse_snapshots(self) -> None:
        """A handler waits, so this actor cannot record."""
        why = f"a handler waits for the answer of {', '.join(self.suspension.waits_for)}"
        self.pauses.clear()
        recorded = self.machine.recorded_snapshots
        for snapshot in [one for one in self.machine.open_snapshots if one not in recorded]:
            if effects := self.machine.handle(CaptureFailed(snapshot, why, AbortReason.SUSPENDED)):  # not yet refused
                self.carry_out(effects, {})

    def go_on(self, *, has_time: bool) -> str:
        """Let the handler go on that waits; returns and raises as `handle_next`."""
        assert self._strand is not None, "a handler waits"
        self.suspension.has_time = has_time
        return self._run_strand(self._strand)

    def abandon(self) -> None:
        """All go back to a snapshot, or the world is over: a handler that waits ends here."""
        strand, self._strand = self._strand, None
        if strand is not None:
            strand.end()

    def request_snapshot(self) -> None:
        """Begin a snapshot when the running handler has ended."""
        self._requests += 1

    def request_end(self) -> None:
        """End when the running handler has ended."""
        self.ending = True

    def has_own_mail(self) -> bool:
        """Whether messages are waiting that this actor sent to itself."""
        return bool(self.mailbox.get(self.name))

    # A restore -------------------------------------------------------------------------------------------------

    def tell_of_restore(self) -> None:
        """The actor has its state: call its hook. What this sends leaves with `resumed`. Raises HookFailed."""
        self._sends = []
        try:
            with no_loop_around():
                tell_of_restore(self.cell)
        finally:
            self._sent_by_hook, self._sends = self._sends, None
            self.cell.ask()

    def resumed(self) -> None:
        """All actors are loaded."""
        sends, self._sent_by_hook = self._sent_by_hook, []
        self._send_all(sends)

    # Between two handlers --------------------------------------------------------------------------------------

    def settle(self) -> bool:
        """Record, pause or end, if no handler runs; returns whether it did and still exists. Call it at every wake."""
        if self._busy or self._settling or self.is_quiet:
            return False
        self._settling = True
        try:
            while self._requests:
                self._requests -= 1
                self.tell(SnapshotRequested())
            while (snapshot := self.next_capture()) is not None:
                if self.world.is_late(self, snapshot):
                    self.tell(DeadlinePassed(snapshot))
                else:
                    self.capture(snapshot)
            while self.pauses:
                self.pause()
            if self.ending and self.cell.owed.numbers:
                self._sends = []
                self.cell.owed.end()
                self._send_all(self._sends)
                self._sends = None
            self.try_to_end()
        finally:
            self._settling = False
        if self.ended:
            self.world.note(f"{self.name} ends")
            self.leave()
        return not self.ended

    def put(self, receiver: str, message: bytes) -> None:
        """See Process; a message for an actor that has ended is lost."""
        if receiver in self._gone:
            self._lose(receiver, self.name, 0, message, f"actor {receiver!r} ended")
            return
        super().put(receiver, message)
        if receiver != self.name and receiver not in self.ready:
            self.world.find(self, receiver)

    def receiver_ended(self, receiver: str) -> None:
        """See Process; messages that wait for `receiver`, and later ones, are dead letters."""
        if self.ended or receiver in self._gone:
            return
        self._gone.add(receiver)
        for message in self.outbox.pop(receiver, ()):
            self._lose(receiver, self.name, 0, message, f"actor {receiver!r} ended")
        super().receiver_ended(receiver)
        for question in self.suspension.never_answered(receiver):
            self.put(self.name, no_answer(self.codec, question))
            self.world.wake(self)

    def arrive(self, packet: Packet) -> None:
        """See Process; after the end nothing is delivered, even if the machine does not know of the end yet."""
        if self.ended and packet.incarnation == self.incarnation:
            self.refuse(packet)
        else:
            super().arrive(packet)

    def refuse(self, packet: Packet) -> None:
        """See Process; the messages are dead letters."""
        sender = packet.sender
        known = self._refused.get(sender, self.machine.arrived(sender))
        for number, message in enumerate(packet.messages, packet.first):
            if number > known:  # once, however often the message comes
                self._lose(self.name, sender, number, message, f"actor {self.name!r} ended")
        self._refused[sender] = max(known, packet.last)
        super().refuse(packet)

    def leave(self) -> None:
        """Stop processing messages: those that wait here are dead letters."""
        self.ended = True
        self.cell.timers.clear()
        for sender, messages in self.mailbox.items():
            for number, message in enumerate(messages, self.received.get(sender, 0) + 1):
                self._lose(self.name, sender, number, message, f"actor {self.name!r} ended")
        self.mailbox.clear()

    def _lose(self, receiver: str, sender: str, number: int, message: bytes, detail: str) -> None:
        head = next(self.codec.unpacker(message))[0]
        letter = DeadLetter(receiver, sender, number, head if isinstance(head, str) else "", detail)
        self.world.lose(letter, message)

    # Handling --------------------------------------------------------------------------------------------------

    def handle_next(self, sender: str) -> str:
        """Process the next message of `sender`; returns the traceback if its handler raised, else an empty text.

        Raises ActorDied if the actor's class says that such an error is a failure of the system.
        """
        return self._handle(sender, self.pop_message(sender), self.received[sender])

    def begin_loop_anew(self) -> str:
        """A method is in its loop, and has no frame: handle its message again; returns and raises as `handle_next`."""
        loop = self.cell.now.loop
        assert loop is not None
        self.cell.now.begin_anew(loop)
        return self._handle(loop.sender, loop.message, loop.number)

    def _handle(self, sender: str, message: bytes, number: int) -> str:
        self._message, was_born = message, self.cell.born
        found: list[BaseException | None] = []
        self._ending_handler = lambda: self._handled(sender, number, message, found[0], was_born=was_born)
        return self._run_strand(Strand(lambda: found.append(self._run_handler(sender, message))))

    def _run_strand(self, strand: Strand) -> str:
        self._busy, self._strand = True, strand
        try:
            strand.go_on()
            if not strand.has_ended:
                return ""
            self._strand = None
            return self._ending_handler()
        finally:
            if strand.has_ended:
                self._strand = None
            at_top = self.suspension.is_at_top
            self._busy = self._strand is not None and not at_top
            if at_top:
                self.world.wake(self)

    def _handled(self, sender: str, number: int, message: bytes, error: BaseException | None, *, was_born: bool) -> str:
        sends, self._sends = self._sends or [], None
        if isinstance(error, LoopBegunAnew):
            error.__traceback__ = None  # it holds the frame
            error = None
        else:
            self.cell.now.end_loop()
        report = "" if error is None else "".join(traceback.format_exception(error))
        if error is not None:
            fields = next(self.codec.unpacker(message))
            method = fields[0] if isinstance(fields[0], str) else ""
            letter = DeadLetter(self.name, sender, number, method, report)
            self.cell.dead_letters.add(letter)
            self.world.lose(letter, None)
        if not was_born and not self.cell.born:
            if self.suspension.count:  # others have heard of it, so it cannot count as never begun
                raise ActorDied(
                    f"the constructor of actor {self.name!r} raised behind a question: {error!r}",
                    actor=self.name,
                    report=report,
                ) from error
            self.leave()
            self.world.failed_to_start((*self.children, self.name))
            return report
        self._send_all(sends)
        self._busy = False
        self.world.wake(self)
        specification = self.cell.specification
        if error is not None and specification is not None and specification.on_error == "stop":
            raise ActorDied(
                f"actor {self.name!r} counts its failure as the system's: {error!r}", actor=self.name, report=report
            ) from error
        return report

    def skip_next(self, sender: str) -> bytes:
        """Count the next message of `sender` as processed, without processing it."""
        message: bytes = self.pop_message(sender)
        self.world.wake(self)
        return message

    def fire(self) -> None:
        """Fire the timers that are due: each sends its message to this actor."""
        self._send_all([(self.name, message) for message in self.cell.timers.take_due()])
        self.world.wake(self)

    def expire(self, key: tuple[str, int]) -> None:
        """A call that this actor owes an answer gets none: tell it."""
        self.put(self.name, self.codec.tell(EXPIRE, key))
        self.world.wake(self)

    def _run_handler(self, sender: str, message: bytes) -> BaseException | None:
        cell = self.cell
        cell.now.sender = sender
        self._sends, self.children = [], []
        cell_before, port_before = enter(cell), swap_port(lambda: self)
        try:
            with no_loop_around():
                cell.handle(next(self.codec.unpacker(message)))
        except KeyboardInterrupt:
            raise  # it is meant for the program that runs the world in this thread
        except LoopEnded:
            pass
        except SystemExit as error:
            if not cell.born:
                return error
            cell.end()
        except BaseException as error:  # noqa: BLE001 - a handler may raise anything; the actor lives on, as with Ray
            return error
        finally:
            enter(cell_before)
            swap_port(port_before)
            cell.ask()
        return None

    def _send_all(self, sends: Sequence[tuple[str, bytes | OpenCall]]) -> None:
        for receiver, sent in sends:
            self.put(receiver, sent if isinstance(sent, bytes) else self._settled(sent))

    def _settled(self, call: OpenCall) -> bytes:
        return call.tell if call.call_id is None else self.codec.call(call.call_id, call.tell)


def let_world_go_on(timeout_s: float | None) -> bool:
    """The loop on which a handler runs has nothing to do: see `SimulatedSuspension.idle`."""
    cell = running_cell()
    return cell is not None and isinstance(cell.port, SimulatedActor) and cell.port.suspension.idle(timeout_s)
