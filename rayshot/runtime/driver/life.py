"""One life of a system as a driver sees it: in this life it is the sender of the driver's channels."""

import logging
import time
from collections.abc import Callable
from typing import Any

from rayshot.errors import ActorExited, NoAnswer, SystemRecovering, SystemStopped
from rayshot.protocol.driver_events import AnswerArrived, MessagesHanded
from rayshot.protocol.events import BatchAcknowledged, ReceiverEnded, SnapshotEnded
from rayshot.runtime.actor.spawning import is_there
from rayshot.runtime.channel.batch import InFlight
from rayshot.runtime.channel.peers import Peers, RayPeer
from rayshot.runtime.channel.transport import SenderChannel
from rayshot.runtime.door import door
from rayshot.runtime.driver.channel import DriverChannel
from rayshot.runtime.driver.eviction import Eviction
from rayshot.runtime.driver.session import DriverSession
from rayshot.runtime.wire.answers import get_answer, noticing_restart, the_coordinator
from rayshot.runtime.wire.host_identity import Ending, HostIdentity, Stop
from rayshot.runtime.wire.packets import PacketAnswer, Status, pack

log = logging.getLogger("rayshot")
LOOK_S = 0.2
"""The pause between two looks for a receiver that others make again."""
ENDED_KEPT_MAX = 1000
"""A driver remembers for so many actors why they ended; for other actors it asks again."""


class DriverLife:
    """See the module. Answers and timers hold the life that asked: once it `is_over`, what is for it changes nothing.

    `rolls_back`: the driver has heard that the life is over, and not yet of the next one. `made_again` are the actors
    that it makes again behind a rollback, while anybody may wait for them. For `patience_s` seconds it looks for
    receivers that nobody knows.
    """

    draining = False  # a driver is not part of what stops

    def __init__(self, session: DriverSession, identity: HostIdentity, patience_s: float = 0.0) -> None:
        self._session = session
        self.identity, self.incarnation = identity, identity.incarnation
        self.name, self.codec, self.lock = session.name, session.codec, session.lock
        self.dead_letters = session.dead_letters
        self.peers = Peers(identity.system, identity.incarnation)
        self.made_again: frozenset[str] = frozenset()
        self.ended: dict[str, ActorExited] = {}
        self.rolls_back = False
        self.eviction = Eviction(session, self)
        self._patient_until = time.monotonic() + patience_s

    @property
    def is_over(self) -> bool:
        """Whether a later life has begun in this driver."""
        return self._session.life is not self

    # Answers ---------------------------------------------------------------------------------------------------

    def acknowledged(self, channel: SenderChannel, last: int, _batch: InFlight, answer: PacketAnswer) -> None:
        """See Sender."""
        machine, receiver = self._session.machine, channel.receiver
        if receiver in machine.starting:  # messages that may leave now count as effects of this answer
            machine.handle(AnswerArrived(answer.recorded))
            self._session.creations.started(receiver)
        self._session.carry_out(machine.handle(BatchAcknowledged(receiver, last)))
        for snapshot in answer.ended:
            machine.handle(SnapshotEnded(snapshot))
        channel.room.notify_all()
        self.evict()

    def refused(self, receiver: str, answer: PacketAnswer) -> None:
        """The receiver refuses messages: the coordinator knows why, or this process counts as dead."""
        if answer.status is Status.GONE:
            gone = SystemStopped(answer.detail, system=self.identity.system)
            self.peers.submit(lambda: self._session.close(gone))
        else:
            self._ask_why(receiver)

    def lost(self, receiver: str, error: Exception) -> bool:
        """A Ray call failed. If the receiver died, ask the coordinator why. Returns whether to try again."""
        if isinstance(error, door.Died):
            self._ask_why(receiver)
            return False
        return True

    def congested(self, channel: SenderChannel) -> None:
        """`DriverChannel.append` waits by itself."""

    def evict(self) -> None:
        """See DriverSender."""
        self.eviction.ask()

    # Outcomes --------------------------------------------------------------------------------------------------

    def call_again(self, channel: DriverChannel) -> None:
        """Ask for the outcomes that the receiver must give again in this life. Call under the lock."""
        machine, receiver = self._session.machine, channel.receiver
        if receiver in machine.due and channel.fetch is not None and not self.rolls_back:
            self._session.carry_out(machine.handle(MessagesHanded(receiver, channel.handed)))

    def fetch_again(self, receiver: str, call_id: int, number: int) -> None:
        """See PresentLife."""
        host, calls = self.peers.find(receiver), self._session.calls
        assert host is not None, f"{receiver} was found before"
        tags = host.answered.remote(pack((self.name, call_id, calls.first_open(receiver), number)))
        calls.fetched_again(call_id, tags)
        door.when_answered(tags, lambda answer: self._answered_again(receiver, call_id, answer))

    def _answered_again(self, receiver: str, call_id: int, answer: Any) -> None:
        """On Ray's own thread. It counts in a later life too: the machine knows in which life it was given."""
        session = self._session
        if isinstance(answer, door.NotReached):
            self._ask_why(receiver)
        with self.lock:
            session.carry_out(session.calls.answered(receiver, call_id, answer))
            if (channel := session.channels.get(receiver)) is not None:
                channel.send_on()

    # Receivers -------------------------------------------------------------------------------------------------

    def connect(self, channel: SenderChannel) -> None:
        """Find the receiver in the background."""
        self.peers.insist(lambda: self._connect(channel), lambda: channel.down is not None or self.is_over)

    def _connect(self, channel: Any) -> None:
        """Raises CallFailed while Ray's control service does not answer."""
        session, receiver = self._session, channel.receiver
        handle = self.find(receiver)
        if handle is None:
            self.learn_why(receiver)
            return
        try:
            offer = door.get(handle.hello.remote())
        except door.CallFailed as error:
            log.debug("no connection to %s: %s", receiver, error)
            self.learn_why(receiver)
            return
        with self.lock:
            if self.is_over:
                return
            if offer is not None:
                channel.calls_max = offer.calls_max
                if (known := session.handles.get(receiver)) is not None:
                    known._methods = offer.methods  # noqa: SLF001 - known from now on
            channel.connected(RayPeer(handle))
            channel.fetch = handle.result.remote
            channel.flush()
            channel.room.notify_all()

    def find(self, receiver: str) -> Any | None:
        """The Ray handle of an actor; None if there is none.

        Just after a rollback this waits for an actor that nobody knows: its maker may make it again.
        """
        while (handle := self.peers.find(receiver)) is None and time.monotonic() < self._patient_until:
            try:
                if self.is_over or self._session.down is not None or self.is_there(receiver) is False:
                    break
            except (SystemStopped, SystemRecovering, NoAnswer):
                break
            time.sleep(LOOK_S)
        return handle

    def is_there(self, name: str) -> bool | None:
        """See Port."""
        return is_there(self.identity, name)

    def watch(self, name: str) -> None:
        """Learn when an actor ends to which nothing is sent any more: otherwise this driver would never forget it."""
        self._insist(lambda: self._watch(name))

    def _watch(self, name: str) -> None:
        handle = self.find(name)
        if handle is None:
            self.learn_why(name)
        else:
            door.when_answered(handle.watch.remote(), lambda _: self._ask_why(name))

    def _ask_why(self, receiver: str) -> None:
        """As `learn_why`, in the background, and until the coordinator can be reached."""
        self._insist(lambda: self.learn_why(receiver))

    def _insist(self, task: Callable[[], None]) -> None:
        self.peers.insist(task, lambda: self.is_over or self._session.down is not None)

    def learn_why(self, receiver: str, within_s: float | None = None) -> None:
        """Ask the coordinator why a receiver takes no messages: the receiver has ended, or the system is down.

        Raises NoAnswer, SystemRecovering after `within_s` seconds, None: waits for the answer; CallFailed if the
        coordinator cannot be reached now.
        """
        system, coordinator = self.identity.system, self.identity.coordinator
        try:
            with noticing_restart(system, coordinator):
                asked = coordinator.fate.remote(receiver, self.incarnation)
                fate = get_answer(asked, the_coordinator(system), within_s)
        except door.CallFailed as lost:
            if self._session.has_coordinator:
                raise
            self._session.close_without(str(lost))
            return
        if isinstance(fate, Stop):
            self._session.close(fate.error())
            return
        with self.lock:
            if fate is None:
                assert self._session.machine.retains, f"system {system!r} does not go back by itself"
                self.rolls_back = True
            else:
                self.end(receiver, fate)

    def end(self, receiver: str, ending: Ending) -> None:
        """An actor has ended: forget all about it except the reason. A later life may undo this. Under the lock."""
        assert self.lock.locked()
        if self.is_over or receiver in self.ended:
            return
        session = self._session
        error = self.ended[receiver] = ending.error(receiver)
        if len(self.ended) > ENDED_KEPT_MAX:
            del self.ended[next(iter(self.ended))]
        self.peers.forget(receiver)
        session.creations.ended(receiver)
        channel = session.channels.get(receiver)
        if channel is not None and channel.down is None:
            channel.end(ending.detail)
            channel.shut(error)
        if not session.machine.retains:
            session.forget(receiver)
        session.carry_out(session.machine.handle(ReceiverEnded(receiver)))
        self.evict()
