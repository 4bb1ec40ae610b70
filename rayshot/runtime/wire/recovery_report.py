"""What a system says of the times that it went back to a snapshot by itself."""

from collections.abc import Mapping
from typing import NamedTuple

from rayshot.protocol.identity import SnapshotId


class RecoveryReport(NamedTuple):
    """The system went back to `snapshot`, and runs again in this `life`.

    `actor` was lost, or is None if a coordinator was; `detail` says how. `at` is the Unix time when the system noticed
    this. `seconds` is the time from then until all actors ran again, and `phases` has the parts of it: "stop" until
    nobody worked any more, "pause" for what was waited on purpose before the life began or was marked, "record" until
    the log had the new life, "load" until all actors were loaded, "resume" until they were told to go on. Waiting for
    room on a node, and for the storage while it is asked, counts in the phase that waited.

    If the coordinator died since, its successor knows of the life that runs what the log says: `at` is then when the
    life began, `seconds` is 0, and `phases` is empty.
    """

    life: int
    snapshot: SnapshotId
    actor: str | None
    detail: str
    at: float
    seconds: float
    phases: Mapping[str, float]
