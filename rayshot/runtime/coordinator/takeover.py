"""How a new coordinator finds the rest of a system whose coordinator died."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rayshot.protocol.identity import SnapshotId
from rayshot.protocol.recovery_events import Evicted, TookOver
from rayshot.runtime.coordinator.members import Members
from rayshot.runtime.wire.host_identity import Abandoned, Stop
from rayshot.runtime.wire.settings import SystemSettings

if TYPE_CHECKING:
    from rayshot.runtime.coordinator.committer import Committer


@dataclass(frozen=True, slots=True)
class Remains:
    """The answers of the living actors, and what follows from them.

    `counter` is the highest counter of the old coordinator's snapshots. `ended` are the actors that ended before.
    `stored` are all snapshots of this life that were ever committed. `dead` are the actors that are missing or have
    stopped, each group sorted. `savepoint` is the one with which the system was stopped, if it was.
    """

    answers: dict[str, Abandoned]
    counter: int
    ended: set[str]
    stored: set[SnapshotId]
    dead: tuple[str, ...]
    savepoint: SnapshotId | None


def find_remains(members: Members, committer: "Committer", incarnation: int, name: tuple[str, str]) -> Remains:
    """Ask all processes of the system; from now on they obey this coordinator.

    `name` is the system's name and its storage.
    """
    savepoint = committer.stopped_with(incarnation)
    stop = None
    if savepoint is not None:
        advances = savepoint == committer.newest_that_advances(incarnation)
        stop = Stop.with_savepoint(*name, savepoint, advances=advances, unsettled=())  # the answers say who is late
    roster = members.roster.all()
    found, joined = members.find(stop, roster), roster.keys()
    answers = {name: answer for name, answer in found.items() if answer is not None}
    ended = committer.ended_before(incarnation).union(*(answer.ended for answer in answers.values())) - found.keys()
    known = {receiver for answer in answers.values() for receiver in answer.receivers}  # also actors that died unborn
    highest = max((answer.highest for answer in answers.values()), default=0)
    should_be = joined | known | found.keys()
    stopped = {name for name, answer in answers.items() if not answer.alive and answer.end is None}
    return Remains(
        answers,
        max(highest, committer.highest_counter(incarnation)),
        ended,
        committer.stored_in(incarnation),
        (*sorted(should_be - answers.keys() - ended - members.in_the_making.keys()), *sorted(stopped)),
        savepoint,
    )


def taking_over(
    remains: Remains,
    committer: "Committer",
    settings: SystemSettings,
    marked: bool,  # noqa: FBT001
    evicted: tuple[Evicted, ...],
) -> TookOver:
    """What a new coordinator tells the machine of recovery of what is left. `marked`: the life has its mark."""
    idle, unfinished = any(answer.loading for answer in remains.answers.values()), ""
    if settings.loading and not (committer.went_back or (marked and (settings.failure.heals or not idle))):
        unfinished = "its coordinator died while it was being restored"
    elif settings.beginning and not (committer.went_back or remains.stored):
        unfinished = "its coordinator died while its first actors were made"
    elif not (settings.loading or committer.went_back):
        marked = True  # it ran from its first moment, or since its first snapshot
    dead = remains.dead[0] if remains.dead else None
    failure = remains.answers[dead].failure if dead in remains.answers else None
    return TookOver(
        committer.incarnation,
        marked,
        remains.dead,
        time.time(),
        committer.past,
        idle=idle,
        detail=failure or "it died while nobody coordinated",
        evicted=evicted,
        unfinished=unfinished,
        savepoint=remains.savepoint,
    )
