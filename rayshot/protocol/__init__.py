"""The pure machines of the protocol: events in, effects out; no clock, no thread, no Ray.

The code that drives a `Participant` (the runtime on Ray, the simulation from a seed) has these duties:

1. Give a machine one event at a time, under one lock. Carry out its effects in order before releasing the lock, as far
   as they concern mailbox, outbox and messages under way. This holds for the effects of an acknowledgement too, as it
   may bring the news of a snapshot. What goes over the network may follow later, in any order and any number of times.
2. On `CaptureState`, capture the state at the next moment between two handlers and say `StateCaptured` under the same
   lock. Process no message between the effect's arrival at the worker and the capture; send, deliver and fire nothing
   during it. With `behind`, wait for the first moment at which these messages are processed. Never process a message
   above `limits`. `sent` and `received` count every channel that ever carried a message, the process's channel to
   itself too. When a snapshot that an actor began, or an aligned one, is recorded, look for all receivers that are not
   yet found.
3. Send a batch, with the markers that are due at the time, again and again while it is lost and not acknowledged. Send
   a batch without messages as long as markers are due. A closing batch is sent again too, even after the process has
   ended; it may be the first batch to its receiver since `Restored`.
4. Acknowledge what has arrived without a gap, the snapshots whose markers came with it, and `recorded_snapshots`. Read
   the number and these snapshots under the lock at one moment: if the number is newer than the snapshots, messages are
   lost. Drop acknowledgements of another incarnation; pass all others to the machine with everything that they say.
5. Keep each transported message until `released` covers it; an acknowledgement alone is not enough. `released` may rise
   with an acknowledgement, with `ReportRecord` and with `ForgetSnapshot`.
6. On `ReportRecord`, copy the messages that it names before one of them is processed, transported or released. For each
   receiver in `sent` except the process itself these are released+1 .. sent, from the messages under way, acknowledged
   or not, and from the outbox. For each sender in `arrived`, the process itself too, these are received+1 .. arrived
   from the mailbox, and none behind them.
7. Say `DeadlinePassed` for a snapshot that is still open when its time is up.
8. Tag each answer to a driver with the `open_snapshots` of the moment at which the answer leaves.
9. Process no message before the process has joined and has got `Begun` for all snapshots that were open then. Otherwise
   a cut without the process could contain effects that a driver caused through it. Say `DriverDied` for drivers
   that died before, and `SnapshotEnded` for snapshots that have ended: without this, a late marker would make the
   process record for a snapshot that is over.
10. Process no message before the constructor's, number 1 on the channel from the creator. Let a process end only when
    `may_end` is true. Never use a name for another process.

The code that drives a `Collector` stores what comes with a record safely before it tells the collector of the record.
For a channel of a stored cut it takes received+1 .. arrived from the receiver's messages and arrived+1 .. sent from the
sender's, which may include some of the receiver's as well. It brings `SendBegin` to the process that it names (Begun):
twice is harmless; if it never arrives, the snapshot stays open until somebody aborts it. It tells every process and
every driver of an `AnnounceEnd`. It tells the processes named in it which drivers they may forget (DriversForgotten):
they no longer count these drivers' messages. It tells drivers what a stored cut that `advances` says about their
channels (CutCommitted). After a rollback a new Collector takes over; it is given `Cut.ended`.
"""
