# A packet of a life that is over.
#
# After a failure the system goes back to a snapshot and begins a new life. What the old one had sent may still be on its
# way. In the new life that message was never sent, or will be sent again under the same number, perhaps with something
# else in it. So packets say of which life they are, and the dead are not listened to.

processes p=100 q=100
channels p->q q->p
begin p
receive p q
----
p begins S1
p is to record S1
p records S1: state 100
p -> q: marker of S1 before any message
q is to record S1
q records S1: state 100
q -> p: marker of S1 before any message
S1 is complete: p 100, q 100; p -> q []; q -> p []
    200 in all
S1 is committed
p lets go of S1
q lets go of S1

# This message is sent behind the snapshot, and is still on its way when all is lost.

send p q 30
restore S1
----
p -> q: message 1 [30]
life 2 begins from S1
now: p 100, q 100; p -> q []; q -> p []

# Another message takes its number.

send p q 5
----
p -> q: message 1 [5]

arrive p q
----
q drops message 1 of p: stale

receive p q
show
----
q's mailbox: message 1 [5] of p
q takes message 1 [5] of p: state 105
now: p 95, q 105; p -> q []; q -> p []
