# A marker that overtakes what waits: mailbox and outbox are parts of the process.
#
# In the paper a message is in a channel or received. An actor has a mailbox (arrived, not yet processed) and an outbox
# (sent, not yet transported) as well, and with much in them markers would take long to get through. So a marker says
# behind which message it belongs, and may come early; a process hands in what lies in both queues with its record. The
# rules are those of Chandy and Lamport 1985, section 3.2, with the queues as part of the channel's state.

processes p=100 q=100
channels p->q q->p
----
nothing follows

# Message 1 waits in q's mailbox, 2 is in transit, 3 waits in p's outbox.

send p q 1 2
arrive p q
queue p q 3
----
p -> q: message 1 [1]
p -> q: message 2 [2]
q's mailbox: message 1 [1] of p

begin p
----
p begins S1
p is to record S1
p records S1: state 94; hands in messages 2..3 [2, 3] to q
p -> q: marker of S1 after message 3

# The marker overtakes 2 and 3.

arrive p q 2
record q
----
q is to record S1
q records S1: state 100; hands in message 1 [1] of p from its mailbox
q -> p: marker of S1 before any message
S1 is complete: p 94, q 100; p -> q [1, 2, 3]; q -> p []
    200 in all
S1 is committed
p lets go of S1
q lets go of S1

# The snapshot holds all three in their order; then they arrive and are taken as if nothing had been.

transport p q
arrive p q
arrive p q
take q p
take q p
take q p
----
p -> q: message 3 [3]
q's mailbox: message 2 [2] of p
q's mailbox: message 3 [3] of p
q takes message 1 [1] of p: state 101
q takes message 2 [2] of p: state 103
q takes message 3 [3] of p: state 106
