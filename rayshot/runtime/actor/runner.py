"""What the parts of an actor's process share: one lock, the machine under it, and the state of the process."""

import threading
from collections.abc import Callable
from typing import Protocol

from rayshot.errors import ActorExited, SystemDown
from rayshot.protocol.effects import (
    AnnounceSnapshot,
    AwaitMarkers,
    CaptureState,
    DeliverBatch,
    DropBatch,
    ForgetSnapshot,
    HoldBatch,
    PauseHandlers,
    ReportEnd,
    ReportFailure,
    ReportQuiet,
    ReportRecord,
    SendBatch,
)
from rayshot.protocol.events import Event
from rayshot.protocol.participant import Participant
from rayshot.runtime.wire.host_identity import HostIdentity

Down = SystemDown | ActorExited
Task = Callable[[], None]
TransportEffect = DeliverBatch | HoldBatch | DropBatch | SendBatch
SnapshotEffect = (
    AwaitMarkers
    | PauseHandlers
    | CaptureState
    | ReportQuiet
    | ReportRecord
    | ReportFailure
    | ReportEnd
    | AnnounceSnapshot
    | ForgetSnapshot
)


class Transport(Protocol):
    """Carries out the machine's effects on batches."""

    def carry_out(self, effect: TransportEffect) -> None:
        """Call under the lock."""


class Snapshots(Protocol):
    """Carries out the machine's effects on snapshots."""

    def carry_out(self, effect: SnapshotEffect) -> None:
        """Call under the lock."""

    def check_kept(self) -> None:
        """Check the limit: more bytes are kept for records than before. Call under the lock."""


class Runner:
    """Runs the machine of one actor's process: each event goes in here, each effect to the part that carries it out.

    `lock` covers the machine, the mailbox, the outboxes and the batches kept for snapshots. `interrupted` tells the
    worker to do something between two handlers: snapshots, pauses, open calls, a full outbox, the end. The functions in
    `at_rest` are called between two batches, under the lock.

    `idle`: the worker has nothing to do. `held`: the actor begins only what somebody waits for, see `concluding`:
    batches look at nothing else of this. `loading`: a restore makes the process, and some actors do not have their
    states yet. `ending`: the actor ends when all its messages have arrived. `leaving`: the coordinator was told that it
    ends. `down`: the error that says why the process takes and sends nothing any more; None before. `notify` calls
    `hear_news`, under the lock, if it is set.
    """

    def __init__(self, identity: HostIdentity) -> None:
        self.identity = identity
        self.name = identity.name
        self.lock = threading.Lock()
        self.wake = threading.Condition(self.lock)
        self.participant = Participant(identity.name, identity.incarnation)
        self.interrupted = self.idle = False
        self.held = False
        self.at_rest: list[Task] = []
        self.loading = identity.loading
        self.ending = False
        self.leaving = False
        self.down: Down | None = None
        self.hear_news: Task | None = None
        self._transport: Transport | None = None
        self.snapshots: Snapshots | None = None

    def employ(self, transport: Transport, snapshots: Snapshots) -> None:
        """Use these two to carry out the machine's effects."""
        self._transport, self.snapshots = transport, snapshots

    def notify(self) -> None:
        """Wake the worker: there is something new for it, also while its handler waits. Call under the lock."""
        assert self.lock.locked()
        self.wake.notify_all()
        if self.hear_news is not None:
            self.hear_news()

    def handle(self, event: Event) -> None:
        """Give the machine an event, and have its effects carried out. Call under the lock."""
        assert self.lock.locked(), f"{event} without the lock"
        assert self._transport is not None
        assert self.snapshots is not None
        for effect in self.participant.handle(event):
            if isinstance(effect, TransportEffect):
                self._transport.carry_out(effect)
            else:
                self.snapshots.carry_out(effect)
