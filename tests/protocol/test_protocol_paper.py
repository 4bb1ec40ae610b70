"""Examples of K. M. Chandy and L. Lamport, "Distributed snapshots: determining global states of distributed systems",
ACM Transactions on Computer Systems 3(1), 1985. Sections and examples are cited as there.

The single token is a balance of 1. The two states of each process of example 2.2 are balances too: p is in A with 0 and
in B with -1, q in C with 0 and in D with -1; M and M' are the messages that carry 1.
"""

from rayshot.protocol.identity import Channel
from tests.protocol.table import Table

C, C_PRIME = Channel("p", "q"), Channel("q", "p")


def tokens(stored):
    return sum(state.balance for state in stored.states.values()) + sum(
        message.amount for messages in stored.messages.values() for message in messages
    )


def test_the_token_is_recorded_once_if_it_is_sent_after_both_recorded():
    """Section 3.1, example 3.1 begins with the system of example 2.1, the token at p."""
    table = Table(p=1, q=0)
    table.want_snapshot("p", "q")
    table.record("p")
    table.record("q")
    table.send("p", "q", 1)
    table.deliver_all()
    (stored,) = table.stored
    assert (stored.states["p"].balance, stored.states["q"].balance) == (1, 0)
    assert tokens(stored) == 1


def test_no_second_token_appears_if_the_channel_is_recorded_while_the_token_is_on_it():
    """Section 3.1: p's state recorded with the token, c's recorded after p sent it, would show two tokens (n < n')."""
    table = Table(p=1, q=0)
    table.want_snapshot("p")
    table.record("p")  # in state s1: the token is here
    table.send("p", "q", 1)
    table.deliver("p", "q", index=-1)  # the token, tagged: q learns of the snapshot before it can process it
    assert table["q"].captures
    table.record("q")
    table.deliver_all()
    (stored,) = table.stored
    assert stored.messages.get(C, ()) == ()
    assert tokens(stored) == 1


def test_the_token_does_not_vanish_if_p_records_after_sending_it():
    """Section 3.1: c recorded before p sent the token, p's state after it, would show no token at all (n > n')."""
    table = Table(p=1, q=0)
    snapshot = table.want_snapshot("q")
    table.record("q")
    table.send("p", "q", 1)
    table.learn("p", snapshot)
    table.record("p")
    table.deliver_all()
    (stored,) = table.stored
    assert (stored.states["p"].balance, stored.states["q"].balance) == (0, 0)
    assert [message.amount for message in stored.messages[C]] == [1]
    assert tokens(stored) == 1


def test_the_token_is_conserved_when_it_waits_in_the_outbox_behind_its_own_marker():
    """What the paper has in a channel may here be in the sender's outbox: the marker overtakes it."""
    table = Table(p=1, q=0)
    table.send("p", "q", 1, transport=False)
    table.want_snapshot("p", "q")
    table.record("p")
    table.record("q")
    table.deliver_all()
    (stored,) = table.stored
    assert [message.amount for message in stored.messages[C]] == [1]
    assert tokens(stored) == 1
    (cut,) = stored.cut.channels
    assert (cut.sent, cut.arrived, cut.received) == (1, 0, 0)


def test_the_recorded_state_need_not_have_occurred_but_could_have():
    """Section 4, example 4.1 (the system of example 2.2): S* is A, D, c empty, M' on c'; no S0 .. S3 was that."""
    table = Table(p=0, q=0)
    occurred = []

    def look():
        on_c = table["p"].sent.get("q", 0) - table["q"].received.get("p", 0)
        on_c_prime = table["q"].sent.get("p", 0) - table["p"].received.get("q", 0)
        occurred.append((table["p"].account.balance, table["q"].account.balance, on_c, on_c_prime))

    look()  # S0: A, C, both channels empty
    table.want_snapshot("p")
    table.record("p")
    table.send("p", "q", 1)  # e0: p sends M
    look()  # S1: B, C
    table.send("q", "p", 1)  # e1: q sends M'
    look()  # S2: B, D
    table.deliver("q", "p")
    table.process("p", "q")  # e2: p receives M'
    look()  # S3: A, D
    table.deliver("p", "q")  # the marker reaches q in S3: M carries it
    table.record("q")
    table.deliver_all()

    (stored,) = table.stored
    recorded = (
        stored.states["p"].balance,
        stored.states["q"].balance,
        len(stored.messages.get(C, ())),
        len(stored.messages.get(C_PRIME, ())),
    )
    assert recorded == (0, -1, 0, 1)
    assert recorded not in occurred
    # Theorem 1: the run e1, e0, e2 is one too, S* occurs in it after e1, and it ends in S3 as well.
    after_e1 = (0, -1, 0, 1)
    after_e0 = (-1, -1, 1, 1)
    after_e2 = (0, -1, 1, 0)
    assert recorded == after_e1
    assert (after_e0, after_e2) == (occurred[2], occurred[3])


def test_a_snapshot_ends_when_its_news_has_reached_every_process():
    """Section 3.3, termination: if one process records and the news goes along all channels, all record and all close.

    The news is on every message that is sent after a recording, whoever began, and needs no strongly connected graph:
    to r it comes over q. Where nothing is sent it comes from the coordinator, to s here.
    """
    table = Table(p=10, q=10, r=10, s=10)
    ring = (("p", "q"), ("q", "r"), ("r", "p"))
    for sender, receiver in ring:
        table.send(sender, receiver, 1)
    snapshot = table.want_snapshot("p")
    table.record("p")
    for sender, receiver in ring:
        table.send(sender, receiver, 2)
        table.deliver(sender, receiver, index=-1)
        assert list(table["r"].captures) == ([snapshot] if receiver == "r" else [])
        table.record(receiver)
    table.deliver_all()
    assert table.coordinator.collector.missing(snapshot) == ("s",)
    table.learn_all()
    table.record("s")
    table.deliver_all()
    assert [stored.cut.snapshot for stored in table.stored] == [snapshot]
    assert [len(table.stored[0].messages[channel]) for channel in ring] == [1, 1, 1]
    assert not any(any(process.flight.values()) for process in table.processes.values()), "nobody keeps anything"
    assert tokens(table.stored[0]) == 40


def test_several_processes_may_begin_the_same_algorithm_at_once():
    """Section 3.2 allows more than one process to begin; two snapshots of two initiators are two, each consistent."""
    table = Table(p=10, q=10)
    table.send("p", "q", 1)
    table.send("q", "p", 2)
    for name in ("p", "q"):
        table[name].todo.append("snapshot")
        table[name].go_on()
    table.record("p")  # its own; the other one's news is still on its way
    table.record("q")
    table.learn_all()
    table.record("p")
    table.record("q")
    table.deliver_all()
    assert {stored.cut.snapshot.initiator for stored in table.stored} == {"p", "q"}
    assert [tokens(stored) for stored in table.stored] == [20, 20]
    assert [sorted(len(m) for m in stored.messages.values()) for stored in table.stored] == [[1, 1], [1, 1]]
