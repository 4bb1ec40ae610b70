"""Facts for a participant or a driver that stands alone, as tests tell them, and what follows from them."""

from rayshot.protocol.driver_events import AnswerArrived
from rayshot.protocol.effects import ReportRecord
from rayshot.protocol.events import BatchAcknowledged, BatchArrived, BatchTaken, ReceiverReady, StateCaptured
from rayshot.protocol.identity import SnapshotId

FIRST = SnapshotId(1, "coordinator", 1)


def answered(receiver, number, incarnation=1):
    """A driver got the answer to this message."""
    return AnswerArrived((), receiver, number, incarnation)


def arrives(machine, first, count, *, sender="p", incarnation=1, markers=(), tags=(), closing=False):
    return machine.handle(BatchArrived(sender, incarnation, first, count, markers, tags, closing))


def captured(machine, snapshot=FIRST, sent=None, received=None, *, born=True):
    return machine.handle(StateCaptured(snapshot, born, sent or {}, received or {}))


def acknowledged(machine, last, *recorded, receiver="r", markers=()):
    return machine.handle(BatchAcknowledged(receiver, last, markers, recorded))


def record_of(effects):
    (record,) = [effect.record for effect in effects if isinstance(effect, ReportRecord)]
    return record


def connected(machine, receiver="r", sent=0):
    """The receiver said hello; so many messages are sent and acknowledged."""
    machine.handle(ReceiverReady(receiver))
    if sent:
        machine.handle(BatchTaken(receiver, sent))
        machine.handle(BatchAcknowledged(receiver, sent))
