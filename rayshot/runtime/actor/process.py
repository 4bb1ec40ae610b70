"""An actor's process: its parts, and the functions for the user's code. The threads are elsewhere."""

import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from rayshot.errors import ActorExited, SystemDown, SystemRecovering
from rayshot.format.codec import CALL, FLAT, Codec, creation_of
from rayshot.format.pickling import carry
from rayshot.model.calls import EXPIRE, OpenCall, Question, encode_reply, not_answered, sendable
from rayshot.model.cell import Cell
from rayshot.model.child_names import random_name
from rayshot.model.current import runs_here
from rayshot.model.handle import ActorHandle, with_class
from rayshot.model.methods import durable_inside
from rayshot.model.reply import Reply
from rayshot.model.specification import ActorSpecification
from rayshot.protocol.identity import is_driver, label_of
from rayshot.runtime.actor.channels import ActorChannel, Channels
from rayshot.runtime.actor.concluding import Concluding
from rayshot.runtime.actor.dead_drivers import DeadDrivers
from rayshot.runtime.actor.outcomes import Outcome, Outcomes, failure
from rayshot.runtime.actor.outside import OutsideWork
from rayshot.runtime.actor.recording import Recording
from rayshot.runtime.actor.runner import Runner
from rayshot.runtime.actor.spawning import is_there, name_taken, spawn_anonymous, spawn_host
from rayshot.runtime.actor.tracing import Tracing
from rayshot.runtime.door.references import know_references
from rayshot.runtime.door.shared_memory import note_buffers
from rayshot.runtime.wire.dropped_handles import Dropped
from rayshot.runtime.wire.host_identity import ActorOffer, Ending, HostIdentity, Stop
from rayshot.runtime.wire.packets import PacketAnswer

UNREADY_AT_END_S = 30.0
"""An actor that ends waits so many seconds for objects that it sent to get ready."""


class Waits(Protocol):
    """How a handler waits; see `suspension`."""

    def wait(self, questions: Sequence[Question], count: int, timeout_s: float | None) -> None:
        """See CellPort.await_answers."""

    def answered(self, question: Question) -> Awaitable[None]:
        """See CellPort."""

    def await_pass(self, may_begin: Callable[[], bool]) -> bool:
        """See CellPort."""

    @property
    def may_begin(self) -> int:
        """How many messages, or passes of a loop, could begin if nothing held the actor."""

    @property
    def waits_s(self) -> float:
        """For how many seconds handlers have waited and got no answer; 0 if none waits."""

    @property
    def waits_at(self) -> str:
        """The file and the line where a handler waits; "" if none waits."""


class ActorProcess:
    """One actor's process with its parts: `runner`, `channels`, `recording`, and the functions for the user's code.

    Implements CellPort, which a Cell calls; any thread may call it. Actors that this process makes live in hosts of the
    class `host`.
    """

    def __init__(self, identity: HostIdentity, host: type) -> None:
        know_references()
        note_buffers()
        self.identity = identity
        self._host = host
        self.name = identity.name
        self.system = identity.system
        self.codec = Codec(ActorHandle, self._name_of, self.handle_of)
        self.cell = Cell(identity.name, self, time.monotonic)
        self.runner = Runner(identity)
        self.tracing = Tracing(identity.name, self.cell, identity.trace)
        self.channels = Channels(self.runner, self.cell, self.codec, self.tracing, self._learn_offer)
        late = self.cell.owed.numbers, self._expire
        at_once = identity.calls_at_once
        self.channels.take = self._take_rider
        self.outcomes = Outcomes(self.runner.lock, identity.name, self.follow_commits, *late, calls_at_once=at_once)
        self.concluding = Concluding(self.runner, self.channels.mailbox, self.cell)
        self.outside = OutsideWork(self.runner, self.cell)
        of_snapshots = self.outcomes, self.tracing, self.concluding, self.outside
        self.recording = Recording(self.runner, self.channels, self.cell, *of_snapshots)
        self.concluding.begun = self._concludes
        self.runner.employ(self.channels, self.recording)
        self.dead_drivers = DeadDrivers(self.runner, self.channels.mailbox, self.outcomes, self.cell.owed)
        self.is_there: Callable[[str], bool | None] = lambda name: is_there(identity, name)
        self.suspension: Waits
        """Set by the worker, on whose thread handlers wait."""
        self.failure: str | None = None
        self._ending_since: float | None = None
        self._children: list[str] = []
        self._handles: dict[str, ActorHandle] = {}
        self._dropped = Dropped(self._end_dropped)

    # Port: what user code reaches ------------------------------------------------------------------------------

    def _name_of(self, handle: ActorHandle) -> str:
        handle.give_out()
        return handle.name_in(self.system)

    def handle_of(self, name: str) -> ActorHandle:
        """This process's handle of the actor `name`."""
        handle = self._handles.get(name)
        if handle is None:
            self._dropped.give_out(name)
            handle = self._handles[name] = ActorHandle(self.system, name, None, self)
        return handle

    def was_made_by(self, driver: str) -> bool:
        """Whether the first message of a driver with a label was this actor's creation. Call under the lock."""
        assert self.runner.lock.locked()
        if not label_of(driver):
            return False
        mailbox = self.channels.mailbox
        first = next((frame for sender, frame in mailbox.unhandled() if sender == driver and frame.first == 1), None)
        if first is not None and first.count:
            return creation_of(first) is not None
        return driver in self.cell.makers or not self.cell.born  # all that is handled before its birth is its creation

    def own_handle(self) -> ActorHandle:
        """The actor's own handle, for its code."""
        self.cell.shared = True
        return with_class(self.handle_of(self.name), type(self.cell.instance))

    def _learn_offer(self, receiver: str, offer: ActorOffer) -> None:
        if not self._dropped.holds(receiver):
            self.handle_of(receiver)._methods = offer.methods  # noqa: SLF001 - known from now on

    def channel(self, receiver: str) -> ActorChannel:
        """The channel to `receiver`."""
        return self.channels.channel(receiver)

    def call(self, receiver: str, tell: bytes, *, durable: bool = False) -> Reply:
        """Send a call. Whether a reply is wanted is known at the handler's end. Threads of the user get no reply."""
        if durable:
            raise durable_inside(self.name, receiver)
        channel = self.channel(receiver)
        if not runs_here(self.cell):
            channel.append(tell)
            return Reply(self.cell, None, receiver)
        call = OpenCall(tell)
        channel.append_open(call)
        self.cell.open_calls.append(call)
        self.runner.interrupted = True
        return Reply(self.cell, call, receiver)

    def _take_rider(self, packet: bytes) -> tuple[int, PacketAnswer]:
        batch, _, answer = self._host.take_packet(self, packet)  # type: ignore[attr-defined]
        return batch.first, answer

    def _concludes(self) -> None:
        self.recording.stop_aligning()
        self.channels.say_asked()

    def await_answers(self, questions: Sequence[Question], count: int, timeout_s: float | None) -> None:
        """See CellPort."""
        self.suspension.wait(questions, count, timeout_s)

    def answered(self, question: Question) -> Awaitable[None]:
        """See CellPort."""
        return self.suspension.answered(question)

    def message_now(self) -> bytes | None:
        """See CellPort."""
        mailbox, number = self.channels.mailbox, self.cell.number_now()
        if self.cell.at_once > 1:
            return self.cell.now.message
        return None if self.cell.now.slots else mailbox.current_message(number)

    def sent_so_far(self) -> int:
        """See CellPort."""
        with self.runner.lock:
            return sum(self.channels.sent.values())

    def await_pass(self, may_begin: Callable[[], bool]) -> bool:
        """See CellPort."""
        return self.suspension.await_pass(may_begin)

    def spawn(
        self, specification: ActorSpecification, name: str | None, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> ActorHandle:
        """Make an actor and send it the call of its constructor."""
        with self.runner.lock:
            if name in self.runner.participant.ended_peers:
                raise name_taken(name, self.system)
        message = self.codec.create(specification.pack(), self.codec.tell("__init__", args, kwargs))
        anonymous, of = name is None, (self._host, self.identity, specification)
        if name is None:
            name, host = spawn_anonymous(*of, self._names_for(specification.class_name))
        else:
            host = spawn_host(*of, name)
        self.channels.peers.know(name, host)
        if self.cell.constructing:
            self._children.append(name)
        self.channel(name).append(message)
        held = anonymous and not self.identity.trace  # a trace holds what handlers send, but handlers drop nothing
        handle = self._dropped.handle(self, name, specification, held=held)
        if not held:
            self._handles[name] = handle
        return handle

    def _names_for(self, class_name: str) -> Iterator[str]:
        """Names for an anonymous actor, without those of actors that are known to have ended."""
        new_name = self.cell.name_child if runs_here(self.cell) else random_name
        while True:
            name = new_name(class_name)
            with self.runner.lock:
                ended = name in self.runner.participant.ended_peers
            if not ended:
                yield name

    def _end_dropped(self, name: str) -> None:
        with contextlib.suppress(ActorExited, SystemDown):
            self.channel(name).append(self.codec.end(dropped=True))

    def has_own_mail(self) -> bool:
        """Whether messages wait that this actor sent to itself."""
        return self.channels.has_own_mail()

    def answer(self, sender: str, call_id: int, value: object, *, ok: bool) -> None:
        """Send the outcome of a call back: to an actor over its channel, to a driver through its waiting fetch."""
        if isinstance(value, Exception) and not ok:
            carry(value)
        if not is_driver(sender):
            message = encode_reply(self.codec, call_id, value, ok=ok)
            self.channel(sender).append_urgent(message) if call_id < 0 else self.channel(sender).append(message)
            return
        copied, ok, size = self._copy(value, ok=ok)
        result = copied if ok else failure(copied, self.name)
        with self.runner.lock:
            is_late = self.cell.answers_late or (sender, call_id) in self.cell.owed.numbers
            outcome = Outcome(result, self.runner.participant.open_snapshots, size=size, is_late=is_late)
            self.outcomes.settle(sender, call_id, outcome, self.recording.deliveries.kept_from(sender, outcome.tags))

    def _expire(self, key: tuple[str, int]) -> None:
        """A call gets no answer: the actor tells itself, as this changes its state."""
        with contextlib.suppress(SystemDown):
            self.channel(self.name).append(self.codec.tell(EXPIRE, key))

    def is_gone(self, caller: str) -> bool:
        """See CellPort."""
        with self.runner.lock:
            return self.outcomes.is_gone(caller) if is_driver(caller) else caller in self.runner.participant.ended_peers

    def follow_commits(self) -> None:
        """Hear of each commit at once, from now on; of the last one now."""
        self.identity.coordinator.await_commits.remote(self.name, self.identity.incarnation)

    def request_snapshot(self, token: str = "") -> None:
        """Begin a snapshot when the running handler has ended. `token` names the coordinator's request, if any."""
        self.recording.requested.append(token)
        self.runner.interrupted = True

    def request_end(self) -> None:
        """End when the running handler has ended."""
        self.runner.ending = True
        self.runner.interrupted = True

    def _copy(self, value: Any, *, ok: bool) -> tuple[Any, bool, int]:
        """Copy a result on the handler's thread, as the next handler may change the original.

        Returns the copy or an error, whether it is ok, and the size in bytes.
        """
        if type(value) in FLAT or not ok:
            return value, ok, len(value) if isinstance(value, str | bytes) else 0
        try:
            copied, size = self.codec.copied(value)
        except Exception as error:  # noqa: BLE001 - encoding runs code of the value's class; its error is the answer
            return sendable(error), False, 0
        return copied, True, size

    def trace(self, full: bool | None) -> bool:  # noqa: FBT001 - as Ray calls it
        """Trace the actor, or with None stop it, from its next batch on. Returns whether this is already the case."""
        runner = self.runner
        with runner.lock:
            runner.at_rest.clear()
            if self.tracing.is_so(full) or self.cell.at_once > 1:  # a trace tells of one handler at a time
                return True
            runner.at_rest.append(lambda: self.tracing.switch(full, self.channels.out))  # a batch is traced whole
            runner.wake.notify()
            return False

    # Ending ----------------------------------------------------------------------------------------------------

    def shut(self, error: SystemDown | ActorExited) -> None:
        """Take and send nothing any more; all that wait for an answer get the error. Call under the lock.

        A system that goes back to a snapshot may still stop before this actor is loaded.
        """
        assert self.runner.lock.locked()
        rolls_back = isinstance(self.runner.down, SystemRecovering) and not isinstance(error, SystemRecovering)
        if self.runner.down is None or rolls_back:
            self.runner.down = error
            self.runner.interrupted = True
            self.channels.shut(error)
            self.outcomes.shut(error)
            self.outside.shut()
            self.runner.notify()
            self.recording.deliveries.changed.notify_all()

    def stop(self, stop: Stop) -> None:
        """The system takes no messages any more. Call under the lock."""
        if stop.savepoint is not None:
            self.outcomes.durable.committed(stop.savepoint)
        self.shut(stop.error())

    def refuse_all(self) -> None:
        """The actor handles nothing more, and waits for a commit before it ends: who calls it hears so now.

        A caller that waited for its answer would let no snapshot begin, and so no commit come.
        """
        mailbox, codec, tracer = self.channels.mailbox, self.codec, self.tracing.tracer
        why = f"actor {self.name!r} ended"
        while True:
            with self.runner.lock:
                if mailbox.current is not None:
                    mailbox.put_back()
                delivery = mailbox.take(self.channels.limits()) if mailbox else None
                if delivery is None or self.runner.down is not None:
                    return
                self.channels.dead_letters.add_unhandled(self.name, [(delivery.sender, delivery.frame)], why)
            sender, frame = delivery.sender, delivery.frame
            messages = codec.unpacker(frame.body)
            with contextlib.suppress(SystemDown):  # a stop can come at any time
                for message in messages if tracer is None else tracer.watch(sender, messages, frame.body):
                    if message[0] == CALL:
                        self.answer(sender, message[1], not_answered(self.name), ok=False)
            with self.runner.lock:
                for number in range(frame.first, frame.last + 1):
                    mailbox.slots.pop((sender, number), None)
                mailbox.position = frame.last
                mailbox.finish()

    def wait_for_ends(self) -> None:
        """This actor waits to end, maybe for a snapshot whose end was not announced yet: ask the coordinator for it.

        If it waits for a commit, and no snapshot is under way, it begins one.
        """
        if not self.runner.participant.open_snapshots and self.outside.asks():
            self.request_snapshot()
        if not self.runner.leaving:
            self.runner.leaving = True
            self.identity.coordinator.leaving.remote(self.name, self.identity.incarnation)

    def give_up_unready(self) -> None:
        """Give up sent messages that wait for objects: they delay this actor's end for UNREADY_AT_END_S at most.

        Call under the lock.
        """
        assert self.runner.lock.locked()
        now = time.monotonic()
        self._ending_since = self._ending_since or now
        if now - self._ending_since > UNREADY_AT_END_S:
            why = ActorExited(f"actor {self.name!r} ended before an object was there that it had sent")
            for channel in self.channels.out.values():
                channel.give_up_unready(why)

    def fail(self, detail: str) -> None:
        """This actor has failed: the whole system stops. If the coordinator dies now, its successor asks."""
        self.failure = detail
        self.identity.coordinator.failed.remote(self.name, detail, self.identity.incarnation)

    def failed_to_start(self, error: BaseException) -> None:
        """The constructor raised: the actor is not part of the system."""
        detail = f"the constructor of actor {self.name!r} raised {error!r}"
        if self.channels.constructor_asks:  # others have heard of it, so it cannot count as never begun
            self.fail(f"{detail}, behind a question that it had asked")
            return
        ended, never_began = self.identity.coordinator.ended, self.recording.never_began
        for child in self._children:
            ended.remote(*never_began(child, Ending(f"{detail}, which had made {child!r}")))
        with self.runner.lock:
            self._never_begin(Ending(detail, carry(error)))

    def maker_died(self, driver: str) -> None:
        """A driver is gone. If it made this actor and had not sent the creation, nobody creates this actor: it ends."""
        with self.runner.lock:
            waits = not (self.cell.born or self.runner.loading or driver in self.channels.mailbox.senders())
            if waits and driver == self.identity.maker and self.runner.down is None:
                detail = f"the program that made actor {self.name!r} died before the creation had arrived"
                self._never_begin(Ending(detail))

    def _never_begin(self, ending: Ending) -> None:
        assert self.runner.lock.locked()
        self.recording.end = self.recording.never_began(self.name, ending)
        self.identity.coordinator.ended.remote(*self.recording.end)
        self.shut(ending.error(self.name))
