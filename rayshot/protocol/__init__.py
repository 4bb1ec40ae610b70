"""The pure machines of the protocol: events in, effects out; no clock, no thread, no Ray.

Whoever drives a `Participant` has these duties (the runtime does it on Ray, the simulation on a seed):

1. Give one machine one event at a time, under one lock, and carry out its effects in order before the lock is
   released, as far as they concern the mailbox, the outbox and the frames kept for snapshots. What goes over the
   network may follow later, in any order, any number of times.
2. On `CaptureState`, capture the state at the next moment between two handlers and say `StateCaptured` under the same
   lock: no message is processed between the effect's arrival at the worker and the capture, and none is sent, delivered
   or fired during it. `sent` and `received` count every channel that ever carried a message, the one to oneself too.
3. Keep a transported batch until it is acknowledged, and send it again, with the markers that are then due, when it
   is lost. A closing batch is sent again too, after the process has ended, and may be the first one to its receiver
   since `Restored`. Acknowledge what has arrived without a gap, and the snapshots whose markers came with it; drop
   acknowledgements of another incarnation.
4. On `ReportRecord` take the messages that it names out of mailbox and outbox as copies, before one of them is
   processed or transported; on `KeepMessages` those that were just delivered. Say `ChannelsClosed` when the coordinator
   does; `ReportChannel` names kept messages, and nothing else needs them any more.
5. Say `DeadlinePassed` for a snapshot that is still open when its time is up.
6. Tag each answer to a driver with the `open_snapshots` of the moment at which it leaves.
7. Process no message before the process has joined and heard `Begun` of all snapshots that were open then; else what a
   driver did through it could lie in a cut that it is not part of. Say `DriverDied` of those that died before.
8. Process no message before the constructor's, number 1 on the channel from the creator; let a process end only when
   `may_end`. A name is never used for another process.

Whoever drives a `Collector` holds safely what comes with a record, or of a closed channel, before it tells of it. It
carries `SendBegin` and `CloseChannels` to the processes that they name (Begun, ChannelsClosed): twice does no harm,
never leaves the snapshot open until somebody aborts it. It tells every process of an `AnnounceEnd`; drivers too, and
with it what a stored cut that `advances` says about their channels (CutCommitted). After a rollback a new Collector
takes over, told of `Cut.ended`.
"""
