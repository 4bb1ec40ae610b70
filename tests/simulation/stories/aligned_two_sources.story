# An aligned snapshot of a flow with two sources: it holds no messages at all.
#
# Sources s and t send to m, m sends to the sink z. A process waits until each of its inputs has brought a marker, takes
# all that was sent before these and nothing behind, and only then records: so nothing is in flight. Carbone and others
# 2015 (arXiv:1506.08603), section 4.2, where markers are called barriers. The price is waiting.

processes s=100 t=100 m=0 z=0
channels s->m t->m m->z
send s m 1
send t m 10
----
s -> m: message 1 [1]
t -> m: message 1 [10]

# The coordinator tells everybody, with their inputs. A source has none and records at once.

begin aligned
tell s t m z
record s
----
coordinator to m: record S1, aligned with s, t
coordinator to s: record S1
coordinator to t: record S1
coordinator to z: record S1, aligned with m
s hears of S1 and waits for its markers
s is to record S1
t hears of S1 and waits for its markers
t is to record S1
m hears of S1 and waits for its markers
z hears of S1 and waits for its markers
s records S1: state 99; hands in message 1 [1] to m
s -> m: marker of S1 after message 1

# m has the marker of s: 1 was sent before it, 2 behind it. It takes 1, and may not take 2 before it has recorded.

send s m 2
arrive s m
arrive s m
arrive s m
take m s
take m s
----
s -> m: message 2 [2], marker of S1 after message 1
m's mailbox: message 1 [1] of s
m's mailbox: message 2 [2] of s
m takes message 1 [1] of s: state 1
m may take nothing of s that is behind the cut before it has recorded

# Only when the marker of t is there and 10 is taken does m record.

record t
arrive t m
arrive t m
record m
----
t records S1: state 90; hands in message 1 [10] to m
t -> m: marker of S1 after message 1
m's mailbox: message 1 [10] of t
m is to record S1, once it took message 1 of s and message 1 of t

take m t
record m
----
m takes message 1 [10] of t: state 11
m records S1: state 11; aligned with s and t
m -> z: marker of S1 before any message

take m s
receive m z
----
m takes message 2 [2] of s: state 13
z is to record S1
z records S1: state 0; aligned with m
S1 is complete: m 11, s 99, t 90, z 0; m -> z []; s -> m []; t -> m []
    200 in all
S1 is committed
s lets go of S1
t lets go of S1
m lets go of S1
z lets go of S1
