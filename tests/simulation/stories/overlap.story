# Two snapshots at once, and one message in flight for both.
#
# p and q each begin a snapshot while p's message is under way. Each snapshot has markers and records of its own; the
# message crosses both cuts, so both hold it. Chandy and Lamport 1985, section 3.2, lets several processes begin, and
# section 2.1 speaks of one algorithm run again and again; that runs may overlap is added here.

processes p=10 q=10
channels p->q q->p
send p q 7
----
p -> q: message 1 [7]

begin q
begin p
----
q begins S1
q is to record S1
q records S1: state 10
q -> p: marker of S1 before any message
p begins S2
p is to record S2
p records S2: state 3; hands in message 1 [7] to q
p -> q: marker of S2 after message 1

# The second marker on the channel brings the first along: a marker rides on all that is sent until it is acknowledged.

receive q p
----
p is to record S1
p records S1: state 3; hands in message 1 [7] to q
p -> q: marker of S2 after message 1, marker of S1 after message 1
S1 is complete: p 3, q 10; p -> q [7]; q -> p []
    20 in all
S1 is committed
p lets go of S1
q lets go of S1

receive p q 2
----
q is to record S2
q records S2: state 10
q -> p: marker of S2 before any message
S2 is complete: p 3, q 10; p -> q [7]; q -> p []
    20 in all
S2 is committed
p lets go of S2
q lets go of S2

receive p q
show
----
q's mailbox: message 1 [7] of p
q takes message 1 [7] of p: state 17
now: p 3, q 17; p -> q []; q -> p []
