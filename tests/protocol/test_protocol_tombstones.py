from rayshot.protocol.identity import SnapshotId
from rayshot.protocol.tombstones import Tombstones


def snapshot(counter, initiator="p"):
    return SnapshotId(1, initiator, counter)


def test_what_ended_is_remembered():
    tombstones = Tombstones()
    assert snapshot(1) not in tombstones
    tombstones.add(snapshot(1))
    tombstones.add(snapshot(1))
    assert snapshot(1) in tombstones
    assert len(tombstones) == 1


def test_all_below_the_floor_of_an_initiator_count_as_ended_and_take_no_memory():
    tombstones = Tombstones()
    for counter in (1, 2, 5):
        tombstones.add(snapshot(counter))
    tombstones.add(snapshot(1, "q"))
    tombstones.raise_floor("p", 4)
    assert [counter for counter in range(1, 7) if snapshot(counter) in tombstones] == [1, 2, 3, 5]
    assert snapshot(2, "q") not in tombstones
    assert len(tombstones) == 2
    tombstones.add(snapshot(3))
    assert len(tombstones) == 2


def test_a_floor_never_sinks():
    tombstones = Tombstones()
    tombstones.raise_floor("p", 4)
    tombstones.raise_floor("p", 2)
    assert tombstones.floor("p") == 4
    assert tombstones.floor("q") == 0


def test_memory_stays_bounded_as_floors_follow():
    tombstones = Tombstones()
    for counter in range(1, 10_000):
        tombstones.add(snapshot(counter))
        tombstones.raise_floor("p", counter - 3)
    assert len(tombstones) <= 4
