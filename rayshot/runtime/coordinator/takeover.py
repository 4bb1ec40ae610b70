"""What a new coordinator finds of a system whose coordinator died."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.coordinator.members import Members
from rayshot.runtime.wire.host_identity import Abandoned, Stop

if TYPE_CHECKING:
    from rayshot.runtime.coordinator.committer import Committer


@dataclass(frozen=True, slots=True)
class Remains:
    """What the living actors said.

    `counter` is the highest of the old coordinator's snapshots, `ended` are all who left before, `stored` the snapshots
    of this life that were ever committed. `dead` are those who should be there and are not, sorted. `stop`: why
    the system does not go on, if that is not because of them.
    """

    answers: dict[str, Abandoned]
    counter: int
    ended: set[str]
    stored: set[SnapshotId]
    dead: tuple[str, ...]
    stop: Stop | None


def find_remains(
    members: Members,
    committer: "Committer",
    incarnation: int,
    name: tuple[str, str],
    loading: bool,  # noqa: FBT001
) -> Remains:
    """Ask all processes of the system; from now on they obey this coordinator.

    `name` is that of the system, and its storage. `loading`: it was begun by a restore.
    """
    savepoint = committer.stopped_with(incarnation)
    stop = None if savepoint is None else Stop(*name, None, f"it was stopped with the savepoint {savepoint}")
    joined = members.roster.names()
    found = members.find(stop, joined)
    answers = {name: answer for name, answer in found.items() if answer is not None}
    ended = committer.ended_before().union(*(answer.ended for answer in answers.values())) - found.keys()
    known = {receiver for answer in answers.values() for receiver in answer.receivers}  # one that died unborn, too
    highest = max((answer.highest for answer in answers.values()), default=0)
    should_be = joined | known | found.keys()
    stopped = {name for name, answer in answers.items() if not answer.alive and answer.end is None}
    if any(answer.loading for answer in answers.values()):
        stop = stop or Stop(*name, None, "its coordinator died while it was being restored")
    elif loading and not answers:  # while it was being restored, or later: nobody is left to say
        stop = stop or Stop(*name, None, "its coordinator died, and none of its actors is left")
    return Remains(
        answers,
        max(highest, committer.highest_counter(incarnation)),
        ended,
        committer.stored_in(incarnation),
        (*sorted(should_be - answers.keys() - ended - members.in_the_making.keys()), *sorted(stopped)),
        stop,
    )
