"""The Ray actor in which a rayshot actor lives: the calls that other processes may make to it, over Ray.

Three kinds of threads meet here. Ray's transport thread brings packets and puts them into the mailbox. Ray's control
threads bring `begin`, `stop` and questions. Our own thread, the worker, runs the handlers. The worker also records,
under the process's lock, between two handlers: so a record is one atomic step against sends, deliveries and timers.
"""

import gc
import threading
import time
import warnings
from typing import TYPE_CHECKING, Any

from rayshot.errors import ActorExited, HandlersTakeTurns, RayshotError, StaleHandle, SystemRecovering
from rayshot.model.port import provide_port
from rayshot.protocol.concluding import ConclusionId
from rayshot.protocol.events import (
    AlignmentTimedOut,
    BatchArrived,
    Begun,
    DeadlinePassed,
    EverybodyRecorded,
    SnapshotEnded,
)
from rayshot.protocol.identity import SnapshotId, label_of
from rayshot.runtime.actor.answering import Answering
from rayshot.runtime.actor.incarnation import Incarnation
from rayshot.runtime.actor.outcomes import GONE
from rayshot.runtime.actor.process import ActorProcess
from rayshot.runtime.actor.waiting_fetches import FetchRetry
from rayshot.runtime.actor.worker import Worker
from rayshot.runtime.channel.attached_references import Slots, take_in
from rayshot.runtime.door import door, here
from rayshot.runtime.door.functions import be_actor, name_in_logs
from rayshot.runtime.door.sigterm import die_at_sigterm
from rayshot.runtime.wire.answer_digests import digest
from rayshot.runtime.wire.host_identity import Abandoned, ActorOffer, HostIdentity, Stop
from rayshot.runtime.wire.orders import Issuer, order
from rayshot.runtime.wire.packets import PacketAnswer, Status, pack, pack_answer, unpack, unpack_begin, unpack_packet
from rayshot.runtime.wire.reports import Body
from rayshot.runtime.wire.tagged_results import with_news

if TYPE_CHECKING:
    from rayshot.runtime.actor.loading import LoadPlan

CREDIT_WAIT_S = 1.0
JOIN_AGAIN_S = 5.0
"""A host of a life that is over asks again after so many seconds, if nobody has ended it."""
LINGER_S = 1.0
"""An actor that ended answers late senders for at least so many seconds that it has ended."""


class Host(Answering):
    """One actor's process as Ray sees it. User code never runs on these threads."""

    def __init__(self, identity: HostIdentity) -> None:
        die_at_sigterm()
        gc.freeze()  # Ray and the modules stay: a collection on the way back looks only at what comes later
        warnings.simplefilter("ignore", HandlersTakeTurns)  # the program that made this actor was told
        process = ActorProcess(identity, Host)
        self._incarnation = Incarnation(process, Worker(process))
        self._ray_name: str = here.actor_name()
        self._options = identity.options
        be_actor(lambda: self._process.own_handle(), identity.name)  # noqa: PLW0108 - of the life in which it is called
        self._ended = threading.Event()
        self._changing = threading.Condition()  # covers which incarnation there is, and the highest term
        self._reloading = threading.Lock()
        self._asked_at: dict[SnapshotId, tuple[float, Any]] = {}
        self._highest_counter = self._highest_term = 0
        provide_port(lambda: self._process)
        self._node: str = here.node()
        self._join(process)
        self._worker.start()

    def _join(self, process: ActorProcess) -> None:
        identity = process.identity
        own = door.find(self._ray_name)
        while (
            joined := door.get(identity.coordinator.join.remote(identity, self._node, own, self._ray_name))
        ) is None:  # the coordinator ends this process, or the next one if it dies: an error here would be printed
            self._ended.wait(JOIN_AGAIN_S)
        self._joined_term = joined.term
        self._hears(Issuer(identity.incarnation, joined.term))
        with process.runner.lock:
            process.dead_drivers.supersede(joined.programs)
        if joined.traced is not None and not process.cell.born and process.tracing.tracer is None:
            process.tracing.begin(full=joined.traced)
        with process.runner.lock:
            for snapshot, floor in joined.over:
                process.runner.handle(SnapshotEnded(snapshot, floor))
        if joined.concluding is not None:
            with process.runner.lock:
                process.concluding.begin(*joined.concluding)
        for begin in joined.begun:  # before the first message: otherwise a cut without this actor could hold
            self._begin(process, *begin, brought=True)  # effects that a driver had through it

    @order
    def rejoin(self, process: ActorProcess) -> None:
        """A new coordinator took over while this actor was being made: join it, unless this actor already has.

        An actor that has not joined it joined the old coordinator. That one died, and nobody else knew this actor.
        """
        if self._joined_term < self._highest_term:
            self._abandon(process, None)
            self._join(process)

    def _hears(self, issuer: Issuer) -> bool:
        """Note who coordinates. Returns False for a coordinator that was replaced, and for one of an earlier life."""
        with self._changing:
            heard = issuer.life >= self._process.identity.incarnation and issuer.term >= self._highest_term
            if heard:
                self._highest_term = issuer.term
            return heard

    def obeys(self, issuer: Issuer) -> ActorProcess | None:
        """See Obedient."""
        process = self._process
        return process if process.identity.incarnation == issuer.life and self._hears(issuer) else None

    # Transport -------------------------------------------------------------------------------------------------

    @door.method("transport")
    def receive(self, packet: bytes) -> bytes:
        """Take a batch of messages; see packets.py for the packet and the answer."""
        return pack_answer(self._take(packet))

    @door.method("values")
    def receive_with(self, packet: bytes, layout: bytes, objects: list[Any], *values: Any) -> bytes:
        """As `receive`, with the objects and values beside the messages; see beside.py."""
        return pack_answer(self._take(packet, take_in(layout, objects, values)))

    @door.method("credit")
    def probe(self, value: Any) -> None:
        """Does nothing. If Ray runs this call, the object is available here."""

    @door.method("calls", again=FetchRetry, results=2)
    def result(self, call: bytes, *_gates: Any) -> tuple[bytes, Any]:
        """Wait for the outcome of a driver's call. The tags come first, so that they are there when the value is.

        The message of the call comes in a batch, like all others. `_gates` are the objects that the message waits for
        at its sender: Ray does not start this call before they are ready, so it takes no thread here until then.
        """
        return self._outcome(call)

    @door.method("durable", again=FetchRetry, results=2)
    def durable_result(self, call: bytes, *_gates: Any) -> tuple[bytes, Any]:
        """As `result`, but only when a durable snapshot holds the call as handled."""
        return self._outcome(call, durable=True)

    @door.method("again", again=FetchRetry)
    def answered(self, call: bytes) -> bytes:
        """As `result`, but only the tags: for a driver whose program has the outcome of an earlier life."""
        return self._outcome(call, again=True)[0]

    def _outcome(self, call: bytes, *, durable: bool = False, again: bool = False) -> tuple[bytes, Any]:
        while True:
            incarnation = self._incarnation
            try:
                outcome = incarnation.process.outcomes.fetch(*unpack(call), durable=durable, again=again)
            except SystemRecovering:  # the message comes again in the next life, if the snapshot does not hold it
                with self._changing:
                    self._changing.wait_for(lambda now=incarnation: self._incarnation is not now or not now.rolls_back)  # type: ignore[misc]
                continue
            identity = incarnation.process.identity
            if not (outcome.tags or identity.heals):
                return b"", outcome.value
            value = with_news(outcome.value, identity.life, outcome.tags) if outcome.tags else outcome.value
            said = digest(outcome.value) if identity.heals else b""
            return pack((identity.incarnation, outcome.tags, outcome.is_late, said)), value

    @door.method("credit")
    def await_credit(self, sender: str, wanted: int) -> int:
        """Wait until the message `wanted` of `sender` is processed, for CREDIT_WAIT_S seconds at most.

        Returns the number of the last processed message.
        """
        process, deadline = self._process, time.monotonic() + CREDIT_WAIT_S
        while True:
            with process.runner.lock:
                processed = process.channels.mailbox.processed.get(sender, 0)
            if processed >= wanted or time.monotonic() >= deadline or process.runner.down is not None:
                return processed
            time.sleep(0.002)

    @door.method("credit")
    def linger(self) -> None:
        """The actor ended: stay for late senders for LINGER_S, and until all outcomes of calls were fetched."""
        fetched = False
        while not fetched:
            time.sleep(LINGER_S / 2)
            fetched = not self._process.outcomes
            time.sleep(LINGER_S / 2)  # the outcomes that were just fetched are still under way

    def _take(self, packet: bytes, slots: Slots | None = None) -> PacketAnswer:
        process = self._incarnation.process
        runner, channels = process.runner, process.channels
        with runner.lock:
            idle = runner.idle
            batch, may_ride, answer = self.take_packet(process, packet, slots)
            back = channels.out.get(batch.sender)
            waits = idle and may_ride and back is not None and channels.boarding.pays(back)
            rider = back.rider(batch.first) if waits and back is not None else b""
        if idle and not waits:
            time.sleep(0)  # let the worker run first: the sender may wait for the message to be handled
        return answer._replace(processed=channels.mailbox.processed.get(batch.sender, 0), rider=rider)

    @staticmethod
    def take_packet(
        process: ActorProcess, packet: bytes, slots: Slots | None = None
    ) -> tuple[BatchArrived, bool, PacketAnswer]:
        """Take a packet, which came by a call or as a rider. Call under the lock.

        Returns what arrived, whether a rider may go with the answer, and the answer.
        """
        batch, (asks, acks), body = unpack_packet(packet)
        refusal = _refusal(process, batch.incarnation)
        if isinstance(refusal, ActorExited):
            return batch, False, PacketAnswer(Status.ENDED, 0, detail=refusal.message)
        if refusal is not None:
            return batch, False, PacketAnswer(Status.STOPPED, 0, detail=refusal.message)
        if batch.sender in process.dead_drivers:
            return batch, False, PacketAnswer(Status.GONE, 0, detail=GONE)
        if batch.asked:
            process.concluding.asked(batch.sender, batch.asked)
        back = process.channels.out.get(batch.sender)
        if back is not None:
            back.heard(acks, batch.first)
        is_new = process.channels.arrived(batch, body, slots)
        recorded = process.runner.participant.recorded_snapshots
        ended = _ended_tags(process, batch.tags) if batch.tags else ()
        processed = process.channels.mailbox.processed.get(batch.sender, 0)
        return batch, asks and is_new, PacketAnswer(Status.TAKEN, processed, recorded, ended)

    # Control ---------------------------------------------------------------------------------------------------

    @door.method("control", again=True)
    def hello(self) -> ActorOffer | None:
        """Answers once the actor is a member of its system. Returns the offer of its class; None before it is born."""
        self._look_at_handler()
        cell = self._process.cell
        return None if cell.specification is None else ActorOffer.of(cell.specification, type(cell.instance))

    @order
    def begin(
        self,
        process: ActorProcess,
        snapshot: SnapshotId,
        floor: int,
        inputs: frozenset[str],
        quiet: bool,  # noqa: FBT001
    ) -> None:
        """A process began a snapshot, or a stop-the-world snapshot goes on."""
        self._begin(process, snapshot, floor, inputs, quiet)

    @door.method("record", again=True, results=2)
    def record(self, begin: bytes) -> tuple[bytes, Body] | tuple[None, None]:
        """The coordinator began a snapshot. Returns this actor's report; (None, None) if the snapshot ended before.

        Raises NoAnswer if the report was lost on its way: it is not kept for another call, as it may be large.
        """
        process = self._process
        snapshot, floor, inputs = unpack_begin(begin)
        self._begin(process, snapshot, floor, inputs, quiet=False)
        if process.identity.heals:
            import rayshot.runtime.actor.loading  # noqa: F401, PLC0415 - now, as all hosts go back at the same time
        return process.recording.deliveries.fetch(snapshot)

    @order
    def everybody_recorded(self, process: ActorProcess, snapshot: SnapshotId) -> None:
        """All actors have recorded a stop-the-world snapshot."""
        with process.runner.lock:
            process.runner.handle(EverybodyRecorded(snapshot))
            process.runner.notify()

    @order
    def stop_aligning(self, process: ActorProcess, snapshot: SnapshotId) -> None:
        """An aligned snapshot may not wait for markers any longer."""
        with process.runner.lock:
            process.runner.handle(AlignmentTimedOut(snapshot))

    def _begin(
        self,
        process: ActorProcess,
        snapshot: SnapshotId,
        floor: int,
        inputs: frozenset[str],
        quiet: bool,  # noqa: FBT001 - as a Ray call
        *,
        brought: bool = False,
    ) -> None:
        with process.runner.lock:
            process.runner.handle(Begun(snapshot, floor, inputs, quiet))
            if brought:
                process.recording.deliveries.bring(snapshot)
            still_open = process.runner.participant.open_snapshots
            self._asked_at = {k: asked for k, asked in self._asked_at.items() if k in still_open}
            self._asked_at[snapshot] = (time.monotonic(), self._worker.handling)
            if snapshot.by_coordinator:
                self._highest_counter = max(self._highest_counter, snapshot.counter)

    @order
    def conclude(self, process: ActorProcess, conclusion: ConclusionId, within_s: float) -> None:
        """A snapshot is to begin: bring what is under way to its end, and begin nothing else; see `concluding`."""
        with process.runner.lock:
            process.concluding.begin(conclusion, within_s)

    @order
    def breathe(self, process: ActorProcess, conclusion: ConclusionId, count: int) -> None:
        """Begin so many messages besides."""
        with process.runner.lock:
            process.concluding.breathe(conclusion, count)

    @order
    def concluded(self, process: ActorProcess, conclusion: ConclusionId) -> None:
        """This conclusion has led to nothing, or is over: go on."""
        with process.runner.lock:
            process.concluding.end(conclusion)

    @order
    def give_up_durable(self, process: ActorProcess, error: RayshotError) -> None:
        """No snapshot can be taken: who waits here for a durable outcome hears why, as it may be what is waited for."""
        with process.runner.lock:
            process.outcomes.durable.fail(error)

    @order
    def initiate(self, process: ActorProcess, token: str) -> None:
        """Begin a snapshot with this actor as its initiator."""
        with process.runner.lock:
            process.request_snapshot(token)
            process.runner.notify()

    @door.method("control")
    def open_channel(self, receiver: str) -> None:
        """Open the channel to `receiver`, so that markers can use it before any message does."""
        process = self._process
        with process.runner.lock:
            process.channels.channel_locked(receiver).flush()

    @order
    def trace(self, process: ActorProcess, full: bool | None) -> bool:  # noqa: FBT001
        """See `ActorProcess.trace`."""
        return process.trace(full)

    @order
    def ended(self, process: ActorProcess, snapshot: SnapshotId, floor: int, committed: bool) -> None:  # noqa: FBT001
        """A snapshot was committed or aborted."""
        if (tracer := process.tracing.tracer) is not None:  # a window may end at any time
            tracer.over(snapshot, committed=committed)
        with process.runner.lock:
            self._asked_at.pop(snapshot, None)
            if not committed:
                process.outcomes.durable.aborted(snapshot)
            process.runner.handle(SnapshotEnded(snapshot, floor))

    @order
    def advanced(self, process: ActorProcess, snapshot: SnapshotId) -> None:
        """A snapshot was committed, and advances: what waits for this may go. It may have `ended` before."""
        with process.runner.lock:
            process.outcomes.durable.committed(snapshot)
            process.outside.committed(snapshot)

    @order
    def receiver_ended(self, process: ActorProcess, name: str, detail: str) -> None:
        """Another actor has ended itself."""
        with process.runner.lock:
            process.channels.receiver_ended(name, detail)

    @order
    def driver_died(self, process: ActorProcess, driver: str) -> None:
        """A driver is gone for ever."""
        with process.runner.lock:
            process.dead_drivers.close(driver)
        process.maker_died(driver)

    @order
    def supersede(self, process: ActorProcess, driver: str) -> tuple[str, ...]:
        """A program attached again: its earlier processes are gone for ever, and `driver` goes on.

        Returns the drivers of that label whose first message was the creation of this actor.
        """
        with process.runner.lock:
            process.dead_drivers.supersede({label_of(driver): driver})
            return tuple(filter(process.was_made_by, process.channels.mailbox.senders()))

    @order
    def forget_drivers(self, process: ActorProcess, drivers: frozenset[str]) -> None:
        """Forget these drivers: a committed snapshot holds their last counters."""
        with process.runner.lock:
            process.dead_drivers.forget(drivers)

    @door.method("control", again=True)
    def stop(self, issuer: Issuer, stop: Stop) -> None:
        """The system takes no messages any more. This may also come from the next life, before the host is loaded."""
        if self._hears(issuer):
            process = self._process
            with process.runner.lock:
                process.stop(stop)
            with self._changing:
                self._changing.notify_all()

    @door.method("load")
    def load(self, plan: "LoadPlan") -> None:
        """Become an actor from a snapshot; handle no messages until `resume`."""
        from rayshot.runtime.actor.loading import load_process  # noqa: PLC0415 - late: a new actor needs no storage

        incarnation = self._incarnation
        load_process(incarnation.process, plan)
        if incarnation.process.cell.born:
            name_in_logs(incarnation.process.cell.instance)
        incarnation.worker.tell_of_restore()

    @door.method("load")
    def roll_back(self, issuer: Issuer, identity: HostIdentity, plan: "LoadPlan") -> str:
        """Become what this actor was in a snapshot, in a new life; handle no messages until `resume`.

        Returns the id of the node. A second call for the same life changes nothing if the first one succeeded. Raises
        as `load_process`, and StaleHandle if this host has heard of a later life.
        """
        from rayshot.runtime.actor.loading import next_incarnation  # noqa: PLC0415 - late, as above

        with self._reloading:
            if not self._hears(issuer):
                raise StaleHandle(f"life {issuer.life} of system {identity.system!r} is over")
            before = self._incarnation
            if before.process.identity.incarnation == identity.incarnation:
                return self._node
            before.leave(SystemRecovering(f"system {identity.system!r} goes back to snapshot {plan.snapshot}"))
            after = next_incarnation(identity, before, plan, Host)
            if after.process.cell.born:
                name_in_logs(after.process.cell.instance)
            after.begin()
            with self._changing:
                self._incarnation, self._joined_term = after, issuer.term
                self._asked_at, self._highest_counter = {}, 0
                self._changing.notify_all()
            return self._node

    @order
    def resume(self, process: ActorProcess) -> None:
        """All actors are loaded: handle messages from now on."""
        with process.runner.lock:
            process.runner.loading = False
            process.outside.resumed()
            process.runner.interrupted = True  # the actor may have asked for its end before the snapshot
            process.runner.notify()

    @order
    def abandon(self, process: ActorProcess, stop: Stop | None) -> Abandoned:
        """A new coordinator took over: give up the snapshots of the old one, and answer what the new one must know.

        With `stop` the old coordinator died before it could tell the actors to stop: no handler runs any more.
        """
        return self._abandon(process, stop)

    def _abandon(self, process: ActorProcess, stop: Stop | None) -> Abandoned:
        if not process.identity.trace:
            process.trace(None)  # the trace window belonged to the old coordinator
        with process.runner.lock:
            if stop is not None:
                process.stop(stop)
            process.outcomes.durable.ask_again()
            if process.outside.settles:  # of a commit that the old one did not tell any more
                process.follow_commits()
            process.concluding.end(None)
            lost = process.runner.participant.open_snapshots
            for snapshot in lost:
                process.runner.handle(DeadlinePassed(snapshot))
            process.runner.leaving = False  # the new coordinator does not know it yet
            return Abandoned(
                self._node,
                process.runner.down is None and process.failure is None,
                process.runner.loading,
                tuple(process.channels.out),
                process.runner.participant.ended_peers,
                self._highest_counter,
                lost,
                process.recording.end,
                process.failure,
                self._options,
                process.outside.still_due(),
            )

    @door.method("watch")
    def watch(self) -> None:
        """Stays pending while this process lives. The call fails when it dies, so the death is seen at once."""
        self._ended.wait()


def _ended_tags(process: ActorProcess, tags: tuple[SnapshotId, ...]) -> tuple[SnapshotId, ...]:
    open_here = process.runner.participant.open_snapshots
    return tuple(tag for tag in tags if tag not in open_here)


def _refusal(process: ActorProcess, incarnation: int) -> RayshotError | None:
    if process.runner.down is None and incarnation != process.identity.incarnation:
        return StaleHandle(
            f"this handle is of life {incarnation} of system {process.system!r}, and life "
            f"{process.identity.incarnation} runs: get a new handle with system.get_actor({process.name!r})"
        )
    return process.runner.down
