# An aligned snapshot of a loop: only the channel that leads back holds a message.
#
# The source s sends to a, a to b, and b feeds back to a. If a waited for the marker of b, and b for that of a, nobody
# would ever record. So channels that lead back, found by a depth-first search, are not aligned: what comes on them
# between a's record and the marker of b is recorded. Carbone and others 2015 (arXiv:1506.08603), section 4.3.

processes s=100 a=50 b=50
channels s->a a->b b->a
send s a 1
send b a 7
----
s -> a: message 1 [1]
b -> a: message 1 [7]

begin aligned
tell s a b
record s
----
coordinator to a: record S1, aligned with s
coordinator to b: record S1, aligned with a
coordinator to s: record S1
s hears of S1 and waits for its markers
s is to record S1
a hears of S1 and waits for its markers
b hears of S1 and waits for its markers
s records S1: state 99; hands in message 1 [1] to a
s -> a: marker of S1 after message 1

# a has its one input that leads forward, s, and is aligned with it. The message of b is still under way.

receive s a
receive s a
----
a's mailbox: message 1 [1] of s
a takes message 1 [1] of s: state 51
a is to record S1, once it took message 1 of s
a records S1: state 51; aligned with s
a -> b: marker of S1 before any message

receive b a
receive a b
show
----
a's mailbox: message 1 [7] of b
a takes message 1 [7] of b: state 58
b is to record S1
b records S1: state 43; hands in message 1 [7] to a; aligned with a
b -> a: marker of S1 after message 1
S1 is complete: a 51, b 43, s 99; a -> b []; b -> a [7]; s -> a []
    200 in all
S1 is committed
s lets go of S1
a lets go of S1
b lets go of S1
now: s 99, a 58, b 43; a -> b []; b -> a []; s -> a []
