"""Watch for a stable property in a running system, with snapshots that do not overlap.

Each snapshot begins when the one before it is durable, so its cut is never earlier. The first yes is the final answer.
"""

import threading
import time
from collections.abc import Callable

from rayshot.errors import ConfigError, SnapshotAborted, SnapshotDeleted
from rayshot.properties import Property, Verdict, judge
from rayshot.properties.property import require_stable
from rayshot.snapshots.snapshot import Snapshot

WITHIN_S_MAX = 10 * 365.25 * 86400.0


def watch(
    take: Callable[[], Snapshot],
    asked: Property,
    interval_s: float,
    within_s: float | None,
    stop: threading.Event | None,
) -> Verdict | None:
    """See `System.detect`; `take` takes a snapshot."""
    asked = require_stable(asked)
    for name, seconds in (("interval_s", interval_s), ("within_s", WITHIN_S_MAX if within_s is None else within_s)):
        if not isinstance(seconds, int | float) or not 0 <= seconds <= WITHIN_S_MAX:
            raise ConfigError(f"{name}={seconds!r}: give seconds, from 0 to {WITHIN_S_MAX:g}")
    stop = threading.Event() if stop is None else stop
    settles = asked.kind == "stable"
    began = time.monotonic()
    verdict: Verdict | None = None
    while not stop.is_set():
        at = time.monotonic()
        aborted: SnapshotAborted | None = None
        try:
            verdict = judge(asked, take())
        except SnapshotAborted as error:
            aborted = error
        except SnapshotDeleted:  # retention was faster than this loop; the next snapshot tells as much
            pass
        else:
            if verdict.holds is settles:
                return verdict
        now = time.monotonic()
        wait_s = max(0.0, at + interval_s - now)
        if within_s is not None and now + wait_s - began > within_s:
            if verdict is None and aborted is not None:
                raise aborted
            return verdict
        stop.wait(wait_s)
    return verdict
