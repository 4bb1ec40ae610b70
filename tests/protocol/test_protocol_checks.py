"""What can be no fact, no record and no cut cannot be built."""

import pytest

from rayshot.errors import InconsistentCut
from rayshot.protocol.cut import ChannelCut
from rayshot.protocol.events import (
    BatchAcknowledged,
    BatchArrived,
    BatchTaken,
    Begun,
    Marker,
    Restored,
    SnapshotEnded,
)
from rayshot.protocol.identity import Channel, SnapshotId
from rayshot.protocol.record import Record

K = SnapshotId(1, "c", 1)


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (lambda: BatchTaken("q", 0), "count is 0, not at least 1"),
        (lambda: BatchTaken("q", -4), "count is -4"),
        (lambda: BatchArrived("p", 1, 1, -5), "count is -5"),
        (lambda: BatchArrived("p", 1, 0, 5), "first is 0"),
        (lambda: BatchArrived("p", 0, 1, 5), "incarnation is 0"),
        (lambda: BatchArrived("p", 1, 1, 5, (Marker(K, -1),)), "sent of 1-c-1 is -1"),
        (lambda: BatchAcknowledged("q", -1), "last is -1"),
        (lambda: Begun(K, -1), "floor is -1"),
        (lambda: SnapshotEnded(K, -1), "floor is -1"),
        (lambda: Restored(0), "incarnation is 0"),
        (lambda: Restored(2, {"q": -1}), "q is -1"),
        (lambda: Restored(2, {}, {"p": -1}), "p is -1"),
    ],
)
def test_an_event_that_cannot_be_is_refused(build, why):
    with pytest.raises(AssertionError, match=why):
        build()


@pytest.mark.parametrize(
    "counters",
    [
        {"sent": {"q": 1}, "transported": {"q": 2}, "released": {"q": 1}},
        {"sent": {"q": 2}, "transported": {"q": 1}, "released": {"q": 2}},
        {"sent": {"q": 2}, "transported": {"q": 2}, "released": {"q": -1}},
        {"transported": {"q": 1}, "released": {"q": 1}},
        {"received": {"p": 2}, "arrived": {"p": 1}},
        {"received": {"p": -1}, "arrived": {"p": 1}},
        {"received": {"p": 2}, "closed": {"p": 1}},
        {"received": {"driver:1": 2}, "environment": {"driver:1": 1}},
    ],
)
def test_a_record_whose_counters_contradict_each_other_is_refused(counters):
    with pytest.raises(AssertionError, match=r"(released|received) -?\d"):
        Record(K, "a", **counters)


def test_the_equation_asks_for_received_arrived_sent_in_this_order():
    ChannelCut(Channel("p", "q"), 3, 2, 1)
    for numbers in ((3, 1, 2), (1, 2, 1), (3, 3, 4), (1, 1, -1)):
        with pytest.raises(InconsistentCut, match="p -> q"):
            ChannelCut(Channel("p", "q"), *numbers)
