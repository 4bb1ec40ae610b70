# Three processes and ten events, a to j: only the channel from P2 to P1 holds a message.
#
# A space-time diagram that courses draw: time runs to the right, messages are slanted arrows. P1 does a, b, c, d; P2
# does e, f, g, h; P3 does i, j. P1 begins the snapshot right after b; Cxy is the channel from Px to Py. What is sent
# before its sender records and received after its receiver did crosses the cut: here the message from h to d on C21,
# and no other. The rules are those of Chandy and Lamport 1985, section 3.2.

processes P1=100 P2=200 P3=300
channels P1->P2 P1->P3 P2->P1 P2->P3 P3->P1 P3->P2
----
nothing follows

a: send P1 P2 1
e: receive P1 P2
f: send P2 P3 2
i: receive P2 P3
g: send P2 P1 3
b: receive P2 P1
----
P1 -> P2: message 1 [1]
P2's mailbox: message 1 [1] of P1
P2 takes message 1 [1] of P1: state 201
P2 -> P3: message 1 [2]
P3's mailbox: message 1 [2] of P2
P3 takes message 1 [2] of P2: state 302
P2 -> P1: message 1 [3]
P1's mailbox: message 1 [3] of P2
P1 takes message 1 [3] of P2: state 102

# P1 records; two markers leave, on C12 and C13.

begin P1
----
P1 begins S1
P1 is to record S1
P1 records S1: state 102
P1 -> P2: marker of S1 after message 1
P1 -> P3: marker of S1 before any message

# h: P2 has not heard of the snapshot. c: what P1 sends now is behind its marker, and brings it along.

h: send P2 P1 4
c: send P1 P3 5
----
P2 -> P1: message 2 [4]
P1 -> P3: message 1 [5], marker of S1 before any message

# P3 learns of it from C13 before it can take what c sent: j is behind the cut, as c is.

receive P1 P3
j: receive P1 P3
----
P3 is to record S1
P3 records S1: state 302
P3 -> P1: marker of S1 before any message
P3 -> P2: marker of S1 before any message
P3's mailbox: message 1 [5] of P1
P3 takes message 1 [5] of P1: state 307

# d: P1 takes the message of h after it recorded, and before P2 did.

d: receive P2 P1
----
P1's mailbox: message 2 [4] of P2
P1 takes message 2 [4] of P2: state 101

# The marker on C12 reaches P2 last. P2 hands in what it sent at h, as nobody told it that this was taken in time.

receive P1 P2
----
P2 is to record S1
P2 records S1: state 192; hands in message 2 [4] to P1
P2 -> P1: marker of S1 after message 2
P2 -> P3: marker of S1 after message 1
S1 is complete: P1 102, P2 192, P3 302; P1 -> P2 []; P1 -> P3 []; P2 -> P1 [4]; P2 -> P3 []; P3 -> P1 []; P3 -> P2 []
    600 in all
S1 is committed
P1 lets go of S1
P2 lets go of S1
P3 lets go of S1

show
----
now: P1 101, P2 192, P3 307; P1 -> P2 []; P1 -> P3 []; P2 -> P1 []; P2 -> P3 []; P3 -> P1 []; P3 -> P2 []
