"""The pure machines of the protocol: events in, effects out; no clock, no thread, no Ray.

Whoever drives a `Participant` has these duties (the runtime does it on Ray, the simulation on a seed):

1. Give one machine one event at a time, under one lock, and carry out its effects in order before the lock is
   released, as far as they concern mailbox, outbox and what is under way: those of an acknowledgement too, as it may
   bring the news of a snapshot. What goes over the network may follow later, in any order, any number of times.
2. On `CaptureState`, capture the state at the next moment between two handlers and say `StateCaptured` under the same
   lock: no message is processed between the effect's arrival at the worker and the capture, and none is sent, delivered
   or fired during it. With `behind`, wait for the first moment at which so much is processed. At no time process a
   message above `limits`. `sent` and `received` count every channel that ever carried a message, the one to oneself
   too. When a snapshot that an actor began, or an aligned one, is recorded, look for all receivers not yet found.
3. Send a batch again, with the markers that are then due, while it is lost and not acknowledged; one without messages
   as long as markers are due. A closing batch is sent again too, after the process has ended, and may be the first one
   to its receiver since `Restored`.
4. Acknowledge what has arrived without a gap, the snapshots whose markers came with it, and `recorded_snapshots`. The
   number and these snapshots are of one moment, read under the lock: a number that is newer than the snapshots loses
   messages. Drop acknowledgements of another incarnation; tell all others with all that they say.
5. Keep each message that was transported until `released` covers it: acknowledged is not enough. `released` may rise
   with an acknowledgement, with `ReportRecord` and with `ForgetSnapshot`.
6. On `ReportRecord` take the messages that it names as copies, before one of them is processed, transported or let go
   of: for each receiver in `sent` but oneself released+1 .. sent, from what is under way, acknowledged or not, and from
   the outbox; for each sender in `arrived`, oneself too, received+1 .. arrived from the mailbox, and nothing behind it.
7. Say `DeadlinePassed` for a snapshot that is still open when its time is up.
8. Tag each answer to a driver with the `open_snapshots` of the moment at which it leaves.
9. Process no message before the process has joined and heard `Begun` of all snapshots that were open then; else what a
   driver did through it could lie in a cut that it is not part of. Say `DriverDied` of those that died before, and
   `SnapshotEnded` of what has ended: a late marker would make it record for a snapshot that is over.
10. Process no message before the constructor's, number 1 on the channel from the creator; let a process end only when
    `may_end`. A name is never used for another process.

Whoever drives a `Collector` holds safely what comes with a record before it tells of it. Of a stored cut's channel it
takes received+1 .. arrived from what the receiver handed in and arrived+1 .. sent from what the sender did, which may
hold some of the former as well. It carries `SendBegin` to the process that it names (Begun): twice does no harm, never
leaves the snapshot open until somebody aborts it. It tells every process of an `AnnounceEnd`, and those that this names
of the drivers that they may forget (DriversForgotten), whose messages they count no more; drivers too, and with it what
a stored cut that `advances` says about their channels (CutCommitted). After a rollback a new Collector takes over, told
of `Cut.ended`.
"""
