"""What a program orders that restores a system, and what it hears of that."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rayshot.errors import RayshotError
from rayshot.format.entries import OutsideMode
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.wire.host_identity import Stop
from rayshot.runtime.wire.restored_fit import RestoredFit

if TYPE_CHECKING:
    from rayshot.runtime.actor.loading import LoadPlan


@dataclass(frozen=True, slots=True)
class Restoration:
    """The snapshot from which a system goes on. No class of a user is in it, only names and pickles.

    The program has chosen and checked it: a coordinator may be where nobody trusts its key. `origin` is the storage
    that holds it, None for that of the system. For `claimed` see `Repository.note_restore`. `ended` are the actors that
    had ended before it, or are left out. `plans` has what each actor is loaded from. `fitted` says how it fits, if the
    snapshot alone does not say it and the system heals itself. If no actor gets ready for `patience_s` seconds, the
    restore fails. `outside` and `takeover` are as in RestoreRecord.
    """

    snapshot: SnapshotId
    origin: str | None
    claimed: bool
    ended: tuple[str, ...]
    plans: Mapping[str, "LoadPlan"]
    fitted: RestoredFit | None
    patience_s: float
    outside: OutsideMode = "refuse"
    takeover: bool = False


@dataclass(frozen=True, slots=True)
class RestoreProgress:
    """How far a restore is. `waiting` are the actors not loaded yet, `trouble` is what holds them up, if known.

    `stop` says why it failed, and `cause` is the error of the load that failed, if one did.
    """

    is_over: bool
    waiting: tuple[str, ...]
    trouble: str
    stop: Stop | None
    cause: RayshotError | None
