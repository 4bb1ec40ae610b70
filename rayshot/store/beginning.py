"""Checks before a system begins or resumes in a storage: it holds no snapshots of it, and no other life runs."""

from rayshot.errors import LivesElsewhere, SnapshotsExist, SystemNotFound
from rayshot.store.catalog import open_system
from rayshot.store.heartbeat import ALIVE_S, last_heartbeat
from rayshot.store.history import History
from rayshot.store.log import CommitLog
from rayshot.store.store import Store


def find_history(store: Store, system: str) -> History:
    """The history of `system`; an empty one if the system does not exist. Raises as `CommitLog.refresh`."""
    try:
        open_system(store, system)
    except SystemNotFound:
        return History()
    return CommitLog(store, system).refresh()


def check_nobody_lives(store: Store, system: str) -> None:
    """Raise LivesElsewhere if another cluster may still run a life of `system`. Also raises StoreError."""
    last = last_heartbeat(store, system)
    if last is None or not last.alive:
        return
    left_s = ALIVE_S - last.age_s
    raise LivesElsewhere(
        f"life {last.incarnation} of system {system!r} runs in another cluster: {last.host} said so {last.age_s:.0f} s "
        f"ago. A life that begins here would stop it. End it there, or wait: it counts as dead in {left_s:.0f} s if it "
        f"does not say so again. If you know that it is dead, say rayshot.resume(..., takeover=True)",
        system=system,
        incarnation=last.incarnation,
        host=last.host,
        seconds_left=left_s,
    )


def check_no_snapshots(history: History, system: str, storage: str) -> None:
    """Raise SnapshotsExist if the log of `system` has snapshots: the snapshots of a new life would hide them."""
    latest = next(reversed([*history.retained.values()]), None)
    if latest is None:
        return
    raise SnapshotsExist(
        f"system {system!r} does not run in this cluster, and {storage} holds {len(history.retained)} snapshots of "
        f"it, the latest {latest.snapshot}. To go on from it:\n"
        f"    system = rayshot.resume({system!r}, storage={storage!r}, begin=...)\n"
        f"To begin with nothing, beside what is there:\n"
        f"    system = rayshot.init({system!r}, storage={storage!r}, fresh=True)",
        system=system,
        snapshot=str(latest.snapshot),
    )
