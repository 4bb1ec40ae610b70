# A network that doubles, loses and reorders: the channel is what the paper takes it for all the same.
#
# Chandy and Lamport 1985, section 2.1, assume channels that lose nothing and deliver in the order of sending. Messages
# are numbered, so the receiver makes such a channel of any network: what is early is held, what was here is dropped, and
# what is not acknowledged is sent again.

processes p=100 q=100
channels p->q q->p
send p q 1 2 3
----
p -> q: message 1 [1]
p -> q: message 2 [2]
p -> q: message 3 [3]

# Message 3 comes first, then 2 gets lost, then 1 comes.

arrive p q 3
lose p q 2
arrive p q
----
q holds message 3 of p back: one before it is missing
q's mailbox: message 1 [1] of p

# p hears nothing of 2, and sends it again; twice, as it turns out.

again p q 2
again p q 2
arrive p q
arrive p q
----
p -> q again: message 2 [2]
p -> q again: message 2 [2]
q's mailbox: message 2 [2] of p
q's mailbox: message 3 [3] of p
q drops message 2 of p: duplicate

take q p
take q p
take q p
----
q takes message 1 [1] of p: state 101
q takes message 2 [2] of p: state 103
q takes message 3 [3] of p: state 106

# A marker that is doubled says nothing new.

begin p
again p q 4
receive p q
receive p q
----
p begins S1
p is to record S1
p records S1: state 94
p -> q: marker of S1 after message 3
p -> q again: marker of S1 after message 3
q is to record S1
q records S1: state 106
q -> p: marker of S1 before any message
S1 is complete: p 94, q 106; p -> q []; q -> p []
    200 in all
S1 is committed
p lets go of S1
q lets go of S1
