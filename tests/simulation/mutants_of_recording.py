"""Mutants of what is recorded, when, how often, and of what a restore makes of it."""

from dataclasses import replace
from unittest import mock

from rayshot.protocol import collector as collector_module
from rayshot.protocol.collector import Collector
from rayshot.protocol.effects import SendBatch
from rayshot.protocol.events import StateCaptured
from rayshot.protocol.identity import ALIGNED, is_driver
from rayshot.protocol.participant import Participant
from rayshot.protocol.tombstones import Tombstones
from rayshot.simulation.bodies.account_process import AccountProcess
from rayshot.simulation.world.process import Process
from tests.simulate.settings import Slow
from tests.simulation.mutation import mutant, patched

LATE_NEWS = {"slow": frozenset({Slow.TELL_PROCESS}), "activity": 30}


@mutant("a message in flight is recorded in only one of two open snapshots", snapshots=3, crowded=True)
class RecordedOnce(Participant):
    def _make_record(self, captured, recorder):
        record = super()._make_record(captured, recorder)
        seen = getattr(self, "seen", {}) if record.overlaps else {}
        fresh = {sender: n for sender, n in record.arrived.items() if n > seen.get(sender, 0)}
        self.seen = {**seen, **record.arrived}
        return replace(record, arrived=fresh)


@mutant("data goes ahead of the marker that it should carry", **LATE_NEWS)
class MarkerOvertaken(Participant):
    def handle(self, event):
        effects = super().handle(event)
        return tuple(replace(e, markers=()) if isinstance(e, SendBatch) and e.count else e for e in effects)


@mutant("tags end when the sender's own channels are closed", **LATE_NEWS)
class TagsEndWithOwnChannels(Participant):
    def handle(self, event):
        effects = super().handle(event)
        senders = {sender for sender in self._arrived if sender != self.name and not is_driver(sender)}
        closed = [k for k, r in self._recorders.items() if r.recorded and senders <= r.ends.keys()]
        for channel in self._out.values():
            for snapshot in closed:
                channel.due.pop(snapshot, None)
        return effects


@mutant("messages on channels that lead back are not recorded", aligned=3, alignment_timeouts=0)
class BackEdgesNotRecorded(Participant):
    def _make_record(self, captured, recorder):
        record = super()._make_record(captured, recorder)
        if captured.snapshot.mode != ALIGNED:
            return record
        inputs = recorder.inputs or ()
        return replace(record, arrived={s: n for s, n in record.arrived.items() if s in inputs or is_driver(s)})


@mutant("it is forgotten that a snapshot has ended", duplicated_one_in=2, **LATE_NEWS)
class NoTombstones(Participant):
    def handle(self, event):
        self._tombstones = Tombstones()
        return super().handle(event)


@mutant("the end of a snapshot does not free what is kept for it", restored=False)
class NeverForgotten(Participant):
    def _forget(self, snapshot):
        return ()


def members_only(members, records, ended):
    return set(members)


@mutant(
    "a snapshot is complete when those who were there at its beginning have recorded",
    (collector_module, "close_membership", members_only),
    creations_one_in=2,
    **LATE_NEWS,
)
class CompleteByItself(Collector):
    """Nobody looks for those whom the records prove to lie inside the cut as well."""


begin_handler, content, capture = AccountProcess.begin_handler, Process._content, Process.capture
load, next_senders = Process.load, Process.next_senders


def begin_handler_and_remember(self, sender):
    self.before = self.account and self.account.copy()
    begin_handler(self, sender)


def content_of_before(self, record):
    recorded, before = content(self, record), getattr(self, "before", None)
    return replace(recorded, state=before) if recorded.state and before else recorded


patched(
    "the captured state is one message early",
    (AccountProcess, "begin_handler", begin_handler_and_remember),
    (Process, "_content", content_of_before),
)


def capture_again_later(self, snapshot):
    if not self.world.capture_fails():
        capture(self, snapshot)
        return
    del self.captures[snapshot]
    self.world.captured(self, snapshot)
    with mock.patch.object(self, "_content", lambda record: replace(content(self, record), state=self.account)):
        self.tell(StateCaptured(snapshot, self.account is not None, dict(self.sent), dict(self.received)))


patched(
    "a capture that failed is repeated later under the same id",
    (Process, "capture", capture_again_later),
    capture_failures_one_in=3,
    activity=30,
)


def load_and_hold_back(self, restored):
    load(self, replace(restored, mailbox={}))
    self.held_back = dict(restored.mailbox)


def next_senders_before_the_restored(self):
    if not any(self.mailbox.values()):
        for sender, messages in getattr(self, "held_back", {}).items():
            self.mailbox[sender] += messages
        self.held_back = {}
    return next_senders(self)


patched(
    "restored messages are delivered after new ones",
    (Process, "load", load_and_hold_back),
    (Process, "next_senders", next_senders_before_the_restored),
    crashes=2,
    snapshots=3,
    length=200,
    activity=60,
    slow=frozenset({Slow.WORK, Slow.RESUME}),
)
