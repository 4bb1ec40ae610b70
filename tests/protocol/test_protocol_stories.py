"""Stories: what is done, and beneath it the whole trace, as text. A change of the protocol shows as a diff of it."""

from tests.protocol.table import Table


def story(table):
    return "\n".join(table.trace)


def text(expected):
    return "\n".join(line.strip() for line in expected.strip().splitlines())


def test_a_marker_overtakes_what_is_under_way_which_comes_with_the_senders_record():
    table = Table(p=100, q=100)
    table.send("p", "q", 1, 2)
    table.send("p", "q", 3, transport=False)
    table.want_snapshot("p", "q")
    table.record("p")
    table.transport("p", "q")
    table.deliver("p", "q", index=1)
    table.record("q")
    table.deliver("p", "q")
    assert story(table) == text("""
        transit   p -> q i1 1..2
        records   p 1-coordinator-1
        reports   p outbox q 1..3
        transit   p -> q i1 3..3 1-coordinator-1(3)
        arrives   p -> q i1 3..3 1-coordinator-1(3)
        records   q 1-coordinator-1
        reports   q
        complete  1-coordinator-1 p -> q: 0..3
        ended     1-coordinator-1 committed
        arrives   p -> q i1 1..2
    """)
    assert [message.amount for message in table.stored[0].messages["p", "q"]] == [1, 2, 3]


def test_an_acknowledgement_tells_of_a_recording_and_its_message_is_kept_for_the_senders_record():
    table = Table(p=100, q=100)
    table.slow_answers = True
    for amount in (1, 2, 3):
        table.send("p", "q", amount)
    table.deliver("p", "q")
    table.deliver("p", "q")
    table.process("q", "p")
    table.want_snapshot("q")
    table.record("q")
    table.deliver("p", "q")
    for _ in range(3):
        table.answer()
    table.process("q", "p")
    table.process("q", "p")
    table.record("p")
    assert story(table) == text("""
        transit   p -> q i1 1..1
        transit   p -> q i1 2..2
        transit   p -> q i1 3..3
        arrives   p -> q i1 1..1
        arrives   p -> q i1 2..2
        processes p -> q 1
        records   q 1-coordinator-1
        reports   q mailbox p 2..2
        arrives   p -> q i1 3..3
        answers   q has 1 of p
        answers   q has 2 of p
        answers   q has 3 of p recorded 1-coordinator-1
        processes p -> q 2
        processes p -> q 3
        records   p 1-coordinator-1
        reports   p outbox q 3..3
        complete  1-coordinator-1 p -> q: 1..3
        ended     1-coordinator-1 committed
    """)
    assert [message.amount for message in table.stored[0].messages["p", "q"]] == [2, 3]


def test_what_is_sent_in_a_long_handler_comes_with_its_record_though_the_receiver_processed_it_long_ago():
    table = Table(p=100, q=100)
    table.send("p", "q", 1)
    table.deliver("p", "q")
    table.want_snapshot("q")
    table.record("q")
    for amount in (2, 3):  # p's handler goes on: it cannot record
        table.send("p", "q", amount)
        table.deliver("p", "q")
    for _ in range(3):
        table.process("q", "p")
    table.send("p", "q", 4, transport=False)
    assert list(table["p"].flight["q"]) == [2, 3]
    table.record("p")
    assert list(table["p"].flight["q"]) == []
    assert story(table) == text("""
        transit   p -> q i1 1..1
        arrives   p -> q i1 1..1
        records   q 1-coordinator-1
        reports   q mailbox p 1..1
        transit   p -> q i1 2..2
        arrives   p -> q i1 2..2
        transit   p -> q i1 3..3
        arrives   p -> q i1 3..3
        processes p -> q 1
        processes p -> q 2
        processes p -> q 3
        records   p 1-coordinator-1
        reports   p outbox q 2..4
        complete  1-coordinator-1 p -> q: 0..4
        ended     1-coordinator-1 committed
    """)
    assert [message.amount for message in table.stored[0].messages["p", "q"]] == [1, 2, 3, 4]


def test_messages_whose_acknowledgement_is_under_way_are_handed_in_by_both_and_count_once():
    table = Table(p=100, q=100)
    table.slow_answers = True
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
        reports   p outbox q 1..2
        records   q 1-coordinator-1
        reports   q mailbox p 2..2
        complete  1-coordinator-1 p -> q: 1..2
        ended     1-coordinator-1 committed
    """)
    assert [message.amount for message in table.stored[0].messages["p", "q"]] == [2]


def test_a_channel_on_which_nothing_is_under_way_costs_nothing():
    table = Table(p=100, q=100)
    table.send("p", "q", 1, 2)
    table.deliver("p", "q")
    table.process("q", "p")
    table.process("q", "p")
    table.want_snapshot("p", "q")
    table.record("p")
    table.record("q")
    assert story(table) == text("""
        transit   p -> q i1 1..2
        arrives   p -> q i1 1..2
        processes p -> q 1
        processes p -> q 2
        records   p 1-coordinator-1
        reports   p
        records   q 1-coordinator-1
        reports   q
        complete  1-coordinator-1 p -> q: 2..2
        ended     1-coordinator-1 committed
    """)


def test_a_message_in_flight_is_recorded_in_both_of_two_overlapping_snapshots():
    table = Table(p=100, q=100)
    table.send("p", "q", 7)
    table.want_snapshot("q")
    table.want_snapshot("q")
    table.record("q")
    table.deliver("p", "q")
    table.record("p")
    assert story(table) == text("""
        transit   p -> q i1 1..1
        records   q 1-coordinator-1
        reports   q
        records   q 1-coordinator-2
        reports   q
        arrives   p -> q i1 1..1
        records   p 1-coordinator-1
        reports   p outbox q 1..1
        complete  1-coordinator-1 p -> q: 0..1
        ended     1-coordinator-1 committed
        records   p 1-coordinator-2
        reports   p outbox q 1..1
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
        reports   p
        transit   p -> q i1 1..1 1-coordinator-1(0)
        arrives   p -> q i1 1..1 1-coordinator-1(0)
        records   q 1-coordinator-1
        reports   q
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
        reports   q mailbox p 2..2
        complete  1-coordinator-1 p -> q: 1..2
        ended     1-coordinator-1 committed
    """)
    (stored,) = table.stored
    assert stored.cut.ended == ("p",)
    assert [message.amount for message in stored.messages["p", "q"]] == [40]


def test_a_process_that_ended_before_it_heard_of_a_snapshot_lies_wholly_before_it():
    table = Table(p=100, q=100)
    table.send("p", "q", 60)
    table.want_snapshot()
    table.deliver("p", "q")
    table["p"].account.ending = True
    table["p"].try_to_end()
    table.learn_all()
    table.record("q")
    table.deliver("p", "q")
    assert story(table) == text("""
        transit   p -> q i1 1..1
        arrives   p -> q i1 1..1
        transit   p -> q i1 end
        records   q 1-coordinator-1
        reports   q mailbox p 1..1
        complete  1-coordinator-1 p -> q: 0..1
        ended     1-coordinator-1 committed
        arrives   p -> q i1 end
    """)


def test_a_process_that_hears_of_a_snapshot_from_its_last_acknowledgement_records_before_it_ends():
    table = Table(p=100, q=100)
    table.send("p", "q", 60)
    table.want_snapshot("q")
    table.record("q")
    table["p"].account.ending = True
    table.deliver("p", "q")
    table["p"].try_to_end()
    table.record("p")
    table["p"].try_to_end()
    assert story(table) == text("""
        transit   p -> q i1 1..1
        records   q 1-coordinator-1
        reports   q
        arrives   p -> q i1 1..1
        records   p 1-coordinator-1
        reports   p outbox q 1..1
        complete  1-coordinator-1 p -> q: 0..1
        ended     1-coordinator-1 committed
        transit   p -> q i1 end
    """)


def test_what_one_sends_to_oneself_is_handed_in_once():
    table = Table(p=100)
    table.send("p", "p", 1, 2)
    table.process("p", "p")
    table.want_snapshot("p")
    table.record("p")
    assert story(table) == text("""
        processes p -> p 1
        records   p 1-coordinator-1
        reports   p mailbox p 2..2
        complete  1-coordinator-1 p -> p: 1..2
        ended     1-coordinator-1 committed
    """)
    assert [message.amount for message in table.stored[0].messages["p", "p"]] == [2]


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
