# Stop the world: all stand still, what is under way arrives, all record, all go on.
#
# The simplest way to a consistent global state, and the one that papers measure themselves against. Everybody is told
# twice: to stand still and, when all that was sent has arrived at all of them, to record. Nothing is in transit then,
# but what lies in mailboxes belongs to the snapshot. No paper is needed for this one.

processes p=100 q=100
channels p->q q->p
send p q 1
----
p -> q: message 1 [1]

begin stopped
tell p q
pause p q
----
coordinator to p: stand still for S1
coordinator to q: stand still for S1
p is to stand still for S1
q is to stand still for S1
q stands still for S1, and all that it sent has arrived

# q sent nothing, so it has nothing to wait for. p waits for its message to arrive.

arrive p q
----
q's mailbox: message 1 [1] of p
p stands still for S1, and all that it sent has arrived
coordinator to p: all stand still, record S1
coordinator to q: all stand still, record S1

tell p q
record p
record q
----
p is to record S1
q is to record S1
p records S1: state 99
q records S1: state 100; hands in message 1 [1] of p from its mailbox
S1 is complete: p 99, q 100; p -> q [1]; q -> p []
    200 in all
S1 is committed
p lets go of S1
q lets go of S1

take q p
----
q takes message 1 [1] of p: state 101
