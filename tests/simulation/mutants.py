"""Mutants of all machines; those of what senders keep for their records are in a file of their own."""

from dataclasses import replace
from unittest import mock

from rayshot.protocol import assembly
from rayshot.protocol import collector as collector_module
from rayshot.protocol.collector import Collector
from rayshot.protocol.collector_events import ProcessJoined
from rayshot.protocol.cut import ChannelCut
from rayshot.protocol.driver import Driver
from rayshot.protocol.driver_events import SystemRolledBack
from rayshot.protocol.effects import DeliverBatch, SendBatch
from rayshot.protocol.events import BatchArrived, DeadlinePassed, Restored, SnapshotEnded
from rayshot.protocol.participant import Participant
from rayshot.simulation.world.coordinator import WorldCoordinator
from rayshot.simulation.world.process import Process
from tests.simulate.settings import Slow
from tests.simulation.mutants_of_senders import Untagged
from tests.simulation.mutation import mutant, patched

ISLANDS = {  # drivers are the only way from one process to another, and the coordinator's news is slow
    "contacts": {"p0": (), "p1": (), "p2": ()},
    "drivers": 2,
    "snapshots": 5,
    "activity": 60,
    "length": 250,
    "slow": frozenset({Slow.TELL_PROCESS}),
}


# Recording -----------------------------------------------------------------------------------------


@mutant("what waits in the mailbox is not recorded")
class NoMailbox(Participant):
    def _make_record(self, captured, recorder):
        return replace(super()._make_record(captured, recorder), arrived={})


@mutant("a record counts what arrived behind the end that a marker named")
class MailboxBeyondMarker(Participant):
    def _make_record(self, captured, recorder):
        arrived = {sender: n for sender, n in self._arrived.items() if n > captured.received.get(sender, 0)}
        return replace(super()._make_record(captured, recorder), arrived=arrived)


@mutant("a record does not count what a process sent to itself")
class NoSelf(Participant):
    def _make_record(self, captured, recorder):
        record = super()._make_record(captured, recorder)
        return replace(record, arrived={sender: n for sender, n in record.arrived.items() if sender != self.name})


@mutant("a record says that all is released that is transported")
class TransportedReleased(Participant):
    def _make_record(self, captured, recorder):
        record = super()._make_record(captured, recorder)
        return replace(record, released=record.transported)


@mutant("a record says that all is released that is sent, and the outbox is lost")
class NoOutbox(Participant):
    def _make_record(self, captured, recorder):
        record = super()._make_record(captured, recorder)
        return replace(record, released=record.sent)


def outbox_only(self, receiver, record):
    return tuple(self.outbox[receiver])


patched("with a record only transported+1 .. sent are handed in", (Process, "_unreleased", outbox_only))


def shift_markers(by: int) -> type[Participant]:
    def wrong(markers):
        return tuple(marker._replace(sent=max(0, marker.sent + by)) for marker in markers)

    class Shifted(Participant):
        def markers_due(self, receiver):
            return wrong(super().markers_due(receiver))

        def handle(self, event):
            return tuple(
                replace(effect, markers=wrong(effect.markers)) if isinstance(effect, SendBatch) else effect
                for effect in super().handle(event)
            )

    return Shifted


mutant("the marker's `sent` is one too low")(shift_markers(-1))
mutant("the marker's `sent` is one too high")(shift_markers(1))


capture = Process.capture


def capture_one_message_late(self, snapshot):
    senders = [sender for sender, messages in self.mailbox.items() if messages and self.account is not None]
    if senders:
        self.begin_handler(senders[0])
        while self.todo:
            self.go_on()
    capture(self, snapshot)


def capture_state_of_another_moment(self, snapshot):
    content = self._content

    def later(record):
        before = {receiver: list(messages) for receiver, messages in self.outbox.items()}
        senders = [sender for sender in self.next_senders() if sender != self.name]
        if not senders or self.account is None:
            return content(record)
        state = self.account.copy()
        message = self.mailbox[senders[0]][0]
        state._receive(senders[0], message)
        recorded = content(record)
        assert before == {receiver: list(messages) for receiver, messages in self.outbox.items()}
        return replace(recorded, state=state)

    with mock.patch.object(self, "_content", later):
        capture(self, snapshot)


patched(
    "a message is processed between the news of a snapshot and the capture",
    (Process, "capture", capture_one_message_late),
)
patched("the captured state is one message late", (Process, "capture", capture_state_of_another_moment))


in_mailbox = Process._in_mailbox


def in_mailbox_reversed(self, sender, first, last):
    return in_mailbox(self, sender, first, last)[::-1]


patched("a channel is recorded in reverse", (Process, "_in_mailbox", in_mailbox_reversed))


# Tags and markers ----------------------------------------------------------------------------------


@mutant("an acknowledgement of what was sent before the recording ends the markers")
class MarkersAcknowledgedByMessages(Participant):
    def _batch_acknowledged(self, answer):
        return super()._batch_acknowledged(replace(answer, markers=self.open_snapshots))


@mutant("a marker is sent once only", lost_one_in=4)
class MarkerOnce(Participant):
    def handle(self, event):
        effects = super().handle(event)
        for effect in effects:
            if isinstance(effect, SendBatch) and effect.receiver in self._out:
                self._out[effect.receiver].due.clear()
        return effects


@mutant("a channel opened after the recording starts without a marker", snapshots=6, own_snapshots_one_in=6)
class NoMarkerOnNewChannel(Participant):
    def _channel_to(self, receiver):
        new = receiver not in self._out
        channel = super()._channel_to(receiver)
        if new:
            channel.due.clear()
        return channel


@mutant("a passed deadline ends the tags of a recorded state", deadlines=8, snapshots=6)
class DeadlineForgets(Participant):
    def handle(self, event):
        return super().handle(SnapshotEnded(event.snapshot) if isinstance(event, DeadlinePassed) else event)


@mutant("a driver does not pass tags on", **ISLANDS)
class DeafDriver(Driver):
    @property
    def tags(self):
        return ()


@mutant("a driver's tagged batch is a part of the cut", **ISLANDS)
class NoDriverLimits(Participant):
    def _make_record(self, captured, recorder):
        recorder.driver_limits.clear()
        return super()._make_record(captured, recorder)


@mutant("a driver's repeated batch limits the cut below what was processed", drivers=2, lost_one_in=2, snapshots=4)
class LimitBelowArrived(Participant):
    def _hear(self, batch):
        effects = super()._hear(batch)
        for tag in batch.tags:
            if recorder := self._recorders.get(tag):
                recorder.driver_limits[batch.sender] = batch.first - 1
        return effects


# Delivery and incarnations -------------------------------------------------------------------------


@mutant("a duplicate is applied", duplicated_one_in=3)
class DuplicateApplied(Participant):
    def _accept(self, batch, arrived):
        if batch.count and batch.first + batch.count - 1 <= arrived:
            return [DeliverBatch(batch.sender, batch.first, batch.first + batch.count - 1)]
        return super()._accept(batch, arrived)


@mutant("a batch that is early is delivered at once")
class EarlyDelivered(Participant):
    def _accept(self, batch, arrived):
        return [self._deliver(batch.sender, batch.first, batch.first + batch.count - 1)] if batch.count else []


@mutant("a batch of an old incarnation is accepted", crashes=2, snapshots=4)
class StaleAccepted(Participant):
    def handle(self, event):
        return super().handle(
            replace(event, incarnation=self.incarnation) if isinstance(event, BatchArrived) else event
        )


@mutant("a floor of an old incarnation is heeded", crashes=2, snapshots=4)
class StaleFloor(Participant):
    def _raise_floor(self, snapshot, floor):
        self._tombstones.raise_floor(snapshot.initiator, floor)
        return super()._raise_floor(snapshot, floor)


@mutant("a restored process counts on from what it had processed", crashes=2)
class RestoredTooLow(Participant):
    def _restored(self, event):
        return super()._restored(replace(event, arrived={sender: max(0, n - 1) for sender, n in event.arrived.items()}))


@mutant(
    "a restored process does not know who had ended", crashes=2, ends_one_in=4, snapshots=8, activity=60, length=250
)
class RestoredWithoutEnds(Participant):
    def _restored(self, event: Restored):
        return super()._restored(replace(event, ended=frozenset()))


@mutant("a driver does not send again after a rollback", crashes=2, drivers=2)
class ForgetfulDriver(Driver):
    def _roll_back(self, back: SystemRolledBack):
        return super()._roll_back(back)[1:]


@mutant("a driver evicts all that is acknowledged", crashes=2, drivers=2)
class CarelessDriver(Driver):
    def _release(self, cut):
        numbers = {receiver: channel.acknowledged for receiver, channel in self._channels.items()}
        return super()._release(replace(cut, sent=numbers))


# Collecting ----------------------------------------------------------------------------------------


@mutant(
    "the cut equation does not ask for m <= n",
    (ChannelCut, "__post_init__", lambda self: None),
    (Process, "capture", capture_one_message_late),
    not_by="inconsistent",
)
class NoEquation(Collector):
    pass


cut_one = assembly._cut


def cut_without_a_gap(channel, sent, released, receiver):
    return cut_one(channel, sent, 0, receiver)


@mutant(
    "the collector does not see that messages lie with neither end",
    (assembly, "_cut", cut_without_a_gap),
    not_by="inconsistent",
)
class UntaggedAndNoGapCheck(Untagged):
    """While all keep the rules there is no gap to see: so here acknowledgements are not tagged."""


assemble = WorldCoordinator._assemble


def assemble_both_ends(self, cut):
    stored = assemble(self, cut)
    messages = dict(stored.messages)
    for channel_cut in cut.channels:
        channel = channel_cut.channel
        waiting = channel_cut.arrived - channel_cut.received
        mailbox = self.mailboxes[cut.snapshot].get(channel, ())[:waiting]
        messages[channel] = (*mailbox, *self.outboxes[cut.snapshot].get(channel, ()))
    return replace(stored, messages=messages)


def assemble_outboxes_only(self, cut):
    stored = assemble(self, cut)
    messages = {channel: self.outboxes[cut.snapshot].get(channel, ()) for channel in stored.messages}
    return replace(stored, messages=messages)


patched("what both ends hand in is stored twice", (WorldCoordinator, "_assemble", assemble_both_ends))
patched("only what senders hand in is stored", (WorldCoordinator, "_assemble", assemble_outboxes_only))


def members_with_records(members, records, ended):
    return set(members) & records.keys()


@mutant("a snapshot is stored with a record missing", (collector_module, "close_membership", members_with_records))
class RecordMissing(Collector):
    def _try_complete(self, snapshot):
        if collection := self._open.get(snapshot):
            collection.members &= collection.records.keys() | self._last_records.keys()
        return super()._try_complete(snapshot)


@mutant("a process that joins late is not told of open snapshots", **ISLANDS, creations_one_in=3)
class LateJoinersNotTold(Collector):
    def handle(self, event):
        effects = super().handle(event)
        return () if isinstance(event, ProcessJoined) else effects


@mutant("a record before its announcement is dropped", own_snapshots_one_in=5)
class RecordDropped(Collector):
    def _record_arrived(self, record):
        return super()._record_arrived(record) if record.snapshot in self._open else ()


@mutant("the last records of the ended are forgotten at once", ends_one_in=4)
class EndsForgotten(Collector):
    def _process_ended(self, record, unfinished):
        effects = super()._process_ended(record, unfinished)
        self._last_records.clear()
        return effects


@mutant("a last record stands in for a snapshot that was given up", ends_one_in=3, deadlines=5, snapshots=4)
class UnfinishedIgnored(Collector):
    def _process_ended(self, record, unfinished):
        return super()._process_ended(record, ())


@mutant("a last record is dropped while an older snapshot is open", ends_one_in=4, snapshots=5)
class SettledTooEarly(Collector):
    def _settle_ends(self, collection):
        super()._settle_ends(collection)
        for waits_for in self._settled.values():
            waits_for.clear()
        self._drop_last_records()


@mutant("every stored cut is taken to advance", snapshots=6, crashes=3, drivers=2, own_snapshots_one_in=4, length=400)
class AlwaysAdvances(Collector):
    def _make_cut(self, snapshot, records, channels):
        return replace(super()._make_cut(snapshot, records, channels), advances=True)


@mutant("an abort is announced although the snapshot is being stored", aborts=5, snapshots=4)
class AbortsWhileStoring(Collector):
    def _abort(self, snapshot, reason, detail):
        if collection := self._open.get(snapshot):
            collection.storing = None
        return super()._abort(snapshot, reason, detail)
