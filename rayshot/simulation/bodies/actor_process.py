"""A process with a user's actor inside, a Cell. The messages of a handler are numbered when the handler has ended.

This corresponds to `rayshot.runtime.actor.process` and its worker, for one thread. A snapshot is recorded as soon as
the process has learned of it: no handler runs while a machine gets an event.
"""

import traceback
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from rayshot.errors import ActorDied
from rayshot.format.codec import Frame, creation_of
from rayshot.format.pickling import dump_state
from rayshot.model.calls import (
    EXPIRE,
    Interruption,
    LoopBegunAnew,
    LoopEnded,
    OpenCall,
    Question,
    no_answer,
)
from rayshot.model.cell import Cell
from rayshot.model.current import enter, running_cell
from rayshot.model.dead_letter import DeadLetter
from rayshot.model.event_loop import Coroutines
from rayshot.model.hook_calls import tell_of_restore
from rayshot.model.port import swap_port
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.effects import ReportRecord
from rayshot.protocol.events import CaptureFailed, DeadlinePassed, SnapshotRequested
from rayshot.protocol.identity import SnapshotId
from rayshot.protocol.participant import Participant
from rayshot.simulation.bodies.actor_port import ActorPort
from rayshot.simulation.bodies.actor_surroundings import ActorSurroundings
from rayshot.simulation.bodies.interleaving import SimulatedInterleaving
from rayshot.simulation.bodies.outside import SimulatedOutside
from rayshot.simulation.bodies.strand import Strand
from rayshot.simulation.bodies.suspension import SimulatedSuspension
from rayshot.simulation.bodies.virtual_loop import VirtualLoop, no_loop_around
from rayshot.simulation.bodies.world_snapshot import RecordedActor
from rayshot.simulation.world.packets import RecordContents


class SimulatedActor(ActorPort):
    """See the module."""

    def __init__(self, name: str, machine: Participant, world: ActorSurroundings) -> None:
        super().__init__(name, machine, world)
        self.cell = Cell(name, self, world.clock, Coroutines(name, self._event_loop))
        self.outside = SimulatedOutside(self, world.outside)
        self.suspension = SimulatedSuspension(self)
        self.interleaving = SimulatedInterleaving(self, self.suspension)
        self.cell.number_now = self._number_now
        self._busy = False
        self._settling = False
        self._strand: Strand | None = None
        """The handler that runs or waits."""
        self._ending_handler: Callable[[], str] = str
        self._sent_by_hook: list[tuple[str, bytes | OpenCall]] = []
        self._message = b""
        """The message that is handled, or was handled last."""

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

    @property
    def is_due(self) -> bool:
        """Whether something is to be done as soon as no handler runs."""
        return bool(self.requests or self.pauses or self.next_capture() is not None)

    @property
    def runs_at_once(self) -> bool:
        """Whether several handlers may run at once: see SimulatedInterleaving."""
        return self.cell.at_once > 1 and self.cell.born

    def next_senders(self) -> list[str]:
        """See Process; none while a handler waits, unless several may run, and none while the class has no room."""
        if self.outside.is_full:
            return []
        if self.runs_at_once:
            return super().next_senders() if self.interleaving.may_begin else []
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

    def await_answers(self, questions: Sequence[Question], count: int, timeout_s: float | None) -> None:
        """See CellPort."""
        self.suspension.wait(questions, count, timeout_s)

    def answered(self, question: Question) -> Awaitable[None]:
        """See CellPort."""
        return self.suspension.answered(question)

    def message_now(self) -> bytes | None:
        """See CellPort."""
        return self.cell.now.message if self.runs_at_once else self._message  # in a world values are inside messages

    def await_pass(self, may_begin: Callable[[], bool]) -> bool:
        """See CellPort."""
        self.leave_all()
        return self.suspension.await_pass(may_begin)

    def at_top(self, *, is_timed: bool) -> None:
        """Tell the world that a method is at the top of a pass of its loop."""
        self.world.at_top(self, is_timed=is_timed)

    def _event_loop(self) -> VirtualLoop:
        own = self.cell.at_once > 1
        return self.world.own_event_loop(self.interleaving.idle) if own else self.world.event_loop()

    def _number_now(self) -> int:
        now = self.cell.now
        return now.number or (self.received[now.sender] if now.loop is None else now.loop.number)

    def park(self) -> None:
        """Let the world go on, until the running handler is let go on."""
        assert self._strand is not None, "a handler runs"
        self._strand.park()

    def suspended(self, timeout_s: float | None) -> None:
        """Tell the world that the handler waits."""
        self.world.suspended(self, timeout_s)

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
        self.outside.shut()
        strand, self._strand = self._strand, None
        if strand is not None:
            self.interleaving.abandon()
            strand.end()
            if self.runs_at_once:
                self.cell.coroutines.close()

    def answer(self, sender: str, call_id: int, value: object, *, ok: bool) -> None:
        """See ActorPort; the world has gone on without a handler that was abandoned."""
        if self.interleaving.is_abandoned:
            raise Interruption
        super().answer(sender, call_id, value, ok=ok)

    # Hooks -----------------------------------------------------------------------------------------------------

    def call_hook(self, call: Callable[[], Any]) -> Any:
        """Call code of the class that is no handler: what it sends leaves when it has ended, if the process lives."""
        cell_before, port_before, self.sends = enter(None), swap_port(lambda: self), []
        try:
            with no_loop_around():
                return call()
        finally:
            enter(cell_before)
            swap_port(port_before)
            if self.alive:
                self.leave_all()
            self.sends = None

    def tell_of_restore(self) -> None:
        """The actor has its state: call its hook. What this sends leaves with `resumed`.

        Raises HookFailed, OutsideConflict.
        """
        self.sends = []
        try:
            with no_loop_around():
                tell_of_restore(self.cell, self.outside.back)
        finally:
            self._sent_by_hook, self.sends = self.sends, None
            self.cell.ask()

    def resumed(self) -> None:
        """All actors are loaded."""
        sends, self._sent_by_hook = self._sent_by_hook, []
        self.send_all(sends)
        self.outside.resumed()
        self.wake()

    def wake(self) -> None:
        """There is work between two handlers."""
        self.world.wake(self)

    def report_record(self, effect: ReportRecord, content: RecordContents) -> None:
        """See Process; what is outside is fixed before."""
        self.outside.report(effect, content)

    def report_sealed(self, effect: ReportRecord, content: RecordContents) -> None:
        """Hand a record in."""
        super().report_record(effect, content)

    def forget(self, snapshot: SnapshotId) -> None:
        """See Process."""
        super().forget(snapshot)
        self.outside.forget(snapshot)

    def receiver_ended(self, receiver: str) -> None:
        """See ActorPort; who is answered by what comes of a call to `receiver` learns that nothing comes."""
        if self.ended or receiver in self.gone:
            return
        super().receiver_ended(receiver)
        for question in self.suspension.never_answered(receiver):
            self.put(self.name, no_answer(self.codec, question))
            self.world.wake(self)

    # Between two handlers --------------------------------------------------------------------------------------

    def settle(self) -> bool:
        """Record, pause or end, if no handler runs; returns whether it did and still exists. Call it at every wake."""
        if self._busy or self._settling or self.is_quiet:
            return False
        self._settling = True
        try:
            while self.requests:
                self.requests -= 1
                self.tell(SnapshotRequested())
            while (snapshot := self.next_capture()) is not None:
                if self.world.is_late(self, snapshot):
                    self.tell(DeadlinePassed(snapshot))
                elif self.outside.tell_of_snapshot(snapshot):
                    self.capture(snapshot)
            while self.pauses:
                self.pause()
            self.outside.tell_of_commit()
            if self.ending and self.cell.owed.numbers:
                self.call_hook(self.cell.owed.end)
            if not self.ending or self.outside.may_end:
                self.try_to_end()
            else:
                self.call_hook(self.refuse_all)
                self.outside.wait_for_end()
        finally:
            self._settling = False
        if self.ended:
            self.world.note(f"{self.name} ends")
            self.leave()
            self.abandon()
        return not self.ended

    # Handling --------------------------------------------------------------------------------------------------

    def handle_next(self, sender: str) -> str:
        """Process the next message of `sender`; returns the traceback if its handler raised, else an empty text.

        Raises ActorDied if the actor's class says that such an error is a failure of the system.
        """
        message, number = self.pop_message(sender), self.received[sender]
        if not self.runs_at_once:
            return self._handle(sender, message, number)
        self.interleaving.add(sender, number, message)
        if not self.world.others_go_on():
            return self.serve()
        self._busy = True
        self.world.wake(self)
        return ""

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

    def serve(self) -> str:
        """Let go on, or begin, what runs at once in this actor; returns and raises as `handle_next`."""
        if self._strand is None:
            found: list[BaseException | None] = []
            self._ending_handler = lambda: self._served(found[0])
            self._strand = Strand(lambda: found.append(self._run(self.interleaving.serve)))
        return self._run_strand(self._strand)

    def _served(self, error: BaseException | None) -> str:
        sends, self.sends = self.sends or [], None
        self.send_all(sends)
        if error is not None:
            raise error
        return ""

    def _run_strand(self, strand: Strand) -> str:
        self._busy, self._strand = True, strand
        try:
            strand.go_on()
            if strand.has_ended:
                self._strand = None
            report = self._ending_handler() if strand.has_ended else ""
            return self._failures() if self.runs_at_once else report
        finally:
            if strand.has_ended:
                self._strand = None
            stands = self.suspension.is_at_top or self.interleaving.is_at_rest
            self._busy = self._strand is not None and not stands
            if stands or self.runs_at_once:
                self.world.wake(self)

    def _failures(self) -> str:
        failed, self.interleaving.failed = self.interleaving.failed, []
        reports = [self._failed(*one) for one in failed]
        if reports:
            self._stop_for(failed[0].error, reports[0])
        return "".join(reports)

    def _handled(self, sender: str, number: int, message: bytes, error: BaseException | None, *, was_born: bool) -> str:
        sends, self.sends = self.sends or [], None
        if isinstance(error, LoopBegunAnew):
            error.__traceback__ = None  # it holds the frame
            error = None
        else:
            self.cell.now.end_loop()
        report = "" if error is None else self._failed(sender, number, message, error)
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
        if not was_born:
            self.outside.born()
        self.send_all(sends)
        self._busy = False
        self.world.wake(self)
        if error is not None:
            self._stop_for(error, report)
        return report

    def _failed(self, sender: str, number: int, message: bytes, error: BaseException) -> str:
        report = "".join(traceback.format_exception(error))
        head = next(self.codec.unpacker(message))[0]
        letter = DeadLetter(self.name, sender, number, head if isinstance(head, str) else "", report)
        self.cell.dead_letters.add(letter)
        self.world.lose(letter, None)
        return report

    def _stop_for(self, error: BaseException, report: str) -> None:
        specification = self.cell.specification
        if specification is not None and specification.on_error == "stop":
            raise ActorDied(
                f"actor {self.name!r} counts its failure as the system's: {error!r}", actor=self.name, report=report
            ) from error

    def skip_next(self, sender: str) -> bytes:
        """Count the next message of `sender` as processed, without processing it."""
        message: bytes = self.pop_message(sender)
        self.world.wake(self)
        return message

    def fire(self) -> None:
        """Fire the timers that are due: each sends its message to this actor."""
        self.send_all([(self.name, message) for message in self.cell.timers.take_due()])
        self.world.wake(self)

    def expire(self, key: tuple[str, int]) -> None:
        """A call that this actor owes an answer gets none: tell it."""
        self.put(self.name, self.codec.tell(EXPIRE, key))
        self.world.wake(self)

    def _run_handler(self, sender: str, message: bytes) -> BaseException | None:
        self.cell.now.sender = sender
        return self._run(lambda: self.cell.handle(next(self.codec.unpacker(message))))

    def _run(self, handlers: Callable[[], Any]) -> BaseException | None:
        cell = self.cell
        self.sends, self.children = [], []
        cell_before, port_before = enter(cell), swap_port(lambda: self)
        try:
            with no_loop_around():
                handlers()
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


def let_world_go_on(timeout_s: float | None) -> bool:
    """The loop on which a handler runs has nothing to do: see `SimulatedSuspension.idle`."""
    cell = running_cell()
    return cell is not None and isinstance(cell.port, SimulatedActor) and cell.port.suspension.idle(timeout_s)
