# Alignment that takes too long turns into a Chandy-Lamport snapshot, at that process alone.
#
# m has the inputs s and t. The marker of t does not come; m waits, and what s sent behind its marker waits with it.
# When m's patience is over it records at once what it has, with the messages that are in flight. Waiting was all that
# an aligned snapshot does differently. Carbone and others 2015 (arXiv:1506.08603), section 4.2, has no such end.

processes s=100 t=100 m=0
channels s->m t->m
send s m 1
send t m 10
----
s -> m: message 1 [1]
t -> m: message 1 [10]

begin aligned
tell s m
record s
send s m 2
receive s m
receive s m
receive s m
----
coordinator to m: record S1, aligned with s, t
coordinator to s: record S1
coordinator to t: record S1
s hears of S1 and waits for its markers
s is to record S1
m hears of S1 and waits for its markers
s records S1: state 99; hands in message 1 [1] to m
s -> m: marker of S1 after message 1
s -> m: message 2 [2], marker of S1 after message 1
m's mailbox: message 1 [1] of s
m takes message 1 [1] of s: state 1
m's mailbox: message 2 [2] of s

timeout m
record m
----
m is to record S1
m records S1: state 1

# m goes on. It has recorded: what t sent before recording crosses the cut, and t hands it in.

take m s
receive t m
----
m takes message 2 [2] of s: state 3
m's mailbox: message 1 [10] of t
m takes message 1 [10] of t: state 13

tell t
record t
----
t hears of S1 and waits for its markers
t is to record S1
t records S1: state 90; hands in message 1 [10] to m
t -> m: marker of S1 after message 1
S1 is complete: m 1, s 99, t 90; s -> m []; t -> m [10]
    200 in all
S1 is committed
s lets go of S1
t lets go of S1
m lets go of S1
