# The single token: one token is seen, no matter where it is when its holder records.
#
# One token wanders between p and q over a channel each way, c from p to q and c' back. A recorded global state that
# shows no token, or two, is none that the system could be in. Chandy and Lamport 1985: the system is example 2.1 in
# section 2.1; section 3.1 (example 3.1) finds from it when to record. p has the token at first: state 1; q has 0.

processes p=1 q=0
channels p->q q->p
show
----
now: p 1, q 0; p -> q []; q -> p []

# p records while it has the token, and sends it afterwards. If c were recorded with the token on it, there would be two
# (n < n' in the paper's words). The marker is in front of the token, so q records before it can take the token.

begin p
----
p begins S1
p is to record S1
p records S1: state 1
p -> q: marker of S1 before any message

send p q 1
show
----
p -> q: message 1 [1], marker of S1 before any message
now: p 0, q 0; p -> q [1]; q -> p []

receive p q
----
q is to record S1
q records S1: state 0
q -> p: marker of S1 before any message
S1 is complete: p 1, q 0; p -> q []; q -> p []
    1 in all
S1 is committed
p lets go of S1
q lets go of S1

receive p q
----
q's mailbox: message 1 [1] of p
q takes message 1 [1] of p: state 1

# The other way to fail: q sends the token back, and records without it; then p records without it, too. If c' were
# recorded as empty, no token would be seen (n > n'). But q sent a message that nobody is known to have: it hands it in.

send q p 1
begin q
----
q -> p: message 1 [1]
q begins S2
q is to record S2
q records S2: state 0; hands in message 1 [1] to p
q -> p: marker of S2 after message 1

# The marker overtakes the token. That does no harm: it says behind which message it belongs.

receive q p 3
----
p is to record S2
p records S2: state 0
p -> q: marker of S2 after message 1
S2 is complete: p 0, q 0; p -> q []; q -> p [1]
    1 in all
S2 is committed
p lets go of S2
q lets go of S2

receive q p 2
show
----
p's mailbox: message 1 [1] of q
p takes message 1 [1] of q: state 1
now: p 1, q 0; p -> q []; q -> p []
