# A recorded global state that the system never was in, and could have been in.
#
# p is in state A or B, q in C or D. p sends M and goes from A to B, and back when it receives M'; q sends M' and goes
# from C to D. Both may send at any time: the system is not deterministic. Chandy and Lamport 1985: example 2.2 in
# section 2.2; the run below is that of section 4.1. Look at the four lines "now", global states that the paper numbers
# from 0 to 3, and at what the snapshot holds (S1 here, S* in the paper): A, D, nothing on p -> q, M' on q -> p. It is none
# of the four. But had e1 come before e0, as well it might, the system would have been in it, and in the last of the four
# at the end all the same (theorem 1).

processes p=0 q=0
names p 0=A -1=B
names q 0=C -1=D
names p->q 1=M
names q->p "1=M'"
channels p->q q->p
show
----
now: p A, q C; p -> q []; q -> p []

# p records in A; its marker goes before M. Then come e0, e1 and e2.

begin p
----
p begins S1
p is to record S1
p records S1: state A
p -> q: marker of S1 before any message

e0: send p q 1
show
----
p -> q: message 1 [M], marker of S1 before any message
now: p B, q C; p -> q [M]; q -> p []

e1: send q p 1
show
----
q -> p: message 1 [M']
now: p B, q D; p -> q [M]; q -> p [M']

e2: receive q p
show
----
p's mailbox: message 1 [M'] of q
p takes message 1 [M'] of q: state A
now: p A, q D; p -> q [M]; q -> p []

# Only now the marker reaches q, which records in D, and M' was sent before: S1 holds it, though p has it since e2.

receive p q
----
q is to record S1
q records S1: state D; hands in message 1 [M'] to p
q -> p: marker of S1 after message 1
S1 is complete: p A, q D; p -> q []; q -> p [M']
S1 is committed
p lets go of S1
q lets go of S1

# M arrives as well: q has recorded, and takes it.

receive p q
----
q's mailbox: message 1 [M] of p
q takes message 1 [M] of p: state C
