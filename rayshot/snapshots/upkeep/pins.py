"""A pin: the snapshot to which a program goes back when it resumes its system. The environment of the program names it.

The pin stays in the environment when the program restarts, while the life that went back to it commits new snapshots.
So the storage notes each life that begins under a pin, before that life can commit anything. A program that restarts
under the same pin goes on from the newest snapshot of such lives. A life without the pin ends this: after that, a
program with the pin goes back to the pinned snapshot again.
"""

from itertools import takewhile

from rayshot.errors import BadManifest, ConfigError
from rayshot.log.marks import LIFE_DIGITS
from rayshot.log.records import CopyRecord
from rayshot.places.calls import create_once
from rayshot.places.store import Store
from rayshot.protocol.identity import SnapshotId
from rayshot.snapshots.catalog import SystemView
from rayshot.snapshots.snapshot import Snapshot


def note_pin(store: Store, system: str, incarnation: int, pin: SnapshotId) -> None:
    """Note that this life begins under a pin. A second call changes nothing. Raises StoreError."""
    create_once(store, f"{system}/pins/{incarnation:0{LIFE_DIGITS}}-{pin}", str(pin).encode())


def pin_of(store: Store, system: str, incarnation: int) -> SnapshotId | None:
    """The pin under which this life began; None if it began without one. Raises BadManifest and StoreError."""
    return _pins(store, system).get(incarnation)


def follow_pin(store: Store, view: SystemView, pin: SnapshotId) -> Snapshot:
    """The snapshot to go on from: the newest of the lives under this pin, or else the pinned one.

    Lives without a commit do not count, nor do copied snapshots. Raises SnapshotNotFound,
    SnapshotDeleted, and as any question of a SystemView.
    """
    pins, history = _pins(store, view.name), view.history()
    commits = [*history.retained.values(), *history.deleted.values()]
    lives = {record.snapshot.incarnation for record in commits if not isinstance(record, CopyRecord)}
    under_it = set(takewhile(lambda life: pins.get(life) == pin, sorted(lives, reverse=True)))
    since = (
        record.snapshot
        for record in reversed([*history.retained.values()])
        if record.snapshot.incarnation in under_it and not isinstance(record, CopyRecord)
    )
    return view.snapshot(next(since, pin))


def _pins(store: Store, system: str) -> dict[int, SnapshotId]:
    """Life -> the pin under which it began. Raises BadManifest."""
    pins = {}
    for entry in store.list(f"{system}/pins"):
        life, _, pin = entry.key.rpartition("/")[2].partition("-")
        try:
            pins[int(life)] = SnapshotId.parse(pin)
        except (ValueError, ConfigError) as error:
            raise BadManifest(f"{entry.key} was not written by rayshot, or is damaged; delete this object") from error
    return pins
