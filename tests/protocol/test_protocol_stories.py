"""Stories: what is done, and beneath it the whole trace, as text. A change of the protocol shows as a diff of it."""

from tests.protocol.table import Table


def story(table):
    return "\n".join(table.trace)


def text(expected):
    return "\n".join(line.strip() for line in expected.strip().splitlines())


def test_a_marker_overtakes_what_waits_in_the_outbox():
    table = Table(p=100, q=100)
    table.send("p", "q", 1, 2)
    table.send("p", "q", 3, transport=False)
    table.want_snapshot("p", "q")
    table.record("p")
    table.deliver("p", "q", index=1)
    table.record("q")
    table.transport("p", "q")
    table.deliver("p", "q", index=1)
    table.deliver("p", "q")
    assert story(table) == text("""
        transit   p -> q i1 1..2
        records   p 1-coordinator-1
        reports   p sent {'q': 3} received {}
        transit   p -> q i1 - 1-coordinator-1(2/3)
        arrives   p -> q i1 - 1-coordinator-1(2/3)
        records   q 1-coordinator-1
        reports   q sent {} received {}
        transit   p -> q i1 3..3
        arrives   p -> q i1 3..3
        arrives   p -> q i1 1..2
        reports   p -> q 1..2
        complete  1-coordinator-1 p -> q: 0..3
        ended     1-coordinator-1 committed
    """)
    assert [message.amount for message in table.stored[0].messages["p", "q"]] == [1, 2, 3]


def test_a_message_in_flight_is_recorded_in_both_of_two_overlapping_snapshots():
    table = Table(p=100, q=100)
    table.send("p", "q", 7)
    table.want_snapshot("p", "q")
    table.want_snapshot("q", "p")
    for name in ("q", "p"):
        table.record(name)
    table.deliver("p", "q", index=2)
    table.deliver("p", "q", index=0)
    assert story(table) == text("""
        transit   p -> q i1 1..1
        records   q 1-coordinator-1
        reports   q sent {} received {}
        records   q 1-coordinator-2
        reports   q sent {} received {}
        records   p 1-coordinator-1
        reports   p sent {'q': 1} received {}
        transit   p -> q i1 - 1-coordinator-1(1/1)
        records   p 1-coordinator-2
        reports   p sent {'q': 1} received {}
        transit   p -> q i1 - 1-coordinator-1(1/1) 1-coordinator-2(1/1)
        arrives   p -> q i1 - 1-coordinator-1(1/1) 1-coordinator-2(1/1)
        arrives   p -> q i1 1..1
        reports   p -> q 1..1
        complete  1-coordinator-1 p -> q: 0..1
        ended     1-coordinator-1 committed
        reports   p -> q 1..1
        complete  1-coordinator-2 p -> q: 0..1
        ended     1-coordinator-2 committed
    """)


def test_a_process_hears_of_a_snapshot_from_a_batch_before_it_may_process_it():
    table = Table(p=100, q=100)
    table.want_snapshot("p")
    table.record("p")
    table.send("p", "q", 5)
    table.deliver("p", "q", index=1)
    table.record("q")
    table.process("q", "p")
    table.deliver("p", "q")
    assert story(table) == text("""
        records   p 1-coordinator-1
        reports   p sent {} received {}
        transit   p -> q i1 - 1-coordinator-1(0/0)
        transit   p -> q i1 1..1 1-coordinator-1(0/0)
        arrives   p -> q i1 1..1 1-coordinator-1(0/0)
        records   q 1-coordinator-1
        reports   q sent {} received {}
        complete  1-coordinator-1
        ended     1-coordinator-1 committed
        processes p -> q 1
        arrives   p -> q i1 - 1-coordinator-1(0/0)
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
        reports   q sent {} received {'p': 1}
        reports   p -> q 2..2
        complete  1-coordinator-1 p -> q: 1..2
        ended     1-coordinator-1 committed
    """)
    (stored,) = table.stored
    assert stored.cut.ended == ("p",)
    assert [message.amount for message in stored.messages["p", "q"]] == [40]


def test_a_process_that_ended_before_it_heard_of_a_snapshot_lies_wholly_before_it():
    table = Table(p=100, q=100)
    table.send("p", "q", 60)
    table.deliver("p", "q")
    table.want_snapshot("q")
    table.record("q")
    table["p"].account.ending = True
    table["p"].try_to_end()
    table.deliver("p", "q")
    assert story(table) == text("""
        transit   p -> q i1 1..1
        arrives   p -> q i1 1..1
        records   q 1-coordinator-1
        reports   q sent {} received {}
        transit   p -> q i1 end
        arrives   p -> q i1 end
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
