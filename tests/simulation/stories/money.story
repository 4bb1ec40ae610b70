# Money on its way from one account to another: the total never changes.
#
# A has 10,000 and B 5,000. A sends 1,000 and begins a snapshot: it records 9,000, and its marker follows the 1,000. B
# meanwhile sends 1,000 and 2,000, then receives A's 1,000, and then the marker: it records 3,000. So A to B is recorded
# as empty and B to A with 1,000 and 2,000 on it. This is a picture that many courses show; the rules are those of
# Chandy and Lamport 1985, section 3.2.
#
# Where the paper has A write down what comes from B until B's marker does, here B hands in what it sent and nobody is
# known to have: the same two messages, and the snapshot is complete before they arrive.

processes A=10000 B=5000
channels A->B B->A
show
----
now: A 10000, B 5000; A -> B []; B -> A []

send A B 1000
begin A
----
A -> B: message 1 [1000]
A begins S1
A is to record S1
A records S1: state 9000; hands in message 1 [1000] to B
A -> B: marker of S1 after message 1

send B A 1000 2000
----
B -> A: message 1 [1000]
B -> A: message 2 [2000]

receive A B
show
----
B's mailbox: message 1 [1000] of A
B takes message 1 [1000] of A: state 3000
now: A 9000, B 3000; A -> B []; B -> A [1000, 2000]

receive A B
----
B is to record S1
B records S1: state 3000; hands in messages 1..2 [1000, 2000] to A
B -> A: marker of S1 after message 2
S1 is complete: A 9000, B 3000; A -> B []; B -> A [1000, 2000]
    15000 in all
S1 is committed
A lets go of S1
B lets go of S1

# What was on its way arrives as if there had been no snapshot. The last one is B's marker, which A need not act on.

receive B A
receive B A
receive B A
show
----
A's mailbox: message 1 [1000] of B
A takes message 1 [1000] of B: state 10000
A's mailbox: message 2 [2000] of B
A takes message 2 [2000] of B: state 12000
now: A 12000, B 3000; A -> B []; B -> A []
