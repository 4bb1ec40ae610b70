# A driver's channel: the receiver says how much of it lies before the cut.
#
# A driver is a program outside of the system that sends into it, what the paper would call its environment. It never
# records and sends no marker, so its n (the messages sent before the cut) is fixed by the receiver: all that had arrived
# when it recorded. One thing the driver must do: if it saw effects of a recorded state, what it sends afterwards lies
# behind the cut everywhere, and must say so. It carries a tag.

processes p=0 q=0
driver driver:d
send driver:d p 1 2
send driver:d q 5
----
driver:d -> p: message 1 [1]
driver:d -> p: message 2 [2]
driver:d -> q: message 1 [5]

# One of two messages to p has arrived when p records: n is 1, and it is in the mailbox.

arrive driver:d p
begin coordinator
tell p
record p
----
p's mailbox: message 1 [1] of driver:d
coordinator to p: record S1
coordinator to q: record S1
p is to record S1
p records S1: state 0; hands in message 1 [1] of driver:d from its mailbox

# The driver asks p and sees that it recorded. What it then sends to q makes q record first.

answer p driver:d
send driver:d q 6
----
p answers driver:d: snapshots open here: S1
driver:d -> q: message 2 [6], tag S1

arrive driver:d q
arrive driver:d q
record q
----
q's mailbox: message 1 [5] of driver:d
q is to record S1
q's mailbox: message 2 [6] of driver:d
q records S1: state 0; hands in message 1 [5] of driver:d from its mailbox
S1 is complete: p 0, q 0; driver:d -> p [1]; driver:d -> q [5]
    6 in all
S1 is committed
p lets go of S1
q lets go of S1

take q driver:d
take q driver:d
----
q takes message 1 [5] of driver:d: state 5
q takes message 2 [6] of driver:d: state 11
