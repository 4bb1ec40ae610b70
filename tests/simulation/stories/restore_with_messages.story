# Back to a snapshot with messages in flight, and the next snapshot of what came back.
#
# The point of it all: the system fails, and goes on from the recorded global state, which by theorem 1 of Chandy and
# Lamport 1985 (section 4) is one that the run could have led to. What was in flight lies in the mailboxes; numbers go on
# where the snapshot has them, so that nothing is lost and nothing taken twice. A snapshot taken right then holds the same.

processes p=100 q=100
channels p->q q->p
send p q 1 2
send q p 10
begin q
receive q p 2
----
p -> q: message 1 [1]
p -> q: message 2 [2]
q -> p: message 1 [10]
q begins S1
q is to record S1
q records S1: state 90; hands in message 1 [10] to p
q -> p: marker of S1 after message 1
p is to record S1
p records S1: state 97; hands in messages 1..2 [1, 2] to q
p -> q: marker of S1 after message 2
S1 is complete: p 97, q 90; p -> q [1, 2]; q -> p [10]
    200 in all
S1 is committed
p lets go of S1
q lets go of S1

# Life goes on for a while, and then everything is lost.

receive p q
receive p q
show
----
q's mailbox: message 1 [1] of p
q takes message 1 [1] of p: state 91
q's mailbox: message 2 [2] of p
q takes message 2 [2] of p: state 93
now: p 97, q 93; p -> q []; q -> p [10]

lose all
restore S1
----
life 2 begins from S1
now: p 97, q 90; p -> q [1, 2]; q -> p [10]

begin p
receive p q
----
p begins S2
p is to record S2
p records S2: state 97; hands in message 1 [10] of q from its mailbox
p -> q: marker of S2 after message 2
q is to record S2
q records S2: state 90; hands in messages 1..2 [1, 2] of p from its mailbox
q -> p: marker of S2 after message 1
S2 is complete: p 97, q 90; p -> q [1, 2]; q -> p [10]
    200 in all
S2 is committed
p lets go of S2
q lets go of S2
q takes message 1 [1] of p: state 91
q takes message 2 [2] of p: state 93

# Each is taken once, and numbers go on at 3.

take p q
send p q 3
receive p q
show
----
p takes message 1 [10] of q: state 107
p -> q: message 3 [3]
q's mailbox: message 3 [3] of p
q takes message 3 [3] of p: state 96
now: p 104, q 96; p -> q []; q -> p []
