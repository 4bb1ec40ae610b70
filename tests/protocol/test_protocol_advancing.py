"""Which of several cuts a rollback may go to: those behind the newest one that did not lie before another."""

from rayshot.protocol.collector_events import SnapshotStored
from rayshot.protocol.cut import Cut
from rayshot.protocol.identity import SnapshotId
from rayshot.protocol.record import Record
from tests.protocol.bench import Bench

K, K2 = SnapshotId(1, "coordinator", 1), SnapshotId(1, "coordinator", 2)


def test_a_cut_advances_only_if_no_process_stands_before_the_place_of_the_newest_that_did():
    bench = Bench("p", "q")
    snapshots = [SnapshotId(1, "coordinator", counter) for counter in (1, 2, 3)]
    for _ in snapshots:
        bench.want()
    counters = [(2, 5), (3, 4), (3, 5)]
    for snapshot, (p, q) in zip(snapshots, counters, strict=True):
        bench.record("p", {"p": p}, {"p": p}, snapshot=snapshot)
        bench.record("q", snapshot=snapshot, environment={"driver:1": q}, received={"driver:1": q})
        bench.tell(SnapshotStored(snapshot))
    assert [cut.advances for cut in bench.cuts] == [True, False, True]


def test_a_cut_does_not_advance_if_it_lacks_what_a_driver_that_died_since_had_sent():
    newest = Cut(K, {"q": Record(K, "q", closed={"driver:1": 2, "p": 1})}, (), ())
    assert Cut(K2, {"q": Record(K2, "q", closed={"driver:1": 2})}, (), ()).contains(newest)
    assert Cut(K2, {"q": Record(K2, "q", environment={"driver:1": 3})}, (), ()).contains(newest)
    assert not Cut(K2, {"q": Record(K2, "q", environment={"driver:1": 1})}, (), ()).contains(newest)
    assert not Cut(K2, {"q": Record(K2, "q")}, (), ()).contains(newest)


def test_a_cut_behind_one_that_does_not_advance_is_still_measured_by_the_newest_that_does():
    bench = Bench("p", "q")
    snapshots = [SnapshotId(1, "coordinator", counter) for counter in (1, 2, 3)]
    for _ in snapshots:
        bench.want()
    for snapshot, (p, q) in zip(snapshots, [(2, 5), (3, 3), (3, 4)], strict=True):
        bench.record("p", {"p": p}, {"p": p}, snapshot=snapshot)
        bench.record("q", snapshot=snapshot, environment={"driver:1": q}, received={"driver:1": q})
        bench.tell(SnapshotStored(snapshot))
    assert [cut.advances for cut in bench.cuts] == [True, False, False]


def test_a_cut_reaches_one_with_processes_that_have_ended_since():
    old = Cut(K, {"p": Record(K, "p", sent={"q": 1}), "q": Record(K, "q", received={"p": 1})}, (), ())
    assert Cut(K2, {"q": Record(K2, "q", received={"p": 1})}, (), (), ended=("p",)).contains(old)
    assert Cut(K2, {"p": Record(K2, "p")}, (), (), ended=("q",)).contains(old)
    assert not Cut(K2, {"q": Record(K2, "q", received={"p": 1})}, (), ()).contains(old)
