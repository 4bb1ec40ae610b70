# An acknowledgement brings the news of a snapshot, and its message is not lost.
#
# In the paper a receiver that has recorded writes down what comes on a channel until the marker. Here it writes down
# nothing behind its record: it says with its answer that it had recorded, so the sender knows that this message crosses
# the cut, and keeps it until it has recorded too. One record of each process is all that a snapshot needs. Chandy and
# Lamport 1985, section 3.2, marker-receiving rule, turned round.

processes p=100 q=100
channels p->q q->p
send p q 7
begin q
----
p -> q: message 1 [7]
q begins S1
q is to record S1
q records S1: state 100
q -> p: marker of S1 before any message

# The message comes before p has heard anything; q takes it at once.

receive p q
----
q's mailbox: message 1 [7] of p
q takes message 1 [7] of p: state 107

# The answer overtakes the marker on its way to p.

acknowledge q p
record p
----
q to p: has all up to message 1, recorded S1
p is to record S1
p records S1: state 93; hands in message 1 [7] to q
p -> q: marker of S1 after message 1
S1 is complete: p 93, q 100; p -> q [7]; q -> p []
    200 in all
S1 is committed
p lets go of S1
q lets go of S1

receive q p
----
nothing follows
