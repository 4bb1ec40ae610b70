"""The pure machines of the protocol: events in, effects out; no clock, no thread, no Ray.

Whoever drives a `Participant` has these duties (the runtime does it on Ray, the simulation on a seed):

1. Give one machine one event at a time, under one lock, and carry out its effects in order before the lock is
   released, as far as they concern the mailbox, the outbox and the frames kept for snapshots. What goes over the
   network may follow later, in any order, any number of times.
2. On `Record`, capture the state at the next moment between two handlers and say `StateCaptured` under the same lock:
   no message is processed between the effect's arrival at the worker and the capture, and none is sent, delivered or
   fired during it.
3. Keep a transported batch until it is acknowledged, and send it again, with the markers that are then due, when it
   is lost.
4. Say `DeadlinePassed` for a snapshot that is still open when its time is up.
"""
