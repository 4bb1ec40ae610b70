"""What a host is told when it is made, what it tells about itself, and what all are told when a system stops."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

from rayshot.errors import AnswerChanged, SystemDown, SystemRecovering, SystemStopped
from rayshot.format.entries import OutsideMode
from rayshot.format.pickling import load_exception
from rayshot.model.configuration import KEPT, Loops, Trace
from rayshot.model.dead_letter import DeadLetter
from rayshot.model.methods import silent_methods
from rayshot.model.specification import ActorSpecification
from rayshot.protocol.concluding import ConclusionId
from rayshot.protocol.identity import SnapshotId
from rayshot.protocol.poison import Caution
from rayshot.runtime.door.state import actor_id
from rayshot.runtime.wire.actor_errors import ActorDied, ActorExited
from rayshot.runtime.wire.class_code import digest_of_code
from rayshot.runtime.wire.initiation import some_names

RECORDER_TIMEOUTS = 1.5
"""If the end of a snapshot gets lost, an actor gives the snapshot up after so many time-outs."""
CALLS_AT_ONCE = 8
"""Calls of drivers that may wait for their outcomes at one actor at a time. More threads cost each call more."""


@dataclass(frozen=True, slots=True)
class OutsideTerms:
    """How far a life may go outside: what the hooks of a class with something outside are told, see `model.outside`.

    `run` names the log of the storage, and `owner` who began the life, see FencingToken. `mode` is what was said when
    a person restored the system: "refuse" what does not fit; publish "again" what comes behind the snapshot; or "leave"
    alone what is outside, so that no hook of such a class is called. `files` is the address of the folder for what
    actors write for snapshots, None for the storage; `root` is the folder in it of this run, so that systems of the
    same name and of different storages stay apart. `takeover`: what another run has may be taken. `mark` names what
    the person said, so that all lives behind it do it once. This holds for actors that are born, and while the life
    `is_as_restored` for those that were loaded. `encrypted`: so are the snapshots.
    """

    run: str = ""
    owner: str = ""
    mode: OutsideMode = "refuse"
    files: str | None = None
    root: str | None = None
    takeover: bool = False
    mark: str = ""
    is_as_restored: bool = False
    encrypted: bool = False


@dataclass(frozen=True, slots=True)
class HostIdentity:
    """The identity of a host. `coordinator` is a Ray handle. `loading`: it takes nothing until a state was loaded.

    `heals`: the system goes back to its last snapshot by itself, so drivers keep what it would have to hear again.
    Then `options` are the options with which Ray made the host, as a snapshot does not hold all of their values.
    `maker` is the driver that made the host, if one did.
    `cautions` says which actors are watched for poison in this life, see `protocol.poison`.
    `hash_seed` is the seed of `hash()` with which hosts are made, None if each process has its own.
    `loops` says whether the frame of a method that loops is kept or thrown away at the top of a pass.
    A snapshot is given up behind `snapshot_timeout_s` seconds. `outside` says how far its class may go outside.
    `calls_at_once`: so many calls of drivers may wait for their outcomes in this process at a time.
    """

    system: str
    incarnation: int
    name: str
    coordinator: Any
    storage: str
    snapshot_timeout_s: float
    channel_state_bytes_max: int
    trace: Trace = False
    loading: bool = False
    maker: str = ""
    heals: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    cautions: Mapping[str, Caution] = field(default_factory=dict)
    hash_seed: int | None = None
    loops: Loops = KEPT
    calls_at_once: int = CALLS_AT_ONCE
    outside: OutsideTerms = OutsideTerms()

    @property
    def recorder_timeout_s(self) -> float:
        """An actor gives a snapshot up behind so many seconds."""
        return RECORDER_TIMEOUTS * self.snapshot_timeout_s

    @property
    def life(self) -> bytes:
        """An id of this life. It differs even from a life in another cluster with the same system name and number."""
        return bytes.fromhex(actor_id(self.coordinator))


class ActorOffer(NamedTuple):
    """What senders must know about an actor's class and options.

    `code`: module and qualified name of the class, and the digest of its code in the actor's process.
    """

    methods: frozenset[str]
    silent: frozenset[str]
    calls_max: int | None
    code: tuple[str, str, str] | None = None

    @classmethod
    def of(cls, specification: ActorSpecification, user_class: type) -> Self:
        """The offer of an actor, in its process."""
        code = specification.class_module, specification.class_name, digest_of_code(user_class)
        return cls(frozenset(specification.methods), silent_methods(user_class), specification.calls_max, code)


@dataclass(frozen=True, slots=True)
class Joined:
    """What a host that joins must know.

    `term` is that of the coordinator that answered, see `Issuer`. `begun` has the arguments of `Host.begin` for each
    snapshot under way. `over` has the snapshots that ended and whose markers may still arrive, with their floors.
    `concluding` has the arguments of `Host.conclude` while conversations are to end. `traced` is for a trace window:
    whether the host is traced in full; None if it is not traced by one. `programs` has the present driver of each
    program with a name.
    """

    term: int
    begun: list[tuple[Any, ...]]
    over: list[tuple[SnapshotId, int]]
    concluding: tuple[ConclusionId, float] | None
    traced: bool | None = None
    programs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ending:
    """A text that says why an actor no longer exists.

    `cause` is the pickled exception of a constructor that raised. `letters` are the dead letters of the actor, with the
    messages that it left unhandled. The coordinator keeps them, and tells them to nobody else.
    """

    detail: str
    cause: bytes | None = None
    letters: tuple[DeadLetter, ...] = ()

    def error(self, name: str) -> ActorExited:
        """The error that a caller of the actor gets."""
        cause = None if self.cause is None else load_exception(self.cause)
        return ActorExited(self.detail, actor=name, **({} if cause is None else {"cause": cause}))


End = tuple[tuple[object, ...], tuple[SnapshotId, ...], bytes | None, Ending]
"""The arguments of `Coordinator.ended`: an actor's packed last record, its unfinished snapshots, its trace, and why."""


class OutsideDue(NamedTuple):
    """What an actor whose class has `on_commit` still has to do outside.

    `told` are the snapshots of which the class was told, and of which no commit is known. `owed` are the durable ones
    from which something is still to follow, oldest first, and since how many seconds. `trouble` says why that failed
    last, "" if it did not.
    """

    told: tuple[SnapshotId, ...]
    owed: Mapping[SnapshotId, float]
    trouble: str


@dataclass(frozen=True, slots=True)
class Abandoned:
    """What a host tells a coordinator that took over.

    `alive`: it takes messages, and has not failed. `loading`: its system is being restored. `receivers` are all actors
    to which it has a channel, `ended` are the actors that it knows to have ended. `highest` is the highest counter of
    the coordinator's snapshots that it heard of. `lost` are the snapshots that it gave up. `end` is the end of an actor
    that ended or could not start, else None. `failure` says why the actor failed, else None. `options` are those of its
    HostIdentity. `outside` is what it still has to do there, None if nothing follows from a commit.
    """

    node: str
    alive: bool
    loading: bool
    receivers: tuple[str, ...]
    ended: frozenset[str]
    highest: int
    lost: tuple[SnapshotId, ...]
    end: End | None
    failure: str | None
    options: Mapping[str, Any]
    outside: OutsideDue | None


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a system takes no messages any more. `actor` is the actor that died, or None, such as after a shutdown.

    `rolls_back`: only this life is over, because the system goes back to a snapshot by itself. `savepoint` is the one
    with which it was stopped, if that advances. `way` says what a person can do who cannot restore the last snapshot.
    `acted_in_vain`: a program had acted on an answer that has changed, and this is the evidence of AnswerChanged.
    """

    system: str
    storage: str
    actor: str | None
    detail: str
    rolls_back: bool = False
    savepoint: SnapshotId | None = None
    way: str = ""
    acted_in_vain: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def with_savepoint(
        cls, system: str, storage: str, savepoint: SnapshotId, *, advances: bool, unsettled: tuple[str, ...]
    ) -> "Stop":
        """The stop of a system that was stopped with this savepoint.

        The `unsettled` actors may not have done yet what follows from it outside.
        """
        detail = f"it was stopped with the savepoint {savepoint}"
        way = f"What follows from it outside may not be done yet by {some_names(unsettled)}: a restore of it does it"
        settled = cls(system, storage, None, detail, savepoint=savepoint if advances else None)
        return replace(settled, way=way) if unsettled else settled

    @property
    def text(self) -> str:
        """Why, and what a person can do if that is not to restore the last snapshot."""
        return f"{self.detail}. {self.way}" if self.way else self.detail

    def error(self) -> SystemDown:
        """The error that every caller gets."""
        if self.rolls_back:
            return SystemRecovering(
                f"system {self.system!r} goes back to its last snapshot: {self.detail}", system=self.system
            )
        if self.acted_in_vain:
            return AnswerChanged(
                f"system {self.system!r} was stopped: {self.text}", system=self.system, **self.acted_in_vain
            )
        if self.actor is None:
            return SystemStopped(f"system {self.system!r} was stopped: {self.text}", system=self.system)
        restore = f"Go back to its last snapshot with rayshot.restore({self.system!r}, storage={self.storage!r})"
        return ActorDied(
            f"actor {self.actor!r} of system {self.system!r} died ({self.detail}); the system takes no messages "
            f"any more. {self.way or restore}",
            system=self.system,
            actor=self.actor,
            storage=self.storage,
        )
