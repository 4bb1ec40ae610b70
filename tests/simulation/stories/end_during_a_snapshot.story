# A process that ends while a snapshot is open.
#
# In the paper processes live for ever. Here p leaves all it has to q and ends before it has heard of the snapshot, so
# all of its life lies before the cut, and nobody can ask it for a record. Its last words say what it had sent; q says
# what has arrived. What p sent and q had not taken is in the snapshot.

processes p=60 q=100
channels p->q q->p
send p q 20
----
p -> q: message 1 [20]

begin coordinator
end p q
leave p
----
coordinator to p: record S1
coordinator to q: record S1
p -> q: message 2 [40]
p may not end yet

# All it sent must have arrived first: else nobody could hand it in any more.

arrive p q
arrive p q
leave p
----
q's mailbox: message 1 [20] of p
q's mailbox: message 2 [40] of p
p -> q: the end
p ends

take q p
tell q
record q
----
q takes message 1 [20] of p: state 120
q is to record S1
q records S1: state 120; hands in message 2 [40] of p from its mailbox
S1 is complete: q 120; p -> q [40]
    160 in all
S1 is committed
q lets go of S1

arrive p q
take q p
----
q takes message 2 [40] of p: state 160
