"""Wrong versions of the machines. Each breaks one rule; the oracles must see it.

`changes` replace settings that a schedule drew, so that the broken rule is put to the test often.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

from rayshot.protocol import assembly
from rayshot.protocol import collector as collector_module
from rayshot.protocol.collector import Collector, ProcessJoined
from rayshot.protocol.cut import ChannelCut
from rayshot.protocol.driver import Driver, RolledBack
from rayshot.protocol.effects import DeliverBatch, KeepMessages, SendBatch
from rayshot.protocol.events import BatchArrived, DeadlinePassed, Restored, SnapshotEnded
from rayshot.protocol.participant import Participant
from rayshot.simulation.machines import Machines
from rayshot.simulation.process import Process


@dataclass(frozen=True)
class Mutant:
    """`patches` are (owner, attribute, wrong value), for what is no method of a machine."""

    name: str
    machines: Machines = field(default_factory=Machines)
    patches: tuple[tuple[Any, str, Any], ...] = ()
    changes: Mapping[str, Any] = field(default_factory=dict)
    not_by: str | None = None

    @contextmanager
    def at_work(self) -> Iterator[Machines]:
        with ExitStack() as stack:
            for owner, name, value in self.patches:
                stack.enter_context(mock.patch.object(owner, name, value))
            yield self.machines


MUTANTS: list[Mutant] = []


Patch = tuple[Any, str, Any]
ISLANDS = {  # drivers are the only way from one process to another, and the coordinator's news is slow
    "contacts": {"p0": (), "p1": (), "p2": ()},
    "drivers": 2,
    "snapshots": 5,
    "activity": 60,
    "slow": frozenset({"tell_process"}),
}


SLOW_CHANNELS = frozenset({"deliver", "take"})
ENDINGS = {"ends_one_in": 3, "snapshots": 6, "slow": frozenset({"tell_process", "deliver"})}
open_ends = assembly.open_ends


def mutant(name: str, *patches: Patch, not_by: str | None = None, **changes: Any) -> Callable[[type], type]:
    def register(machine: type) -> type:
        machines = Machines()
        for base in (Participant, Collector, Driver):
            if issubclass(machine, base):
                machines = replace(machines, **{base.__name__.lower(): machine})
        MUTANTS.append(Mutant(name, machines, patches, changes, not_by))
        return machine

    return register


def patched(name: str, *patches: Patch, **changes: Any) -> None:
    MUTANTS.append(Mutant(name, Machines(), patches, changes))


# Recording -----------------------------------------------------------------------------------------


@mutant("a message in flight is recorded in only one of two open snapshots")
class OnlyOne(Participant):
    def _deliver(self, sender, first, last):
        effects = super()._deliver(sender, first, last)
        keeps = [effect for effect in effects if isinstance(effect, KeepMessages)]
        return [effect for effect in effects if effect not in keeps[1:]]


@mutant("what waits in the mailbox is not recorded")
class NoMailbox(Participant):
    def _mailbox_ends(self, received, recorder):
        return {}


@mutant("a record counts what arrived behind the end that a marker named")
class MailboxBeyondMarker(Participant):
    def _mailbox_ends(self, received, recorder):
        return {sender: n for sender, n in self._arrived.items() if n > received.get(sender, 0)}


@mutant("the outbox is said to be transported, and lost")
class NoOutbox(Participant):
    def _make_record(self, captured, recorder):
        record = super()._make_record(captured, recorder)
        return replace(record, transported=record.sent)


def shift_markers(by: int) -> type[Participant]:
    def wrong(markers):
        return tuple(marker._replace(transported=max(0, marker.transported + by)) for marker in markers)

    class Shifted(Participant):
        def markers_due(self, receiver):
            return wrong(super().markers_due(receiver))

        def handle(self, event):
            return tuple(
                replace(effect, markers=wrong(effect.markers)) if isinstance(effect, SendBatch) else effect
                for effect in super().handle(event)
            )

    return Shifted


mutant("the marker's `transported` is one too low")(shift_markers(-1))
mutant("the marker's `transported` is one too high")(shift_markers(1))


@mutant("a recorder keeps messages only of the senders that it knew when it recorded")
class KnownSendersOnly(Participant):
    def _deliver(self, sender, first, last):
        effects = super()._deliver(sender, first, last)
        return [e for e in effects if not isinstance(e, KeepMessages) or sender in self._recorders[e.snapshot].reported]


capture = Process.capture


def capture_one_message_late(self):
    senders = self.next_senders()
    if senders:
        self.begin_handler(senders[0])
        while self.todo:
            self.go_on()
    capture(self)


def capture_state_of_another_moment(self):
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
        capture(self)


patched(
    "a message is processed between the news of a snapshot and the capture",
    (Process, "capture", capture_one_message_late),
)
patched("the captured state is one message late", (Process, "capture", capture_state_of_another_moment))


in_mailbox = Process._in_mailbox


def in_mailbox_reversed(self, sender, first, last):
    return in_mailbox(self, sender, first, last)[::-1]


patched("a channel is recorded in reverse", (Process, "_in_mailbox", in_mailbox_reversed))


# Closing -------------------------------------------------------------------------------------------


@mutant("a receiver ignores that a channel was closed")
class NeverReports(Participant):
    def _channels_closed(self, snapshot, ends):
        return ()


@mutant("a receiver reports a closed channel from what it had processed, not from what its record held")
class ReportsWhatTheRecordHeld(Participant):
    def _state_captured(self, captured):
        effects = super()._state_captured(captured)
        if recorder := self._recorders.get(captured.snapshot):
            recorder.reported = dict(captured.received)
        return effects


@mutant("a receiver reports a closed channel before the last message arrived")
class ReportsTooEarly(Participant):
    def _report_channel(self, snapshot, recorder, sender):
        end, arrived = recorder.ends[sender], self._arrived.get(sender, 0)
        if arrived < end and arrived > recorder.reported.get(sender, 0):
            recorder.ends[sender] = arrived
        return super()._report_channel(snapshot, recorder, sender)


@mutant("a receiver that was told twice of a closed channel reports it twice", duplicated_one_in=3)
class ReportsTwice(Participant):
    def _report_channel(self, snapshot, recorder, sender):
        before = recorder.reported.get(sender, 0)
        effects = super()._report_channel(snapshot, recorder, sender)
        recorder.reported[sender] = before
        return effects


@mutant("a recorder that was given up still reports closed channels", deadlines=5, snapshots=4, slow=SLOW_CHANNELS)
class AbandonedReports(Participant):
    def _abandon(self, snapshot):
        awaited = set(self.open_channels(snapshot))
        effects = super()._abandon(snapshot)
        if recorder := self._recorders.get(snapshot):
            recorder.awaited |= awaited
        return effects


@mutant("the collector closes no channel")
class NeverCloses(Collector):
    def _close_channels(self, snapshot, collection, ends):
        return ()


@mutant("the collector closes one channel of each receiver only")
class ClosesOne(Collector):
    def _close_channels(self, snapshot, collection, ends):
        effects = super()._close_channels(snapshot, collection, ends)
        return tuple(replace(effect, ends=dict(list(effect.ends.items())[:1])) for effect in effects)


def ends_at_sent(cuts, records, parts):
    ends = open_ends(cuts, records, {})
    sent = {cut.channel: cut.sent for cut in cuts}
    return {channel: sent[channel] for channel in ends if channel not in parts}


def no_ends_of_the_ended(cuts, records, parts):
    ends = open_ends(cuts, records, parts)
    return {
        channel: n for channel, n in ends.items() if channel.sender in records and not records[channel.sender].ended
    }


patched("the collector closes channels at what was sent", (collector_module, "open_ends", ends_at_sent))
patched(
    "the collector closes no channels of the ended", (collector_module, "open_ends", no_ends_of_the_ended), **ENDINGS
)


# Tags and markers ----------------------------------------------------------------------------------


@mutant("an acknowledgement of what was sent before the recording ends the markers")
class MarkersAcknowledgedByMessages(Participant):
    def _batch_acknowledged(self, receiver, last, snapshots):
        return super()._batch_acknowledged(receiver, last, self.open_snapshots)


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
    def _fix_channels(self, recorder):
        recorder.driver_limits.clear()
        return super()._fix_channels(recorder)


@mutant("a driver's repeated batch limits the cut below what was processed", drivers=2, lost_one_in=2, snapshots=4)
class LimitBelowArrived(Participant):
    def _heed(self, batch):
        effects = super()._heed(batch)
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
        return self._deliver(batch.sender, batch.first, batch.first + batch.count - 1) if batch.count else []


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


@mutant("a restored process does not know who had ended", crashes=3, ends_one_in=4, snapshots=5)
class RestoredWithoutEnds(Participant):
    def _restored(self, event: Restored):
        return super()._restored(replace(event, ended=frozenset()))


@mutant("a driver does not send again after a rollback", crashes=2, drivers=2)
class ForgetfulDriver(Driver):
    def _roll_back(self, back: RolledBack):
        return super()._roll_back(back)[1:]


@mutant("a driver lets go of all that is acknowledged", crashes=2, drivers=2)
class CarelessDriver(Driver):
    def _release(self, sent, ended):
        numbers = {receiver: channel.acknowledged for receiver, channel in self._channels.items()}
        return super()._release(numbers, ended)


# Collecting ----------------------------------------------------------------------------------------


@mutant(
    "the cut equation does not ask for m <= n",
    (ChannelCut, "check", lambda self: None),
    (Process, "capture", capture_one_message_late),
    not_by="inconsistent",
)
class NoEquation(Collector):
    pass


patched(
    "a snapshot is stored before all parts of channels are there",
    (collector_module, "open_ends", lambda cuts, records, parts: {}),
)


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
