"""Stories: what is done, and beneath it the whole trace, as text. A change of the protocol shows as a diff of it."""

from tests.protocol.table import Table


def story(table):
    return "\n".join(table.trace)


def text(expected):
    return "\n".join(line.strip() for line in expected.strip().splitlines())


def test_a_marker_overtakes_what_is_under_way_and_the_collector_names_the_end_of_the_channel():
    table = Table(p=100, q=100)
    table.send("p", "q", 1, 2)
    table.send("p", "q", 3, transport=False)
    table.want_snapshot("p", "q")
    table.record("p")
    table.transport("p", "q")
    table.deliver("p", "q", index=1)
    table.record("q")
    table.close_channels()
    table.deliver("p", "q")
    assert story(table) == text("""
        transit   p -> q i1 1..2
        records   p 1-coordinator-1
        reports   p sent {'q': 3} received {} arrived {}
        transit   p -> q i1 3..3 1-coordinator-1(2/3)
        arrives   p -> q i1 3..3 1-coordinator-1(2/3)
        records   q 1-coordinator-1
        reports   q sent {} received {} arrived {}
        closes    p -> q at 2 for 1-coordinator-1
        arrives   p -> q i1 1..2
        reports   p -> q 1..2
        complete  1-coordinator-1 p -> q: 0..3
        ended     1-coordinator-1 committed
    """)
    assert [message.amount for message in table.stored[0].messages["p", "q"]] == [1, 2, 3]


def test_a_record_holds_what_has_arrived_and_the_rest_comes_when_the_channel_is_closed():
    table = Table(p=100, q=100)
    table.send("p", "q", 1)
    table.send("p", "q", 2)
    table.send("p", "q", 3)
    table.deliver("p", "q")
    table.deliver("p", "q")
    table.process("q", "p")
    table.want_snapshot("p", "q")
    table.record("q")
    table.deliver("p", "q")
    table.record("p")
    table.process("q", "p")
    table.process("q", "p")
    table.close_channels()
    assert story(table) == text("""
        transit   p -> q i1 1..1
        transit   p -> q i1 2..2
        transit   p -> q i1 3..3
        arrives   p -> q i1 1..1
        arrives   p -> q i1 2..2
        processes p -> q 1
        records   q 1-coordinator-1
        reports   q sent {} received {'p': 1} arrived {'p': 2}
        arrives   p -> q i1 3..3
        records   p 1-coordinator-1
        reports   p sent {'q': 3} received {} arrived {}
        processes p -> q 2
        processes p -> q 3
        closes    p -> q at 3 for 1-coordinator-1
        reports   p -> q 3..3
        complete  1-coordinator-1 p -> q: 1..3
        ended     1-coordinator-1 committed
    """)
    assert [message.amount for message in table.stored[0].messages["p", "q"]] == [2, 3]


def test_a_channel_on_which_nothing_is_under_way_costs_nothing():
    table = Table(p=100, q=100)
    table.send("p", "q", 1, 2)
    table.deliver("p", "q")
    table.process("q", "p")
    table.want_snapshot("p", "q")
    table.record("p")
    table.record("q")
    assert story(table) == text("""
        transit   p -> q i1 1..2
        arrives   p -> q i1 1..2
        processes p -> q 1
        records   p 1-coordinator-1
        reports   p sent {'q': 2} received {} arrived {}
        records   q 1-coordinator-1
        reports   q sent {} received {'p': 1} arrived {'p': 2}
        complete  1-coordinator-1 p -> q: 1..2
        ended     1-coordinator-1 committed
    """)


def test_a_message_in_flight_is_recorded_in_both_of_two_overlapping_snapshots():
    table = Table(p=100, q=100)
    table.send("p", "q", 7)
    table.want_snapshot("p", "q")
    table.want_snapshot("q", "p")
    for name in ("q", "p"):
        table.record(name)
    table.close_channels()
    table.deliver("p", "q")
    table.close_channels()
    assert story(table) == text("""
        transit   p -> q i1 1..1
        records   q 1-coordinator-1
        reports   q sent {} received {} arrived {}
        records   q 1-coordinator-2
        reports   q sent {} received {} arrived {}
        records   p 1-coordinator-1
        reports   p sent {'q': 1} received {} arrived {}
        records   p 1-coordinator-2
        reports   p sent {'q': 1} received {} arrived {}
        closes    p -> q at 1 for 1-coordinator-1
        arrives   p -> q i1 1..1
        reports   p -> q 1..1
        complete  1-coordinator-1 p -> q: 0..1
        ended     1-coordinator-1 committed
        closes    p -> q at 1 for 1-coordinator-2
        reports   p -> q 1..1
        complete  1-coordinator-2 p -> q: 0..1
        ended     1-coordinator-2 committed
    """)


def test_a_process_hears_of_a_snapshot_from_a_batch_before_it_may_process_it():
    table = Table(p=100, q=100)
    table.want_snapshot("p")
    table.record("p")
    table.send("p", "q", 5)
    table.deliver("p", "q")
    table.record("q")
    table.process("q", "p")
    assert story(table) == text("""
        records   p 1-coordinator-1
        reports   p sent {} received {} arrived {}
        transit   p -> q i1 1..1 1-coordinator-1(0/0)
        arrives   p -> q i1 1..1 1-coordinator-1(0/0)
        records   q 1-coordinator-1
        reports   q sent {} received {} arrived {}
        complete  1-coordinator-1
        ended     1-coordinator-1 committed
        processes p -> q 1
    """)


def test_a_process_that_ends_leaves_its_messages_to_the_next_snapshot():
    table = Table(p=100, q=100)
    table.send("p", "q", 60, 40)
    table.deliver("p", "q")
    table["p"].account.ending = True
    table["p"].try_to_end()
    table.deliver("p", "q")
    table.process("q", "p")
    table.want_snapshot("q")
    table.record("q")
    assert story(table) == text("""
        transit   p -> q i1 1..2
        arrives   p -> q i1 1..2
        transit   p -> q i1 end
        arrives   p -> q i1 end
        processes p -> q 1
        records   q 1-coordinator-1
        reports   q sent {} received {'p': 1} arrived {'p': 2}
        complete  1-coordinator-1 p -> q: 1..2
        ended     1-coordinator-1 committed
    """)
    (stored,) = table.stored
    assert stored.cut.ended == ("p",)
    assert [message.amount for message in stored.messages["p", "q"]] == [40]


def test_a_process_that_ended_before_it_heard_of_a_snapshot_lies_wholly_before_it():
    table = Table(p=100, q=100)
    table.send("p", "q", 60)
    table.want_snapshot("q")
    table.record("q")
    table.deliver("p", "q")
    table["p"].account.ending = True
    table["p"].try_to_end()
    table.deliver("p", "q")
    table.close_channels()
    assert story(table) == text("""
        transit   p -> q i1 1..1
        records   q 1-coordinator-1
        reports   q sent {} received {} arrived {}
        arrives   p -> q i1 1..1
        transit   p -> q i1 end
        arrives   p -> q i1 end
        closes    p -> q at 1 for 1-coordinator-1
        reports   p -> q 1..1
        complete  1-coordinator-1 p -> q: 0..1
        ended     1-coordinator-1 committed
    """)


def test_an_early_batch_waits_and_a_second_one_is_dropped():
    table = Table(p=100, q=100)
    table.send("p", "q", 1)
    table.send("p", "q", 2)
    table["p"].send_again("q", 1)
    table.deliver("p", "q", index=1)
    table.deliver("p", "q", index=0)
    table.deliver("p", "q", index=0)
    table.process("q", "p")
    table.process("q", "p")
    assert story(table) == text("""
        transit   p -> q i1 1..1
        transit   p -> q i1 2..2
        transit   p -> q i1 1..1
        arrives   p -> q i1 2..2
        arrives   p -> q i1 1..1
        arrives   p -> q i1 1..1
        dropped   duplicate
        processes p -> q 1
        processes p -> q 2
    """)
