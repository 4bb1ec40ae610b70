# A snapshot that is given up, and a marker of it that comes late.
#
# Nobody can fetch a marker back. If a process that hears of the end took a late marker for news, it would record for a
# snapshot that nobody collects, and tell others of it. So the ended are remembered: a marker of theirs means nothing any
# more, and the message that it rides on is delivered like any other. The paper has no snapshot that fails.

processes p=10 q=10
channels p->q q->p
begin p
send p q 4
----
p begins S1
p is to record S1
p records S1: state 10
p -> q: marker of S1 before any message
p -> q: message 1 [4], marker of S1 before any message

abort S1
----
S1 is aborted: timeout
p lets go of S1

receive p q
----
nothing follows

receive p q
----
q's mailbox: message 1 [4] of p
q takes message 1 [4] of p: state 14

# The next one has a name of its own.

begin q
receive q p
----
q begins S2
q is to record S2
q records S2: state 14
q -> p: marker of S2 before any message
p is to record S2
p records S2: state 6
p -> q: marker of S2 after message 1
S2 is complete: p 6, q 14; p -> q []; q -> p []
    20 in all
S2 is committed
p lets go of S2
q lets go of S2
