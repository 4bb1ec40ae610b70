"""The worker: the thread on which an actor's handlers run, one at a time, to completion."""

import logging
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from typing import Any

from rayshot.errors import SystemDown
from rayshot.format.codec import CREATE, method_of
from rayshot.model.current import enter
from rayshot.protocol.events import EndRequested
from rayshot.runtime.actor_errors import ActorExited
from rayshot.runtime.dead_letters import DeadLetter
from rayshot.runtime.mailbox import Delivery
from rayshot.runtime.process import CONGESTION_WAIT_S, ActorProcess
from rayshot.runtime.ray_functions import name_in_logs

UNREADY_AT_END_S = 30.0
"""An actor that ends waits for so long for objects that it sent."""
log = logging.getLogger("rayshot")


class Worker:
    """Works off a process's mailbox until the process is down or has ended.

    `handling` is the message that is being handled, for those who want to know why an actor does not answer; `idle`
    says that there is nothing to do.
    """

    def __init__(self, process: ActorProcess) -> None:
        self.handling: list[Any] | None = None
        self.idle = False
        self._ending_since: float | None = None
        self._process = process
        self._thread = threading.Thread(target=self._run, name=f"rayshot-{process.name}", daemon=True)

    def start(self) -> None:
        """Begin to handle messages."""
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        """Wait until the running handler has ended after a stop."""
        self._thread.join(timeout_s)

    def _run(self) -> None:
        enter(self._process.cell)
        self._process.cell.coroutines.enter()
        try:
            while (delivery := self._next()) is not None:
                self._handle_all(delivery)
        except BaseException as error:
            log.exception("%s: the worker failed, a defect of rayshot", self._process.name)
            self._process.fail(f"its worker failed: {error!r}")
        finally:
            self._process.cell.coroutines.close()

    def _next(self) -> Delivery | None:
        """Wait for messages; None when the process is down. What must happen between handlers happens first."""
        process = self._process
        while True:
            if process.interrupted:
                self._between_handlers()
            elif process.captures:  # of an aligned snapshot, which may be aligned by now
                process.recording.record_all()
            self._fire_timers()
            with process.lock:
                if process.down is not None:
                    return None
                if process.interrupted:
                    continue
                if process.at_rest:
                    process.at_rest.pop()()
                if process.mailbox and not process.loading:
                    limits = process.limits()
                    take = process.mailbox.take if process.cell.born else process.mailbox.take_creation
                    delivery = take(limits)
                    if delivery is not None:
                        return delivery
                process.recording.forget_overdue()
                self.idle = True
                process.wake.wait(self._patience())
                self.idle = False

    def _patience(self) -> float | None:
        """Seconds until a timer or a recorder's deadline is due; None where none is set."""
        process = self._process
        due = [when for when in (process.cell.next_due(), process.recording.next_deadline()) if when is not None]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _fire_timers(self) -> None:
        process = self._process
        if process.cell.timers and not process.loading and not process.ending:
            for message in process.cell.take_due():
                try:
                    process.channel(process.name).append(message)
                except SystemDown:  # a stop comes at any time, and nothing fires behind it
                    return
                if process.tracer is not None:
                    process.tracer.fired(message)

    def _handle_all(self, delivery: Delivery) -> None:
        process, mailbox, cell = self._process, self._process.mailbox, self._process.cell
        cell.sender = delivery.sender
        number = mailbox.position
        body, tracer = delivery.frame.body, process.tracer
        unpacker = process.codec.unpacker(body)
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
            except BaseException as error:  # noqa: BLE001 - a handler may raise anything; the actor lives on, as with Ray
                if process.down is not None and isinstance(error, SystemDown):
                    mailbox.position = number
                    return  # the handler tried to send after a stop
                self._failed(delivery.sender, number, message, error)
            if process.interrupted:
                mailbox.position = number
                self._between_handlers()
                if process.down is not None:
                    return
        self.handling = None
        mailbox.position = number
        mailbox.finish()

    def _with_slots(self, sender: str, number: int, messages: Iterable[list[Any]]) -> Iterator[list[Any]]:
        """Yield the messages behind `number`; what lies beside each is there while it is handled."""
        cell, slots, tracer = self._process.cell, self._process.mailbox.slots, self._process.tracer
        for message in messages:
            number += 1
            cell.slots = slots.pop((sender, number), ())
            if cell.slots and tracer is not None:
                tracer.keep_values(self._process.codec, message, cell.slots)
            yield message
        cell.slots = ()

    def _between_handlers(self) -> None:
        """Do what must happen now; of an actor that asked for its end all, and return when it has ended."""
        process = self._process
        self._do_what_waits()
        while process.ending and process.down is None and not process.loading:
            self._end()
            self._do_what_waits()

    def _do_what_waits(self) -> None:
        process = self._process
        process.interrupted = False
        if process.unconnected and not (process.cell.constructing or process.loading):
            process.connect_all()
        if process.cell.open_calls:
            process.cell.open_calls.clear()
            for channel in tuple(process.channels.values()):
                if channel.held_at is not None:
                    channel.settle(process.codec)
        if process.captures or process.recording.requested:
            process.recording.record_all()
        with process.lock:
            paused = process.participant.paused
        if paused:
            self._stand_still()
        if process.congestion:
            self._wait_for_room()

    def _stand_still(self) -> None:
        """Run and fire nothing while a snapshot stops the world, but record."""
        process, recording = self._process, self._process.recording
        while True:
            recording.record_all()
            with process.lock:
                process.confirm_pauses()
                recording.forget_overdue()
                if process.down is not None or not process.participant.paused:
                    process.draining = False
                    return
                if recording.next_capture() is None and not recording.requested:
                    deadline = recording.next_deadline()
                    process.wake.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))

    def _wait_for_room(self) -> None:
        process = self._process
        deadline = time.monotonic() + CONGESTION_WAIT_S
        with process.lock:
            may_record = process.recording.next_capture
            while process.congestion and not (process.down or may_record()):
                channel = process.congestion.pop()
                while channel.full and not (process.down or may_record()) and time.monotonic() < deadline:
                    if channel.held_at == 0:
                        break  # room comes when an object gets ready, which may take long
                    channel.room.wait(deadline - time.monotonic())
            process.congestion.clear()

    def _end(self) -> None:
        """Leave the system once everything sent has arrived and no snapshot is open here."""
        process = self._process
        with process.lock:
            sent = {receiver: channel.sent for receiver, channel in process.channels.items() if channel.sent}
            if process.captures or not process.participant.may_end(sent):
                process.wait_for_ends()
                self._give_up_unready()
                process.wake.wait(0.01)
                return
            process.carry_out(process.participant.handle(EndRequested(sent, process.mailbox.received())))
            process.shut(ActorExited(f"actor {process.name!r} ended", actor=process.name))

    def _give_up_unready(self) -> None:
        """What this actor told, and waits for objects, keeps it from its end for a while only. Call under the lock."""
        now = time.monotonic()
        self._ending_since = self._ending_since or now
        if now - self._ending_since > UNREADY_AT_END_S:
            why = ActorExited(f"actor {self._process.name!r} ended before an object was there that it had sent")
            for channel in self._process.channels.values():
                channel.give_up_unready(why)

    def _failed(self, sender: str, number: int, message: list[Any], error: BaseException) -> None:
        process = self._process
        report = "".join(traceback.format_exception(error))
        if not process.cell.born:
            log.error("%s: its constructor failed, the actor ends:\n%s", process.name, report)
            process.failed_to_start(error)
            return
        method = method_of(message)
        if isinstance(error, SystemExit):
            log.info("%s: its handler %s left with %r: the actor ends", process.name, method or "?", error)
            process.cell.end()
            return
        log.error("%s: message %d from %s failed (%s):\n%s", process.name, number, sender, method or "?", report)
        process.dead_letters.add(DeadLetter(process.name, sender, number, method, report))
        assert process.cell.specification is not None
        if process.cell.specification.on_error == "stop":
            process.fail(f"handler {method or '?'} raised {error!r}")
