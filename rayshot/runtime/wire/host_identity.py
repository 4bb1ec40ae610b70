"""What a host is told at its making, what it says of itself, and what everybody is told when a system stops."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from rayshot.errors import SystemDown, SystemStopped
from rayshot.format.pickling import load_exception
from rayshot.model.configuration import Trace
from rayshot.model.dead_letter import DeadLetter
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.ray.state import actor_id
from rayshot.runtime.wire.actor_errors import ActorDied, ActorExited


@dataclass(frozen=True, slots=True)
class HostIdentity:
    """Who a host is. `coordinator` is a Ray handle; `loading`: it takes nothing until a state was loaded into it."""

    system: str
    incarnation: int
    name: str
    coordinator: Any
    storage: str
    recorder_timeout_s: float
    channel_state_bytes_max: int
    trace: Trace = False
    loading: bool = False

    @property
    def life(self) -> bytes:
        """What tells this life from others, also from one of another cluster that has the same name and number."""
        return bytes.fromhex(actor_id(self.coordinator))


class Offer(NamedTuple):
    """What an actor's class and options offer to those who send to it."""

    methods: frozenset[str]
    silent: frozenset[str]
    calls_max: int | None


@dataclass(frozen=True, slots=True)
class Joined:
    """What a host that joins must know.

    `life` names the process of the coordinator that answered. For each snapshot under way `begun` has what `Host.begin`
    wants; `over` are the ends, with the floor, of snapshots that others may still send markers of. `traced`: whether it
    is traced in full, None for not at all, where the system is traced for a while.
    """

    life: str
    begun: list[tuple[Any, ...]]
    over: list[tuple[SnapshotId, int]]
    traced: bool | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """Why an actor is no more, in words.

    `cause` is the pickled exception of a constructor that raised. `letters` are the dead letters that the actor had,
    what it left unhandled among them: its coordinator keeps them, and tells nobody else.
    """

    detail: str
    cause: bytes | None = None
    letters: tuple[DeadLetter, ...] = ()

    def error(self, name: str) -> ActorExited:
        """What a caller of the actor gets."""
        cause = None if self.cause is None else load_exception(self.cause)
        return ActorExited(self.detail, actor=name, **({} if cause is None else {"cause": cause}))


End = tuple[tuple[object, ...], tuple[SnapshotId, ...], bytes | None, Ending]
"""Arguments of `Coordinator.ended`: an actor's last record, packed, what it left unfinished, its trace, and why."""


@dataclass(frozen=True, slots=True)
class Abandoned:
    """What a host tells a coordinator that took over.

    `alive`: it takes messages. `loading`: its system is being restored. `receivers` are all whom it ever sent to,
    `ended` those whom it knows to have ended, `highest` is the highest counter of a coordinator's snapshot that it
    heard of, `lost` are the snapshots that it gave up. `end` is that of an actor that ended, or could not start.
    """

    node: str
    alive: bool
    loading: bool
    receivers: tuple[str, ...]
    ended: frozenset[str]
    highest: int
    lost: tuple[SnapshotId, ...]
    end: End | None


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a system takes no messages any more: an actor that died, or None after a shutdown."""

    system: str
    storage: str
    actor: str | None
    detail: str

    def error(self) -> SystemDown:
        """What every caller gets."""
        if self.actor is None:
            return SystemStopped(f"system {self.system!r} was stopped: {self.detail}", system=self.system)
        return ActorDied(
            f"actor {self.actor!r} of system {self.system!r} died ({self.detail}); the system takes no messages "
            f"any more. Go back to its last snapshot with rayshot.restore({self.storage!r}, system={self.system!r})",
            system=self.system,
            actor=self.actor,
            storage=self.storage,
        )
