# A process that is created while a snapshot is open.
#
# The paper has a fixed set of processes; actors are created as they are needed. What a new process is made of is a
# message of its creator like any other. If it was sent before the creator recorded, it is in flight: the snapshot holds
# it, and the process is there, not born yet. If not, all of the process lies behind the cut.

processes p=100 q=100
channels p->q q->p
----
nothing follows

# p creates c with 30 before it records, and d with 5 afterwards.

create p c 30
begin coordinator
tell p
record p
create p d 5
----
p creates c
coordinator to p: record S1
coordinator to q: record S1
p is to record S1
p records S1: state 70; hands in message 1 [30] to c
p creates d

# Both say hello to the coordinator while the snapshot is open, and are told of it before anything else.

join c
tell c
record c
join d
tell d
record d
----
coordinator to c: record S1
c is to record S1
c records S1: not born yet
coordinator to d: record S1
d is to record S1
d records S1: not born yet

# c is part of it: 30 on p -> c. d is not: its creation lies behind p's record.

tell q
record q
----
q is to record S1
q records S1: state 100
S1 is complete: p 70, q 100; p -> c [30]; p -> q []; q -> p []
    200 in all
S1 is committed
p lets go of S1
q lets go of S1
c lets go of S1
d lets go of S1

transport p c
arrive p c
take c p
----
p -> c: message 1 [30]
c's mailbox: message 1 [30] of p
c takes message 1 [30] of p: state 30
