"""The marks beside the log: what a running cluster, an older rayshot or a newer one wrote is read as it was meant."""

import msgpack
import pytest

from rayshot.errors import BadManifest, LimitExceeded, StoreUnavailable
from rayshot.log.aborts import NOTE
from rayshot.log.heartbeat import HEARTBEAT, last_heartbeat
from rayshot.log.history import History
from rayshot.log.marks import Marks
from rayshot.places.memory import MemoryStore
from rayshot.protocol.identity import Channel, SnapshotId
from rayshot.snapshots.intents import INTENT, Intent, open_intents
from rayshot.snapshots.leases import LEASE, Lease, leases
from rayshot.snapshots.upkeep.garbage import UNREACHABLE
from rayshot.snapshots.upkeep.pins import note_pin, pin_of
from tests.places.faulty_store import FaultyStore

SNAPSHOT = SnapshotId(1, "coordinator", 3)
WRITTEN = {
    "intents": (INTENT, {"format": 1, "writer": "w1", "base": [1, "coordinator", 3], "timeout_s": 30.0}),
    "leases": (LEASE, {"format": 1, "snapshot": [1, "coordinator", 3], "seconds": 600.0}),
    "heartbeats": (HEARTBEAT, {"format": 1, "incarnation": 1, "host": "here", "process": "?"}),
    "gc": (UNREACHABLE, {"format": 1, "keys": ["bank/chunks/00/x"]}),
    "aborts": (
        NOTE,
        {
            "format": 1,
            "snapshot": [1, "coordinator", 3],
            "began_at": 1.5,
            "seconds": 0.25,
            "mode": "chandy-lamport",
            "trigger": "interval",
            "reason": "timeout",
            "detail": "late",
            "missing": ["alice"],
            "missing_count": 1,
            "open_channels": [["driver:d", "alice"]],
            "open_count": 1,
        },
    ),
}
"""By folder: the kind, and what all versions have written, in this order."""


@pytest.mark.parametrize("folder", WRITTEN)
def test_the_bytes_of_a_mark_are_those_of_all_versions(folder):
    kind, tree = WRITTEN[folder]
    said = {name: value for name, value in tree.items() if name != "format"}
    assert kind.folder == folder
    assert kind.encode(said) == msgpack.packb(tree)
    told = kind.decode(msgpack.packb(tree), "it")
    assert told.keys() == said.keys()
    for name, value in (("snapshot", SNAPSHOT), ("open_channels", (Channel("driver:d", "alice"),))):
        assert told.get(name, value) == value


def test_what_is_in_a_storage_is_found_under_its_keys():
    store = MemoryStore(clock=lambda: 1000.0)
    for folder, name in (
        ("intents", "1-coordinator-4"),
        ("leases", "reader-00000000"),
        ("heartbeats", "0000000001-00000000-x"),
    ):
        store.create(f"bank/{folder}/{name}", msgpack.packb(WRITTEN[folder][1]))
    assert open_intents(store, "bank", History()) == {
        SNAPSHOT._replace(counter=4): Intent("w1", SNAPSHOT, 30.0, 1000.0)
    }
    assert leases(store, "bank") == {"bank/leases/reader-00000000": Lease(SNAPSHOT, 1600.0)}
    beat = last_heartbeat(store, "bank")
    assert (beat.incarnation, beat.host, beat.process, beat.age_s) == (1, "here", "?", 0.0)
    note_pin(store, "bank", 2, SNAPSHOT)
    assert store.read("bank/pins/0000000002-1-coordinator-3") == b"1-coordinator-3"
    assert pin_of(store, "bank", 2) == SNAPSHOT


@pytest.mark.parametrize("folder", WRITTEN)
def test_what_is_no_mark_of_this_version_is_refused_by_its_key(folder):
    kind, tree = WRITTEN[folder]
    less = {name: value for name, value in tree.items() if name != "format"}
    for bad in ([], less, {**tree, "format": 2}, {**tree, "more": 1}, {**tree, [*tree][-1]: None}):
        with pytest.raises(BadManifest, match="bank/x"):
            kind.decode(msgpack.packb(bad), "bank/x")
    with pytest.raises(LimitExceeded):
        kind.decode(bytes(kind.bytes_max + 1), "bank/x")


def test_a_folder_that_never_rests_is_looked_at_again_and_not_for_ever():
    class Restless(FaultyStore):
        def read_range(self, key, start, length):
            self.delete(key)
            self.create(f"{key}0", msgpack.packb(WRITTEN["leases"][1]))
            return super().read_range(key, start, length)

    store = Restless()
    store.create("bank/leases/a", msgpack.packb(WRITTEN["leases"][1]))
    with pytest.raises(StoreUnavailable, match="bank/leases changed during each"):
        Marks(store, "bank", LEASE).present()
