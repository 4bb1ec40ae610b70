"""The worker: the thread on which an actor's handlers run, one at a time, to completion."""

import ctypes
import logging
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from rayshot.errors import SystemDown, SystemRecovering
from rayshot.format.codec import CREATE, Frame, method_of
from rayshot.format.msgpack_walk import count_documents
from rayshot.model.calls import Interruption, LoopBegunAnew, LoopEnded
from rayshot.model.current import enter
from rayshot.model.dead_letter import DeadLetter
from rayshot.model.handling import LoopState
from rayshot.model.hook_calls import does_not_end, tell_of_restore, tell_of_rollback
from rayshot.model.hooks import ON_RESTORE, ON_ROLLBACK
from rayshot.model.port import hold_port
from rayshot.protocol.events import EndRequested
from rayshot.runtime.actor.interleaving import Interleaving
from rayshot.runtime.actor.mailbox import Delivery
from rayshot.runtime.actor.poison_watch import PoisonWatch
from rayshot.runtime.actor.process import ActorProcess
from rayshot.runtime.actor.suspension import LOOK_S, Suspension
from rayshot.runtime.door.functions import name_in_logs
from rayshot.runtime.wire.actor_errors import ActorExited

if TYPE_CHECKING:
    import msgpack

NOTHING = Frame(0, 0, b"")
log = logging.getLogger("rayshot")
T = TypeVar("T")


def _seconds_until(*times: float | None) -> float | None:
    due = [when for when in times if when is not None]
    return max(0.0, min(due) - time.monotonic()) if due else None


class Worker:
    """Handles the messages of a process's mailbox until the process is down or has ended.

    `handling` is the message that is handled now: it shows why an actor does not answer.
    """

    def __init__(self, process: ActorProcess) -> None:
        self.handling: list[Any] | None = None
        self._process = process
        self._runner, self._channels, self._recording = process.runner, process.channels, process.recording
        self._concluding, self._outside = process.concluding, process.outside
        self._cell = process.cell
        self._cell.number_now = self._number_now
        caution = process.identity.cautions.get(process.name)
        self.poison_watch = None if caution is None else PoisonWatch(process, caution)
        process.suspension = self._suspension = Suspension(
            self._runner,
            self._channels,
            self._recording,
            self._concluding,
            process.tracing,
            self._cell,
            process.is_there,
            self._await_pass,
            self.poison_watch,
        )
        self._interleaving = Interleaving(process, self._suspension, self)
        self._unpacker: msgpack.Unpacker | None = None
        self._counted = ("", 0), 0, 0
        self._restored: Future[None] | None = None
        self._at_rest = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"rayshot-{process.name}", daemon=True)

    def start(self) -> None:
        """Begin to handle messages."""
        self._thread.start()

    def tell_of_restore(self) -> None:
        """The actor was loaded from a snapshot: call its hook before it handles anything. Returns when this has ended.

        Raises HookFailed, also when its time is up; OutsideConflict; what stops the actor meanwhile.
        """
        told: Future[None] = Future()
        with self._runner.lock:
            if self._runner.down is not None:
                raise self._runner.down.anew()
            self._restored = told
            self._runner.interrupted = True
            self._runner.wake.notify_all()
        within_s = self._outside.hooks_s
        try:
            told.result(within_s)
        except TimeoutError as error:
            if told.done():  # the hook itself raised it
                raise
            raise does_not_end(self._cell, within_s) from error

    def rest(self, timeout_s: float) -> bool:
        """After a stop: wait up to `timeout_s` seconds for the end of the running handler. Returns whether it ended."""
        return self._at_rest.wait(timeout_s)

    def join(self, timeout_s: float) -> bool:
        """After a stop: as `rest`, and also for the hook that is called when the actor goes back to a snapshot."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def interrupt(self) -> None:
        """After a stop: raise an exception in the running handler or hook, when it runs Python code next."""
        if self.runs is not None and (thread := self._thread.ident) is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Interruption))

    @property
    def runs(self) -> list[Any] | None:
        """What runs now: a hook of the class, as a message, or what is handled; None if nothing does."""
        return self.handling if (hook := self._outside.hook) is None else hook[0]

    def _run(self) -> None:
        enter(self._cell)
        hold_port(self._process)
        self._cell.coroutines.enter()
        try:
            while (delivery := self._next()) is not None:
                if self._cell.at_once > 1 and self._cell.born:
                    self._interleaving.serve(delivery)
                elif self.poison_watch is None:
                    self._handle_all(delivery)
                else:
                    self._handle_watched(self.poison_watch, delivery)
        except Interruption:
            log.info("%s: interrupted, as the system goes back to a snapshot", self._process.name)
        except BaseException as error:
            log.exception("%s: the worker failed, a defect of rayshot", self._process.name)
            self._process.fail(f"its worker failed: {error!r}")
        finally:
            self._leave()

    def _leave(self) -> None:
        """No message is handled any more: let go of what the actor holds."""
        try:
            self.handling = None
            self._at_rest.set()
            with self._runner.lock:
                if self._restored is not None:  # the life ended before the thread could call the hook
                    self._restored.set_exception(self._runner.down)
            if isinstance(self._runner.down, SystemRecovering):
                self.handling = [ON_ROLLBACK]
                tell_of_rollback(self._cell)
        except Interruption:  # also one that was raised for a handler which had just ended
            log.warning("%s: it was interrupted before the end of %s", self._process.name, ON_ROLLBACK)
        finally:
            self.handling = None
            self._cell.coroutines.close()

    def _next(self) -> Delivery | None:
        """The next messages to handle. Returns None when the process is down."""
        return self._await_between(self.take)

    def take(self) -> Delivery | None:
        """The messages that may be handled now. Under the lock."""
        runner, channels, concluding = self._runner, self._channels, self._concluding
        if runner.loading:
            return None
        if self._cell.now.loop is not None:
            return self._begin_loop_anew(self._cell.now.loop)
        if self._cell.parking.before:
            return Delivery("", NOTHING)
        if not channels.mailbox or (self._outside.is_full and not self._recording.needs_messages):
            return None
        limits, mailbox = channels.limits(), channels.mailbox
        if runner.held:
            limits = concluding.limits(limits)
        take = mailbox.take if self._cell.born else mailbox.take_creation
        delivery = take(limits)
        if delivery is None:
            return None
        one = (runner.held and concluding.begins()) or self.poison_watch is not None or not self._cell.born
        return mailbox.cut_to_one() if one else delivery

    def _await_between(self, take: Callable[[], T | None]) -> T | None:
        """Do the work between two handlers until `take` gives something. Returns None when the process is down.

        `take` is called under the lock when something may be new.
        """
        while True:
            if (taken := self.turn(take, self._runner.wake.wait)) is not None:
                return taken
            if self._runner.down is not None:
                return None

    def turn(
        self, take: Callable[[], T | None], rest: Callable[[float | None], object], *, is_between: bool = True
    ) -> T | None:
        """Do what waits, and return what `take` gives; if it gives nothing, call `rest` with seconds to wait at most.

        Both are called under the lock. Unless `is_between`, handlers run: what waits for their end is left.
        """
        runner, recording, concluding = self._runner, self._recording, self._concluding
        if self._outside.is_due:
            runner.interrupted = True
        if is_between and runner.interrupted:
            self._between_handlers()
        elif is_between and recording.captures:  # an aligned snapshot, which may be aligned by now
            recording.record_all()
        self._fire_timers()
        if self._outside.bounds:
            self._outside.look_for_room()
        if self._cell.gatherings:
            self._suspension.end_forwarded()
        with runner.lock:
            if runner.down is not None or (runner.interrupted and is_between):
                return None
            if runner.held:
                concluding.expire()
            if runner.at_rest and is_between:
                runner.at_rest.pop()()
            if (taken := take()) is not None:
                return taken
            recording.forget_overdue()
            if runner.held and is_between:
                concluding.rests()
            self._channels.boarding.close()
            runner.idle = is_between
            rest(self._patience())
            runner.idle = False
        return None

    def _patience(self) -> float | None:
        """Seconds until a timer or a recorder's deadline is due; None if none is set."""
        held_until = self._concluding.next_due() if self._runner.held else None
        timer = None if self._runner.loading else self._cell.timers.next_due()  # none fires while others load
        loops = self._suspension.loops
        looks = self._cell.gatherings or self._outside.is_full or any(loop.question is not None for loop in loops)
        passes = () if self._runner.held or self._runner.loading else [loop.due for loop in loops]
        look = time.monotonic() + LOOK_S if looks else None
        due = None if self._runner.interrupted else self._outside.due_at()  # otherwise it waits for handlers
        return _seconds_until(timer, self._recording.deliveries.next_deadline(), held_until, look, due, *passes)

    def _fire_timers(self) -> None:
        process, runner = self._process, self._runner
        if self._cell.timers and not runner.loading and not runner.ending:
            for message in self._cell.timers.take_due():
                try:
                    process.channel(process.name).append(message)
                except SystemDown:  # a stop can come at any time, and no timer fires after it
                    return
                if process.tracing.tracer is not None:
                    process.tracing.tracer.fired(message)

    def _handle_all(self, delivery: Delivery) -> None:
        process, runner, mailbox, cell = self._process, self._runner, self._channels.mailbox, self._cell
        cell.now.sender = delivery.sender
        number = mailbox.position
        body, tracer = delivery.frame.body, process.tracing.tracer
        unpacker = self._unpacker = process.codec.unpacker(body)
        if mailbox.current is None and tracer is not None:  # a loop is begun anew: its message has been handled
            tracer.come_to_top()
            tracer = None
        messages = unpacker if tracer is None else tracer.watch(delivery.sender, unpacker, body)
        if mailbox.slots:
            messages = self._with_slots(delivery.sender, number, messages)
        for message in messages:
            self.handling = message
            number += 1
            try:
                head = message[0]
                if head.__class__ is str:
                    cell.handlers[head](*message[1:])
                else:
                    cell.handle(message)
                    if head == CREATE:
                        name_in_logs(cell.instance)
                        with runner.lock:
                            self._outside.born()
                            process.concluding.constructed()
            except LoopBegunAnew as thrown:
                thrown.__traceback__ = None  # it holds the frame
                self._let_go()
                return
            except BaseException as error:  # noqa: BLE001 - a handler may raise anything; the actor lives on, as with Ray
                if runner.down is not None and isinstance(error, SystemDown | Interruption):
                    mailbox.position = number
                    return  # the handler tried to send after a stop, or was interrupted
                self.failed(delivery.sender, number, message, error)
                runner.interrupted |= cell.now.loop is not None  # it may have failed before its first pass
            if runner.interrupted:
                if runner.ending:
                    self._end_owed()
                if cell.now.loop is not None:
                    self._loop_over()
                    return
                mailbox.position = number
                self._between_handlers()
                if runner.down is not None:
                    return
                if runner.held:
                    self._put_back()
                    return
        self.handling = self._unpacker = None
        mailbox.position = number
        mailbox.finish()

    # Methods that loop -----------------------------------------------------------------------------------------

    def _await_pass(self, may_pass: Callable[[], bool | None]) -> bool | None:
        """The running handler is at the top of a pass of its loop; see `CellPort.await_pass`."""
        mailbox, loop = self._channels.mailbox, self._cell.now.loop
        assert loop is not None
        if (tracer := self._process.tracing.tracer) is not None:
            tracer.come_to_top()
        if mailbox.current is not None:  # the first time: what began it counts as handled, and what is behind it waits
            mailbox.position = loop.number
            self._unpacker = None
            with self._runner.lock:
                mailbox.put_back()
                self._suspension.loop_begins()
        else:
            with self._runner.lock:
                self._suspension.pass_ends()
        if self.poison_watch is not None:
            self.poison_watch.ends()
        self._suspension.come_to_top()
        taken = self._await_between(may_pass)
        self._runner.interrupted = True  # when the handler ends, something is to be done
        return taken

    def _begin_loop_anew(self, loop: LoopState) -> Delivery:
        """There is a method in its loop, and no frame: its message is handled again, though it counts as handled."""
        self._cell.now.begin_anew(loop)
        self._channels.mailbox.position = loop.number - 1
        self._runner.interrupted = True  # when the handler ends, something is to be done
        return Delivery(loop.sender, Frame(loop.number, 1, loop.message))

    def _loop_over(self) -> None:
        """The method has ended."""
        if (tracer := self._process.tracing.tracer) is not None:
            tracer.loop_over()
        self._cell.now.end_loop()
        self._let_go()

    def _let_go(self) -> None:
        """No message is handled any more."""
        self.handling = self._unpacker = None
        self._cell.now.slots = ()

    def _put_back(self) -> None:
        """The actor is held: what is left of the batch waits for its turn again."""
        self._let_go()
        if self._process.tracing.tracer is not None:
            self._process.tracing.tracer.settle()
        with self._runner.lock:
            self._channels.mailbox.put_back()

    def _handle_watched(self, watch: PoisonWatch, delivery: Delivery) -> None:
        watch.handle(delivery, self._handle_all)
        if watch.is_over:
            self.poison_watch = None

    def _number_now(self) -> int:
        """The number of the message that is handled now; 0 between two batches.

        It is counted in its batch, so that nobody pays who does not ask.
        """
        delivery, unpacker = self._channels.mailbox.current, self._unpacker
        if delivery is None or unpacker is None:
            return 0 if self._cell.now.loop is None else self._cell.now.loop.number
        frame = delivery.frame
        of = delivery.sender, frame.first
        _, start, number = self._counted if self._counted[0] == of else (of, 0, frame.first - 1)
        end = unpacker.tell()
        number += count_documents(frame.body[start:end], frame.count)
        self._counted = of, end, number
        return number

    @property
    def at(self) -> tuple[str, int, int] | None:
        """Which message is handled now: its sender, its batch, and where it ends there; None if none is. Any thread."""
        delivery, unpacker = self._channels.mailbox.current, self._unpacker
        if delivery is None or unpacker is None:
            return None
        return delivery.sender, delivery.frame.first, unpacker.tell()

    def _with_slots(self, sender: str, number: int, messages: Iterable[list[Any]]) -> Iterator[list[Any]]:
        """Yield the messages after `number`. While a message is handled, `cell.now.slots` has its slots."""
        cell, slots, tracer = self._cell, self._channels.mailbox.slots, self._process.tracing.tracer
        for message in messages:
            number += 1
            cell.now.slots = slots.pop((sender, number), ())
            if cell.now.slots and tracer is not None:
                tracer.keep_values(self._process.codec, message, cell.now.slots)
            yield message
        cell.now.slots = ()

    def _between_handlers(self) -> None:
        """Do the work that waits for the end of a handler. If the actor asked for its end, return when it has ended."""
        runner = self._runner
        self._do_what_waits()
        while runner.ending and runner.down is None and not runner.loading:
            self._end()
            self._do_what_waits()

    def _do_what_waits(self) -> None:
        runner, channels, recording = self._runner, self._channels, self._recording
        runner.interrupted = False
        if self._restored is not None:
            self._tell_of_restore(self._restored)
        if channels.unconnected and not (self._cell.constructing or runner.loading):
            channels.connect_all()
        if recording.is_suspended:  # a task that waited was given up
            self._suspension.handler_ended()
        if self._cell.open_calls:
            self._cell.ask()
            channels.settle_calls()
        if recording.captures or recording.requested or self._outside.is_due:
            recording.record_all()
        with runner.lock:
            paused = runner.participant.paused
        if paused:
            self._stand_still()
        if channels.congestion:
            channels.await_room(recording.next_capture)

    def _tell_of_restore(self, told: Future[None]) -> None:
        self._restored, self.handling = None, [ON_RESTORE]
        try:
            tell_of_restore(self._cell, self._outside.back_cut)
        except BaseException as error:
            told.set_exception(error if isinstance(error, Exception) else self._runner.down)
            if not isinstance(error, Exception):
                raise
        else:
            told.set_result(None)
        finally:
            self.handling = None

    def _stand_still(self) -> None:
        """While a snapshot stops the world, run no handlers and fire no timers, but record."""
        runner, recording = self._runner, self._recording
        while True:
            recording.record_all()
            with runner.lock:
                recording.confirm_pauses()
                recording.forget_overdue()
                if runner.down is not None or not runner.participant.paused:
                    self._channels.draining = False
                    return
                if recording.next_capture() is None and not recording.requested and not self._outside.is_due:
                    runner.wake.wait(_seconds_until(recording.deliveries.next_deadline(), self._outside.due_at()))

    def _end(self) -> None:
        """Leave the system once everything sent has arrived and no snapshot is open here."""
        process, runner, recording = self._process, self._runner, self._recording
        self._end_owed()
        if not self._outside.may_end():
            process.refuse_all()
        with runner.lock:
            sent = self._channels.sent
            if recording.captures or not self._outside.may_end() or not runner.participant.may_end(sent):
                process.wait_for_ends()
                if runner.held:
                    self._concluding.rests()
                process.give_up_unready()
                runner.wake.wait(0.01)
                return
            runner.handle(EndRequested(sent, self._channels.mailbox.received()))
            process.shut(ActorExited(f"actor {process.name!r} ended", actor=process.name))

    def _end_owed(self) -> None:
        with suppress(SystemDown):  # a stop can come at any time
            self._cell.owed.end()

    def failed(self, sender: str, number: int, message: list[Any], error: BaseException) -> None:
        """The handler of this message has raised."""
        process = self._process
        report = "".join(traceback.format_exception(error))
        if not self._cell.born:
            log.error("%s: its constructor failed, the actor ends:\n%s", process.name, report)
            process.failed_to_start(error)
            return
        method = method_of(message)
        if isinstance(error, LoopEnded):
            return
        if isinstance(error, SystemExit):
            log.info("%s: its handler %s left with %r: the actor ends", process.name, method or "?", error)
            self._cell.end()
            return
        log.error("%s: message %d from %s failed (%s):\n%s", process.name, number, sender, method or "?", report)
        self._channels.dead_letters.add(DeadLetter(process.name, sender, number, method, report))
        assert self._cell.specification is not None
        if self._cell.specification.on_error == "stop":
            process.fail(f"handler {method or '?'} raised {error!r}")
