"""The full proof of one snapshot."""

from collections.abc import Callable, Iterable, Sequence

from rayshot.audit.computation import Computation
from rayshot.audit.document import Document
from rayshot.audit.equation import check_alignment, check_equation
from rayshot.audit.findings import Finding, Findings, NoTrace
from rayshot.audit.history import Traced, forget_strangers, from_common_cut, join
from rayshot.audit.questions import check_questions
from rayshot.audit.replay import replay_all
from rayshot.audit.segment import Segment, read_segment
from rayshot.errors import Damaged, EncryptionKeyNeeded, Incompatible, NotFound, StoreError
from rayshot.format.envelope import verify
from rayshot.keys.signing import Prover
from rayshot.snapshots.snapshot import Snapshot

NEIGHBOURS = 4
"""This many snapshots before and after are first read for their traces; twice as many each time, if needed."""
NEIGHBOURS_MAX = 256
UNTRACED = "not traced: rayshot.init(..., trace=True) lets actors write down what they do"


def prove(
    snapshot: Snapshot,
    others: Iterable[Snapshot] = (),
    *,
    replay: bool = False,
    keys: Sequence[Prover] | None = None,
) -> Findings:
    """Prove a snapshot from its bytes and, if its system was traced, from what its actors wrote down.

    Args:
        snapshot: the snapshot to prove.
        others: snapshots of the same system, in which to look for the rest of the trace.
        replay: run deterministic classes again on the kept messages, and compare their states. This executes what the
            snapshots hold, so one of `keys` must have signed each snapshot that is used.
        keys: the keys to trust; None means that signatures are not checked: only for bytes whose history you know.

    Returns the findings; damage is reported, not raised. Raises Untrusted and StoreError.
    """
    findings: list[Finding] = []
    try:
        document = _document_of(snapshot)
    except Damaged as error:
        return Findings((Finding("cut equation", holds=False, detail=error.message),))
    findings.append(_judge("cut equation", lambda: check_equation(document)))
    if any(channel.aligned for channel in document.channels):
        findings.append(_judge("alignment", lambda: check_alignment(document)))
    if all(finding.holds for finding in findings):
        asked = _judge("questions", lambda: check_questions(document, snapshot))
        if asked.detail:
            findings.append(asked)
    known = list(others)
    try:
        traced = trace_of(snapshot, known)
        computation = Computation(traced.histories)
    except NoTrace as reason:
        return Findings((*findings, Finding("trace", holds=None, detail=str(reason))))
    except Damaged as error:
        return Findings((*findings, Finding("trace", holds=False, detail=error.message)))
    findings.append(_judge("vector clocks", lambda: computation.check_clocks(document)))
    findings.append(_judge("theorem 1", lambda: computation.check_theorem_1(document)))
    if replay and all(finding.holds for finding in findings):
        used = [snapshot, *(one for one in known if str(one.id) == traced.base or one in traced.near)]
        for one in used if keys is not None else ():
            verify(one.envelope, keys or ())
        findings.append(_judge("replay", lambda: replay_all(document, traced, snapshot, used)))
    return Findings(tuple(findings))


def trace_of(snapshot: Snapshot, others: Sequence[Snapshot]) -> Traced:
    """What the actors of a snapshot did, from this snapshot and those near it. Raises NoTrace and Damaged.

    If many snapshots overlap, the nearest ones may have no cut in common: then further ones are read.
    """
    document = _document_of(snapshot)
    if document.actors and not document.traces:
        raise NoTrace(UNTRACED)
    segments = _segments(document)
    ended = {document.snapshot: document.ended}
    before, after = _neighbours(snapshot, others)
    at_hand = {str(one.id) for one in others}
    near: list[Snapshot] = []
    read, reach = 0, NEIGHBOURS
    while True:
        for one in (*before[read:reach], *after[read:reach]):
            try:
                beside = _document_of(one)
                segments += _segments(beside)
            except (Damaged, Incompatible, StoreError, NotFound, NoTrace, EncryptionKeyNeeded):
                continue  # this snapshot is not the one to be proved
            ended[beside.snapshot] = beside.ended
            near.append(one)
        histories = join(segments, document.snapshot)
        born = [name for name, actor in document.actors.items() if actor.born]
        forget_strangers(histories, {*born, *document.ended})
        recorders = [*born, *(name for name in document.actors if name in histories and name not in born)]
        try:
            base = from_common_cut(histories, document.snapshot, recorders, ended, at_hand)
        except NoTrace:
            if reach >= min(NEIGHBOURS_MAX, max(len(before), len(after))):
                raise
            read, reach = reach, 2 * reach
            continue
        return Traced(histories, base, near)


def _segments(document: Document) -> list[Segment]:
    return [read_segment(actor, document.bytes_of(spans)) for actor, spans in document.traces.items()]


def _neighbours(snapshot: Snapshot, others: Iterable[Snapshot]) -> tuple[list[Snapshot], list[Snapshot]]:
    """The snapshots of the same life before and after this one, the nearest ones first."""
    same = sorted(
        (one for one in others if one.id.incarnation == snapshot.id.incarnation and one.id != snapshot.id),
        key=lambda one: one.record.sealed_for,
    )
    before = [one for one in same if one.record.sealed_for < snapshot.record.sealed_for]
    after = [one for one in same if one.record.sealed_for > snapshot.record.sealed_for]
    return before[::-1], after


def _document_of(snapshot: Snapshot) -> Document:
    return Document(snapshot.document, snapshot.read_stored)


def _judge(name: str, check: Callable[[], str | None]) -> Finding:
    try:
        detail = check()
    except (NoTrace, Incompatible) as reason:
        return Finding(name, holds=None, detail=str(reason))
    except Damaged as error:
        return Finding(name, holds=False, detail=error.message)
    return Finding(name, holds=True, detail=detail or "")
