"""Leases of readers, where one is renewed while somebody looks."""

from rayshot.places.memory import MemoryStore
from rayshot.protocol.identity import COORDINATOR, SnapshotId
from rayshot.snapshots.leases import LEASE, leases

SNAPSHOT = SnapshotId(1, COORDINATOR, 1)


class Renewing(MemoryStore):
    """A reader renews its lease right behind the first listing: what was listed is gone when it is read."""

    renewals = 0

    def renew(self):
        data = LEASE.encode({"snapshot": list(SNAPSHOT), "seconds": 60.0})
        self.create(f"bank/leases/reader-{self.renewals:08}", data)
        if self.renewals:
            self.delete(f"bank/leases/reader-{self.renewals - 1:08}")
        self.renewals += 1

    def list(self, prefix=""):
        listed = list(super().list(prefix))
        if self.renewals == 1:
            self.renew()
        return iter(listed)


def test_a_lease_that_is_renewed_between_the_listing_and_the_look_is_seen():
    store = Renewing()
    store.renew()
    assert [lease.snapshot for lease in leases(store, "bank").values()] == [SNAPSHOT]
