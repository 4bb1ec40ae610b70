"""The fallback from a snapshot that is damaged: the newest one before it that proves whole, and what it would undo.

A system never takes it by itself, because drivers keep only what its last snapshot does not hold. A person may, who
knows what will be undone.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rayshot.errors import RayshotError, StoreError
from rayshot.keys.signing import Prover
from rayshot.log.history import History
from rayshot.log.records import CommitRecord
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.snapshot import Snapshot
from rayshot.snapshots.verification import WHOLE

PROOF_S = 30.0
"""Older snapshots are read for at most so many seconds: somebody waits for the error that names one."""


class _OutOfTime(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Fallback:
    """The snapshot `older`, to which a person can go back in place of `damaged`.

    It is whole if it `proved` so; else there was no time to read all of it. To go there undoes the last `seconds`
    before the damaged one was taken, and so many `messages` handled in them; None if the damaged one does not tell.
    """

    older: Snapshot
    damaged: SnapshotId
    proved: bool
    seconds: float
    messages: int | None

    def offer(self, storage: str, *, allow_unsigned: bool = False) -> str:
        """For an error: how a person goes there, and what it undoes."""
        system, older = self.older.system, self.older.id
        which = "The newest one before it that proves whole is" if self.proved else "The one before it is"
        undone = "an unknown number of messages" if self.messages is None else f"{self.messages:,} messages"
        told = f"rayshot.restore({system!r}, storage={storage!r}, snapshot='{older}'"
        verify = f"rayshot verify {storage} --system {system} --snapshot {older} --read-data"
        return (
            f"{which} {older}, taken {self.seconds:,.1f} s earlier. To go back there undoes what was handled in "
            f"between, {undone}, and all that came behind {self.damaged}. If you want that, start a program that calls "
            f"rayshot.resume with the variable RAYSHOT_RESTORE_SNAPSHOT={older}, or call "
            f"{told}{', allow_unsigned=True' if allow_unsigned else ''})"
            + ("" if self.proved else f"; there was no time to read it: see before whether it is whole with `{verify}`")
        )


def find_offer(
    history: History,
    read: Callable[[CommitRecord], Snapshot],
    damaged: SnapshotId,
    storage: str,
    keys: Sequence[Prover],
    *,
    allow_unsigned: bool = False,
) -> str:
    """The sentence that tells a person of the fallback from `damaged`, or that there is none.

    `read` opens a snapshot of the `history` of the system in `storage`. A snapshot that none of `keys` signed counts
    only with `allow_unsigned`. Reads older snapshots, for PROOF_S seconds.
    """
    try:
        fallback = find_fallback(history, read, damaged, keys, allow_unsigned=allow_unsigned)
    except StoreError as error:
        return f"Nobody can tell now which one before it is whole: {error.message}"
    if fallback is None:
        return f"No snapshot before it proves whole: see whether there is a copy of {damaged} elsewhere"
    return fallback.offer(storage, allow_unsigned=allow_unsigned)


def find_fallback(
    history: History,
    read: Callable[[CommitRecord], Snapshot],
    damaged: SnapshotId,
    keys: Sequence[Prover],
    *,
    allow_unsigned: bool = False,
    within_s: float = PROOF_S,
) -> Fallback | None:
    """The fallback from `damaged`; None if there is none. See `find_offer`. Raises StoreError."""
    deadline = time.monotonic() + within_s

    def check_time(_size: int) -> None:
        if time.monotonic() > deadline:
            raise _OutOfTime

    known = history.retained.get(damaged) or history.deleted.get(damaged)
    for record in snapshots_before(history, damaged):
        older = read(record)
        try:
            check_time(0)
            found, proved = older.survey(keys, WHOLE, check_time), True
            if not (found.sound and (found.trusted or allow_unsigned)):
                continue
        except _OutOfTime:
            proved = False
        except StoreError:
            raise
        except RayshotError:  # its keys are missing, or it was deleted meanwhile
            continue
        assert known is not None, f"{record.snapshot} is before {damaged}, which nobody knows"
        seconds = max(0.0, known.taken_at - record.taken_at)
        return Fallback(older, damaged, proved, seconds, _undone(older, read(known)))
    return None


def snapshots_before(history: History, snapshot: SnapshotId) -> Iterator[CommitRecord]:
    """The retained snapshots that this one comes from, the newest first: of its life, and of lives before.

    Those that came behind a snapshot from which a later life went on were given up, so they are not among them.
    """
    found = history.retained.get(snapshot) or history.deleted.get(snapshot)
    while found is not None:
        life, position = found.snapshot.incarnation, found.sealed_for
        for record in reversed([*history.retained.values()]):
            if record.snapshot.incarnation == life and record.sealed_for < position:
                yield record
        came_from = history.restores.get(life)
        if came_from is None or came_from.origin is not None or came_from.snapshot.incarnation >= life:
            return
        found = history.retained.get(came_from.snapshot) or history.deleted.get(came_from.snapshot)
        if came_from.snapshot in history.retained:
            yield history.retained[came_from.snapshot]


def _undone(older: Snapshot, damaged: Snapshot) -> int | None:
    """How many messages the later snapshot holds as handled and the older one does not; None if it cannot be read."""
    try:
        then = {(one.sender, one.receiver): one.received for one in older.manifest.channels}
        later = damaged.manifest.channels
    except RayshotError:
        return None
    return sum(max(0, one.received - then.get((one.sender, one.receiver), 0)) for one in later)
