"""The coordinator of a system: a detached, named Ray actor that leads its life and owns the commit log.

It keeps nothing that it could not find again. When it dies, Ray starts it again with the same settings. It then reads
the log, takes the system over with a new EPOCH, and asks the living actors. Snapshots that were under way are lost.
"""

import logging
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

import rayshot
from rayshot.errors import NotFound, SnapshotAborted, StoreError, SystemRecovering
from rayshot.model.configuration import FailureConfig, SnapshotConfig
from rayshot.model.dead_letter import DeadLetter
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.collector_events import ProcessQuiet
from rayshot.protocol.concluding import Rest
from rayshot.protocol.identity import SnapshotId
from rayshot.protocol.poison import MessageId
from rayshot.protocol.recovery_events import LifeFenced
from rayshot.runtime.coordinator.actor_notices import notice
from rayshot.runtime.coordinator.clock import TICK_S, start_clock
from rayshot.runtime.coordinator.drain_watch import DrainWatch
from rayshot.runtime.coordinator.driver_watch import DriverWatch
from rayshot.runtime.coordinator.enrolment import Enrolment
from rayshot.runtime.coordinator.life import Life
from rayshot.runtime.coordinator.members import Living
from rayshot.runtime.coordinator.notifications import CALLS_MAX, hold_s
from rayshot.runtime.coordinator.requests import Committed, PendingRequest, SnapshotRequest
from rayshot.runtime.coordinator.restoration import Restoration, RestoreProgress
from rayshot.runtime.door import door, here, notes
from rayshot.runtime.door.naming import coordinator_name
from rayshot.runtime.door.roster import has_rosters
from rayshot.runtime.door.sigterm import die_at_sigterm
from rayshot.runtime.wire.answers import FATE_S
from rayshot.runtime.wire.changed_answer import ChangedAnswer
from rayshot.runtime.wire.host_identity import Ending, HostIdentity, Joined, Stop
from rayshot.runtime.wire.keyring import Keyring
from rayshot.runtime.wire.notifications import Notification
from rayshot.runtime.wire.recovery_report import RecoveryReport
from rayshot.runtime.wire.reports import Body, unpack_record
from rayshot.runtime.wire.settings import SystemSettings
from rayshot.runtime.wire.states import RECOVERING

if TYPE_CHECKING:
    from rayshot.runtime.coordinator.committer import Committer

log = logging.getLogger("rayshot")
LOOK_S = 1.0
BACK_S = 20.0
"""Seconds until all actors are known, while the system goes back."""
GUESTS_WAIT_S = 5.0
"""A plain task's call waits so many seconds until every actor has recorded a snapshot; then the snapshot is aborted."""
REPORT_S = 10.0
REPLACED_S = 600.0
"""Whoever asks for the status within so many seconds is told that this coordinator took the place of a silent one."""
END_S = 0.5
"""A process of no use is ended so many seconds after it has heard that: Ray writes an error for one that dies first."""
STORAGE_AWAY = "system %r waits for its storage: %s; is its volume mounted?"
GROUPS = {"control": 4, "ask": 4, "wait": 32, "news": CALLS_MAX, "drivers": 4, "stay": 1, "hello": 1}


def _begin(settings: SystemSettings, owner: str) -> "Committer":
    """Take the storage over. A coordinator that had begun a life waits while the storage cannot be used, or lacks it.

    One that Ray starts again has begun a life if anybody is on a roster.
    """
    # Imported late: processes that only hold a handle to the coordinator import this module, and need no storage.
    from rayshot.runtime.coordinator.committer import Committer  # noqa: PLC0415

    lived, said = here.was_restarted() and has_rosters(settings.system), False
    while True:
        try:
            return Committer.begin(settings, owner, again=lived)
        except (NotFound, StoreError) as error:
            if not lived:
                raise
            if not said:
                log.error(STORAGE_AWAY, settings.system, error)  # noqa: TRY400 - that is all there is to say
            said = True
            time.sleep(LOOK_S)


class Coordinator:
    """See the module. These are the calls that other processes may make to it, over Ray; the work is in `Life`."""

    def __init__(self, settings: SystemSettings) -> None:
        # Imported late, as the committer in `_begin`.
        from rayshot.runtime.coordinator.healer import Healer  # noqa: PLC0415

        die_at_sigterm()
        self._settings = settings
        self.drivers = DriverWatch(settings.system, lambda: self._life)
        self.enrolment = Enrolment(settings.system, self.drivers, lambda: self._life)
        owner = here.actor_id()
        assert owner is not None, "a coordinator is a Ray actor"
        own = door.find(coordinator_name(settings.system))
        committer = _begin(settings, owner)
        self._silent_at = 0.0
        if here.was_restarted():
            self.drivers.find()
            self._silent_at = float(notes.of_silence(settings.system).all().get("at", 0.0))
        drivers = (self.drivers.find_dead, lambda: self.enrolment.programs)
        self._healer = Healer(settings, owner, self._install, lambda: self._life.committer.keyring, *drivers)
        self._latest = life = Life(settings, committer, own, self._healer)
        self._healer.lead(life)
        self.drivers.keep_notes()
        DrainWatch(lambda: self._life.nodes_in_use(), lambda: self._life.take_before_drain()).start()  # noqa: PLW0108
        start_clock(settings.system, lambda now: self._life.tick(now))  # noqa: PLW0108 - the life of that moment

    def _install(self, life: Life) -> None:
        self._life = life

    def _life_of(self, incarnation: int) -> Life | None:
        """The present life, if it has this number: what is said for another one is late."""
        life = self._life
        return life if life.incarnation == incarnation else None

    # Members ---------------------------------------------------------------------------------------------------

    @notice
    def join(self, identity: HostIdentity, node: str, handle: Any, ray_name: str) -> Joined | None:
        """An actor's process has started: it is a member from now on. Raises ActorExited for a used name.

        Returns None if it is of no use, as the life for which it was made is over. Then the process is ended.
        """
        life = self._life_of(identity.incarnation)
        living = Living(handle, ray_name, identity.options)
        if life is None or (joined := life.join(identity.name, node, living)) is None:
            log.info("%s was made for life %d, and is of no use: it is ended", identity.name, identity.incarnation)
            threading.Timer(END_S, door.kill, (handle,)).start()
            return None
        if identity.maker in self.drivers.dead:  # it died before this host was a member
            with life.lock:
                life.members.tell(identity.name, "driver_died", identity.maker)
        return replace(joined, programs=self.enrolment.programs)  # those that come later are told to all members

    @notice
    def ended(
        self, packed: tuple[object, ...], unfinished: tuple[SnapshotId, ...], trace: bytes | None, why: Ending
    ) -> None:
        """An actor ended. `packed` is its last record; it does not count for the `unfinished` snapshots."""
        record = unpack_record(packed)
        if (life := self._life_of(record.snapshot.incarnation)) is not None:
            life.ended(record, unfinished, trace, why)

    @notice
    def leaving(self, name: str, incarnation: int) -> None:
        """An actor wants to end, but cannot while a snapshot is open there: tell it at once when snapshots end."""
        if (life := self._life_of(incarnation)) is not None:
            life.runner.leaving(name)

    @notice
    def await_commits(self, name: str, incarnation: int) -> None:
        """Outcomes wait at an actor for a durable snapshot: tell it at once, from now on, of each that advances."""
        if (life := self._life_of(incarnation)) is not None:
            life.runner.await_commits(name)

    @notice
    def asks(self, name: str, incarnation: int) -> None:
        """An actor waits for another one, for the first time in this life: see `concluding`."""
        if (life := self._life_of(incarnation)) is not None:
            with life.lock:
                life.runner.concluder.asks(name)

    @notice
    def constructed(self, name: str, incarnation: int) -> None:
        """A constructor has ended that had refused a snapshot, as it waited."""
        if (life := self._life_of(incarnation)) is not None:
            with life.lock:
                life.runner.concluder.constructed(name)

    @notice
    def rests(self, name: str, incarnation: int, report: Rest) -> None:
        """While conversations are to end: whether the actor has anything left that it may begin."""
        if (life := self._life_of(incarnation)) is not None:
            life.runner.rests(name, report)

    @notice
    def settled(self, name: str, snapshot: SnapshotId, trouble: str, incarnation: int) -> None:
        """An actor did all that follows outside from a durable snapshot; or could not yet, for that `trouble`."""
        if (life := self._life_of(incarnation)) is not None:
            with life.lock:
                life.runner.news.settled(name, snapshot, trouble)

    @notice
    def conflicts(self, name: str, detail: str, incarnation: int) -> None:
        """What is outside does not fit an actor's state, as another life has it: this life cannot go on."""
        self._healer.hear(LifeFenced(incarnation, f"{name}: {detail}"))

    @notice
    def failed(self, name: str, detail: str, incarnation: int) -> None:
        """An actor reports a failure that ends the whole life."""
        if (life := self._life_of(incarnation)) is not None:
            life.died(name, detail)

    @door.method("control", again=True)
    def begins(self, name: str, incarnation: int, message: MessageId) -> bool:
        """A watched actor is about to handle this message. Returns False if it need not be watched any more."""
        life = self._life_of(incarnation)
        return life is not None and life.poison.begins(name, message)

    @door.method("control", again=True)
    def ends(self, name: str, incarnation: int) -> None:
        """A watched actor has handled its message."""
        if (life := self._life_of(incarnation)) is not None:
            life.poison.ends(name)

    @door.method("control", again=True)
    def passed_over(self, letter: DeadLetter, incarnation: int) -> None:
        """An actor passes over a message that ends its process again and again."""
        if (life := self._life_of(incarnation)) is not None:
            life.members.pass_over(letter)

    # Snapshots -------------------------------------------------------------------------------------------------

    @door.method("wait")
    def snapshot(self, order: SnapshotRequest) -> Committed:
        """Take a snapshot; returns when it is durable. A system that begins takes only its first snapshot.

        Raises SnapshotAborted; ConfigError while it begins; NoAnswer; SystemDown if it takes no messages any more;
        SystemRecovering if it goes back to a snapshot: programs must tell again before the next life takes it.
        """
        life, trigger = self._life, "request" if order.label is None else "savepoint"
        if life.state == RECOVERING or 0 < order.life < life.incarnation:
            raise SystemRecovering(f"system {self._settings.system!r} goes back to its last snapshot, or went back")
        if order.final and life.committer.went_back:
            self.drivers.await_followers(life)
        mode = order.mode or life.runner.config.mode
        try:
            # a window of tracing takes two
            return life.window.take(order.traced, lambda: life.ask(PendingRequest(mode, order, trigger)))
        except SnapshotAborted as error:
            if order.final or not life.rolls_back:
                raise
            raise SystemRecovering(f"system {self._settings.system!r} goes back: {error.message}") from error

    @notice
    def announce(self, snapshot: SnapshotId, name: str, floor: int, token: str = "") -> None:
        """An actor began a snapshot, for the request of that `token` if any; its snapshots below `floor` are over."""
        self._life.runner.announce(snapshot, name, floor, token)

    @notice
    def quiet(self, snapshot: SnapshotId, name: str) -> None:
        """In a stop-the-world snapshot: everything that the actor `name` had sent before has arrived."""
        self._life.runner.handle(ProcessQuiet(snapshot, name))

    @notice
    def refuse(self, snapshot: SnapshotId, name: str, detail: str, reason: AbortReason) -> None:
        """An actor refuses to record a snapshot."""
        self._life.runner.refuse(snapshot, name, detail, reason)

    @notice
    def report(self, head: bytes, body: Body) -> None:
        """An actor brings a report: for a snapshot that a process began, or that began before the actor joined."""
        self._life.runner.report(head, body)

    @door.method("wait")
    def await_recorded(self, snapshot: SnapshotId, name: str) -> None:
        """Wait until every actor has recorded a snapshot: the actor `name` has an answer for a plain task.

        A snapshot that takes longer than GUESTS_WAIT_S is aborted: an actor may be waiting for that task, and so could
        not record.
        """
        deadline, was_open = time.monotonic() + GUESTS_WAIT_S, False
        while time.monotonic() < deadline:
            with self._life.lock:
                pending = self._life.runner.pending.get(snapshot)
            if (was_open and pending is None) or (pending is not None and pending.recorded_s is not None):
                return
            was_open = pending is not None  # if an actor began the snapshot, its announcement may not be here yet
            time.sleep(TICK_S)
        why = (
            f"not every actor recorded it within {GUESTS_WAIT_S:g} s, and a plain task waits for an answer of {name!r}"
            ": let handlers return sooner, or let the program or an actor call it: rayshot help porting#processes"
        )
        self.refuse(snapshot, name, why, AbortReason.TIMEOUT)

    @door.method("control", again=True)
    def configure(self, config: SnapshotConfig) -> None:
        """Change when snapshots are taken, from now on."""
        with self._life.lock:
            self._life.runner.config = config

    # Restoring, ending -----------------------------------------------------------------------------------------

    @door.method("control", again=True)
    def identity(self) -> HostIdentity:
        """The identity that a driver gives to the hosts that it makes."""
        if (life := self._life).state != RECOVERING:
            self._latest = life
        return self._latest.identity()  # a driver of a life that is over hears which one runs

    @door.method("control", again=True)
    def take_keys(self, keyring: Keyring | None) -> tuple[str, ...]:
        """Sign and encrypt with these keys, see `keyring`, if they are the system's. Returns names of missing keys."""
        return self._life.take_keys(keyring)

    @door.method("control")
    def restore(self, order: Restoration) -> None:
        """Go on from a snapshot. See `Healer.restore`."""
        self._healer.restore(order)

    @door.method("wait", again=True)
    def restored(self, trouble: str, within_s: float) -> RestoreProgress:
        """How far the restore is, when it is over or has another `trouble`, and after `within_s` seconds at last."""
        deadline = time.monotonic() + within_s
        while True:
            progress = self._healer.progress()
            if progress.is_over or progress.trouble != trouble or time.monotonic() >= deadline:
                return progress
            time.sleep(TICK_S)

    @door.method("ask")
    def shutdown(self, detail: str) -> None:
        """End all actors and vaults of the system. Only the coordinator is left, and it writes nothing any more."""
        self._healer.shut_down(detail)

    @door.method("ask", again=True)
    def state(self) -> str:
        """See `states`."""
        return self._life.state

    @door.method("ask", again=True)
    def status(self) -> dict[str, Any]:
        """See `System.status`."""
        status = self._life.status()  # first: behind it all reports are there of what it says
        healing = self._healer.status()
        if status["state"] != RECOVERING:
            healing["recovering"] = ""  # it has died since then, or runs again
        changed = self.drivers.changed_answers
        return {**status, **healing, "replaced": self._why_replaced(), "changed_answers": changed}

    def _why_replaced(self) -> str:
        if time.time() - self._silent_at > REPLACED_S:
            return ""
        at = datetime.fromtimestamp(self._silent_at, UTC)
        return f"its coordinator did not answer, and was started again at {at:%H:%M:%S} UTC"

    @door.method("wait", again=True)
    def recoveries(self, above: int, life: int) -> tuple[RecoveryReport, ...]:
        """The reports of lives above this one, once that of `life` is there; waits REPORT_S seconds at most."""
        deadline = time.monotonic() + REPORT_S
        while True:
            reports = self._healer.reports
            if (reports and reports[-1].life >= life) or time.monotonic() >= deadline:
                return tuple(report for report in reports if report.life > above)
            time.sleep(TICK_S)

    # Drivers ---------------------------------------------------------------------------------------------------

    @door.method("stay")
    def stay(self) -> None:
        """Stay pending while this process lives. One call waits on a thread, all others wait in the queue behind it."""
        threading.Event().wait()

    @door.method("control", again=True)
    def watch_driver(self, name: str, held: list[Any], place: bytes) -> None:
        """See `DriverWatch.watch`. The reference is in a list, because otherwise Ray would send its value."""
        (reference,) = held
        self.drivers.watch(name, reference, place)

    @door.method("control", again=True)
    def give_up_driver(self, name: str) -> None:
        """See `DriverWatch.give_up`."""
        self.drivers.give_up(name)

    @door.method("control", again=True)
    def watch_starter(self, held: list[Any], place: bytes) -> None:
        """See `Starter.watch`. The reference is in a list, because otherwise Ray would send its value."""
        (reference,) = held
        self._life.starter.watch(reference, place)

    @door.method("wait", again=True)
    def enroll(self, driver: str) -> dict[str, int]:
        """See `Enrolment.enroll`."""
        return self.enrolment.enroll(driver)

    @door.method("drivers", again=True)
    def followed(self, driver: str, incarnation: int) -> None:
        """See `DriverWatch.followed`."""
        self.drivers.followed(driver, incarnation)

    @door.method("news", again=True)
    def news(self, driver: str, incarnation: int, position: int, followed: int) -> Notification:
        """What a driver must hear that knows this life and this position of the log; waits a while if it is nothing.

        It has told again what had to be told in the life `followed`.
        """
        self.drivers.followed(driver, followed)
        return self._life.notifications.wait(driver, incarnation, position, hold_s(len(self.drivers)))

    @door.method("drivers", again=True)
    def evict(
        self, driver: str, incarnation: int, sent: dict[str, int], received: dict[str, int], owed: dict[str, list[int]]
    ) -> bool:
        """Whether a driver that may keep no more may evict this, as snapshots fail; see `recovery_events.Evicted`.

        If so, the system goes back to no snapshot without it.
        """
        life = self._life_of(incarnation)
        return life is not None and driver not in self.drivers.dead and life.evict(driver, sent, received, owed)

    @door.method("drivers", again=True)
    def answers_changed(self, driver: str, counts: dict[str, int], first: ChangedAnswer) -> None:
        """Answers have changed on which a driver had acted. `counts` has by actor how many since it began.

        If the settings say so, the system stops because of the `first`.
        """
        self.drivers.answers_changed(driver, counts)
        if self._settings.failure.on_changed_answer == "stop" and driver not in self.drivers.dead:
            self._healer.acted_in_vain(driver, first)

    # Questions: they change nothing ----------------------------------------------------------------------------

    @door.method("hello")
    def hello(self) -> None:
        """Answers at once, whatever else is done here. The call fails if Ray starts the coordinator again."""

    @door.method("ask", again=True)
    def version(self) -> str:
        """The version of rayshot here: programs with another version learn it before they ask anything else."""
        return rayshot.__version__

    @door.method("ask", again=True)
    def failure(self) -> FailureConfig:
        """What the failure of an actor means for the system."""
        return self._settings.failure

    @door.method("ask", again=True)
    def config(self) -> SnapshotConfig:
        """When snapshots are taken now, and which are kept."""
        return self._life.runner.config

    @door.method("wait", again=True)
    def fate(self, name: str, incarnation: int) -> Stop | Ending | None:
        """Why `name` does not answer: the system stopped, or the actor ended or never existed.

        None if that life is over, as the system goes back to a snapshot or went back. If the actor is still a member,
        waits at most FATE_S seconds for the news that explains its death.
        """
        deadline = time.monotonic() + FATE_S
        life = self._life
        while life.explains_nothing(name) and time.monotonic() < deadline:
            time.sleep(TICK_S)
        if life.stopped is None and (life.rolls_back or life.incarnation != incarnation or life is not self._life):
            return None
        return life.fate(name)

    @door.method("wait", again=True)
    def actors(self) -> dict[str, Any]:
        """Ray handles of the living actors by name. See `_settled_life`."""
        life = self._settled_life()
        with life.lock:
            return dict(life.members.hosts)

    def _settled_life(self) -> Life:
        """The present life, when all of its actors are known. Raises SystemRecovering after BACK_S seconds."""
        deadline = time.monotonic() + BACK_S
        while (life := self._life).state == RECOVERING:
            if time.monotonic() >= deadline:
                system = self._settings.system
                raise SystemRecovering(
                    f"system {system!r} goes back to its last snapshot by itself, and not all of its actors are there "
                    "yet: system.status() says what it waits for",
                    system=system,
                )
            time.sleep(TICK_S)
        return life

    @door.method("ask", again=True)
    def dead_letters(self) -> tuple[DeadLetter, ...]:
        """The dead letters of the actors that have ended, and the messages that actors pass over in all lives."""
        members = self._life.members
        return (*chain.from_iterable(tuple(members.letters.values())), *tuple(members.passed_over.values()))

    @door.method("wait", again=True)
    def is_there(self, name: str) -> bool | None:
        """Whether an actor of that name lives: False if it has ended, None if it never existed. See `_settled_life`."""
        life = self._settled_life()
        with life.lock:
            return life.members.is_there(name)
