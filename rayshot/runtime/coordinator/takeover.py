"""How a new coordinator finds the rest of a system whose coordinator died."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.coordinator.members import Members
from rayshot.runtime.wire.host_identity import Abandoned, Stop

if TYPE_CHECKING:
    from rayshot.runtime.coordinator.committer import Committer


@dataclass(frozen=True, slots=True)
class Remains:
    """The answers of the living actors, and what follows from them.

    `counter` is the highest counter of the old coordinator's snapshots. `ended` are the actors that ended before.
    `stored` are all snapshots of this life that were ever committed. `dead` are the actors that are missing or have
    stopped, each group sorted. `stop` says why the system does not go on, if the reason is not in `dead`.
    `has_savepoint`: it was stopped with one.
    """

    answers: dict[str, Abandoned]
    counter: int
    ended: set[str]
    stored: set[SnapshotId]
    dead: tuple[str, ...]
    stop: Stop | None
    has_savepoint: bool


def find_remains(
    members: Members,
    committer: "Committer",
    incarnation: int,
    name: tuple[str, str],
    loading: bool,  # noqa: FBT001
) -> Remains:
    """Ask all processes of the system; from now on they obey this coordinator.

    `name` is the system's name and its storage. `loading`: a restore began this life.
    """
    savepoint = committer.stopped_with(incarnation)
    stop = None
    if savepoint is not None:
        advances = savepoint == committer.newest_that_advances(incarnation)
        stop = Stop.with_savepoint(*name, savepoint, advances=advances)
    roster = members.roster.all()
    found, joined = members.find(stop, roster), roster.keys()
    answers = {name: answer for name, answer in found.items() if answer is not None}
    ended = committer.ended_before(incarnation).union(*(answer.ended for answer in answers.values())) - found.keys()
    known = {receiver for answer in answers.values() for receiver in answer.receivers}  # also actors that died unborn
    highest = max((answer.highest for answer in answers.values()), default=0)
    should_be = joined | known | found.keys()
    stopped = {name for name, answer in answers.items() if not answer.alive and answer.end is None}
    if any(answer.loading for answer in answers.values()):
        stop = stop or Stop(*name, None, "its coordinator died while it was being restored")
    elif loading and not answers:  # during the restore, or later: no actor is left to say which
        stop = stop or Stop(*name, None, "its coordinator died, and none of its actors is left")
    return Remains(
        answers,
        max(highest, committer.highest_counter(incarnation)),
        ended,
        committer.stored_in(incarnation),
        (*sorted(should_be - answers.keys() - ended - members.in_the_making.keys()), *sorted(stopped)),
        stop,
        savepoint is not None,
    )
