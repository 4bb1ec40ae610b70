# A snapshot of the coordinator: markers ride on messages that go anyway.
#
# The paper sends a marker on every channel. Where a coordinator tells everybody of the snapshot, no path of markers is
# needed to spread the news; a marker only has to come with the next message, so that it is not taken too early. On a
# channel where nothing is sent there is none. Chandy and Lamport 1985, section 3.3, on termination in any graph.

processes p=100 q=100 r=100
channels p->q q->r
----
nothing follows

begin coordinator
tell p
record p
send p q 5
----
coordinator to p: record S1
coordinator to q: record S1
coordinator to r: record S1
p is to record S1
p records S1: state 100
p -> q: message 1 [5], marker of S1 before any message

# q has not heard of it from the coordinator: the message brings the news, and is taken only behind the record.

arrive p q
take q p
record q
take q p
----
q is to record S1
q's mailbox: message 1 [5] of p
q may take nothing of p that is behind the cut before it has recorded
q records S1: state 100
q takes message 1 [5] of p: state 105

# To r nobody sends anything. It hears from the coordinator.

tell r q
record r
----
r is to record S1
r records S1: state 100
S1 is complete: p 100, q 100, r 100; p -> q []; q -> r []
    300 in all
S1 is committed
p lets go of S1
q lets go of S1
r lets go of S1
