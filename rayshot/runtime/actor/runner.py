"""What the parts of an actor's process share: one lock, the machine under it, and how the process stands."""

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
    """Carries out what the machine orders of batches."""

    def carry_out(self, effect: TransportEffect) -> None:
        """Call under the lock."""


class Snapshots(Protocol):
    """Carries out what the machine orders of snapshots."""

    def carry_out(self, effect: SnapshotEffect) -> None:
        """Call under the lock."""

    def check_kept(self) -> None:
        """More is kept for records than before. Call under the lock."""


class Runner:
    """Runs the machine of one actor's process: each event goes in here, each effect to the part that carries it out.

    `lock` covers the machine, the mailbox, the outboxes and what is kept for snapshots. `interrupted` tells the worker
    that there is something to do between two handlers: snapshots, pauses, open calls, a full outbox, the end. What is
    `at_rest` is called between two batches, under the lock.

    `loading`: a restore makes the process, and not all others have their states yet. `ending`: it ends when all that it
    sent has arrived. `leaving`: the coordinator was told so. `down`: it takes and sends nothing any more, and why.
    """

    def __init__(self, identity: HostIdentity) -> None:
        self.identity = identity
        self.name = identity.name
        self.lock = threading.Lock()
        self.wake = threading.Condition(self.lock)
        self.participant = Participant(identity.name, identity.incarnation)
        self.interrupted = False
        self.at_rest: list[Task] = []
        self.loading = identity.loading
        self.ending = False
        self.leaving = False
        self.down: Down | None = None
        self._transport: Transport | None = None
        self.snapshots: Snapshots | None = None

    def employ(self, transport: Transport, snapshots: Snapshots) -> None:
        """These carry the machine's effects out."""
        self._transport, self.snapshots = transport, snapshots

    def handle(self, event: Event) -> None:
        """Tell the machine of an event, and have done what it orders. Call under the lock."""
        assert self.lock.locked(), f"{event} without the lock"
        assert self._transport is not None
        assert self.snapshots is not None
        for effect in self.participant.handle(event):
            if isinstance(effect, TransportEffect):
                self._transport.carry_out(effect)
            else:
                self.snapshots.carry_out(effect)
