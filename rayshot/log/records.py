"""The records of the commit log, and their bytes: canonical msgpack maps, so that equal records are equal bytes.

Each record ends with a digest of the rest. Without it, one flipped bit could turn a record into another valid one, such
as a commit by an unknown writer. Readers skip those, so the snapshot would be gone without an error.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal, get_args

from rayshot.errors import BadManifest, FormatTooNew, LimitExceeded, RayshotError
from rayshot.format import canonical
from rayshot.format.bounds import (
    LABEL_LENGTH_MAX,
    check_count,
    check_digest,
    check_initiator,
    check_text,
    check_time,
)
from rayshot.format.chunks import digest
from rayshot.format.entries import OutsideMode
from rayshot.log.layout import copy_folder, manifest_name
from rayshot.protocol.identity import SnapshotId

RECORD_FORMAT = 5
_WITHOUT_DIGEST = 1
"""The format of records without a digest."""
_WITH_CAUSE = 3
"""From this format on an EPOCH says when and why it began."""
_WITH_ADVANCES = 4
"""From this format on a COMMIT says whether the cut advances, and there are ROLLBACK records."""
_WITH_OUTSIDE = 5
"""From this format on a RESTORE says what is to be done outside. A record that says nothing about it is of the format
before, so that an older rayshot reads it."""
_REFUSALS = (BadManifest, FormatTooNew, LimitExceeded)
RECORD_BYTES_MAX = 16 << 10
ORIGIN_LENGTH_MAX = 2048
DETAIL_LENGTH_MAX = 1024
Cause = Literal["begin", "restore", "takeover", "rollback"]
"""Why an EPOCH began: a new life; a life that somebody restored from a snapshot; a new coordinator for the same life; a
life that went back to a snapshot by itself."""


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """From this record on only `writer` may commit, in the life `incarnation` of the system.

    `began_at` counts Unix seconds by the writer's clock. An older rayshot wrote neither it nor `cause`: both are None.
    """

    position: int
    incarnation: int
    writer: str
    began_at: float | None = None
    cause: Cause | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackRecord(EpochRecord):
    """An EPOCH with the cause "rollback": the system began this life by itself, and it goes on from `snapshot`.

    It is one record, so that no coordinator can die between the new life and the choice of its snapshot. It changes
    nobody's ownership of the snapshot. `origin` is as in RestoreRecord. `actor` is the one that died, None if none did;
    `detail` says why the life before ended.
    """

    snapshot: SnapshotId
    origin: str | None
    actor: str | None
    detail: str


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """`snapshot` is committed. Its sealed manifest is stored under `manifest_key` and has the BLAKE3 `manifest_digest`.

    `manifest_key` is relative to the system's folder. `taken_at` counts Unix seconds. A snapshot with a `label` is a
    savepoint. `advances`: no process is before its place in an earlier stored snapshot of this life, see `Cut`; older
    versions did not say so, and then it is True.
    """

    position: int
    writer: str
    incarnation: int
    snapshot: SnapshotId
    manifest_key: str
    manifest_digest: str
    taken_at: float
    label: str | None = None
    advances: bool = True

    @property
    def sealed_for(self) -> int:
        """The log position that the manifest is bound to."""
        return self.position

    @property
    def folder(self) -> str:
        """The folder of its chunks, relative to the system's folder; empty for that folder itself."""
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRecord(CommitRecord):
    """`snapshot` was copied here, whole, from another log, where it was committed at position `origin_position`.

    The copy has a folder of its own, numbered by `attempt`. Attempts count from 0; each copy that fails or is deleted
    uses one up.
    """

    origin_position: int
    attempt: int

    @property
    def sealed_for(self) -> int:
        """See CommitRecord."""
        return self.origin_position

    @property
    def folder(self) -> str:
        """See CommitRecord."""
        return copy_folder(self.snapshot, self.attempt)


@dataclass(frozen=True, slots=True)
class DeleteRecord:
    """`snapshot` is deleted; garbage collection may remove its bytes."""

    position: int
    writer: str
    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class ExpireRecord:
    """`snapshot` took too long: its bytes may go, and neither a COMMIT of it nor this attempt of a copy counts."""

    position: int
    writer: str
    snapshot: SnapshotId


@dataclass(frozen=True, slots=True)
class RestoreRecord:
    """The present life was restored from `snapshot`.

    `origin` is the address of the storage that holds the snapshot, None for this storage. A snapshot that was not
    `claimed` belongs to its maker, and retention never deletes it.

    `outside` is what a person said of what is outside, see `OutsideTerms`. `takeover`: the life may take what another
    run has there.
    """

    position: int
    writer: str
    snapshot: SnapshotId
    origin: str | None
    claimed: bool
    outside: OutsideMode = "refuse"
    takeover: bool = False


Record = EpochRecord | CommitRecord | CopyRecord | DeleteRecord | ExpireRecord | RestoreRecord

_OF_OUTSIDE = {"outside", "takeover"}
_PLAIN: tuple[OutsideMode, bool] = ("refuse", False)
_KINDS: dict[str, type[Record]] = {
    "epoch": EpochRecord,
    "rollback": RollbackRecord,
    "commit": CommitRecord,
    "copy": CopyRecord,
    "delete": DeleteRecord,
    "expire": ExpireRecord,
    "restore": RestoreRecord,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def kind_of(record: Record) -> str:
    """The word for the record's kind in the log."""
    return _NAMES[type(record)]


def record_tree(record: Record) -> dict[str, Any]:
    """The fields of `record` as they are stored, without its digest."""
    fields: dict[str, Any] = {name: getattr(record, name) for name in record.__dataclass_fields__}
    if "snapshot" in fields:
        fields["snapshot"] = list(fields["snapshot"])
    is_plain = not isinstance(record, RestoreRecord) or (record.outside, record.takeover) == _PLAIN
    if is_plain:
        fields = {name: value for name, value in fields.items() if name not in _OF_OUTSIDE}
    return {"format": RECORD_FORMAT - is_plain, "kind": kind_of(record), **fields}


def encode_record(record: Record) -> bytes:
    """The bytes of `record`. A record that no reader could read would cost the whole log: it fails here."""
    data = canonical.pack(with_digest(record_tree(record)))
    assert decode_record(data, record.position) == record, f"{record} does not read back"
    return data


def with_digest(tree: dict[str, Any]) -> dict[str, Any]:
    """A tree with the digest of its bytes."""
    return {**tree, "digest": digest(canonical.pack(tree))}


def take_digest(tree: dict[str, Any], what: str, **evidence: object) -> None:
    """Remove the digest that `with_digest` added. Raises BadManifest if it does not fit."""
    if tree.pop("digest", None) != digest(canonical.pack(tree)):
        raise BadManifest(f"{what} was changed after it was written: its digest does not fit", **evidence)


def decode_record(data: bytes, position: int) -> Record:
    """Read the record at `position`. Raises BadManifest, LimitExceeded or FormatTooNew."""
    what = f"record {position} of the commit log"
    tree = canonical.unpack(data, what=what, bytes_max=RECORD_BYTES_MAX)
    try:
        version = _version_of(tree)
    except _REFUSALS as error:
        raise _of_record(position, error) from error
    if version > _WITHOUT_DIGEST:
        take_digest(tree, what, position=position)
    return record_of(tree, position)


def record_of(tree: Any, position: int) -> Record:
    """The record at `position` from its tree, without a digest. Raises BadManifest or FormatTooNew."""
    try:
        record = _build(tree)
        if record.position != position:
            raise BadManifest(f"it was written for position {record.position}", position=position)
    except _REFUSALS as error:
        raise _of_record(position, error) from error
    return record


def _of_record(position: int, error: RayshotError) -> RayshotError:
    """The error with the position in its text, which would take longer to make for each field than to check it."""
    return type(error)(f"record {position} of the commit log: {error.message}", **error.evidence)


def _version_of(tree: Any) -> int:
    if type(tree) is not dict:
        raise BadManifest("it is not a map")
    version = check_count(tree.get("format"), "its format", smallest=1)
    if version > RECORD_FORMAT:
        raise FormatTooNew(
            f"it has format {version} and this rayshot reads up to {RECORD_FORMAT}: install a newer one "
            "(pip install --upgrade rayshot)",
            format=version,
            supported=RECORD_FORMAT,
        )
    return version


def _build(tree: Any) -> Record:
    version = _version_of(tree)
    del tree["format"]
    name = tree.pop("kind", None)
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None or tree.keys() != (checks := _checks(name, version)).keys():
        raise BadManifest("it has an unknown kind, or not the fields of its kind")
    record = kind(**{field: check(tree[field], field) for field, check in checks.items()})
    if isinstance(record, EpochRecord) and isinstance(record, RollbackRecord) != (record.cause == "rollback"):
        raise BadManifest("its cause does not fit its kind")
    if isinstance(record, CommitRecord) and not _names_its_manifest(record):
        raise BadManifest("it names the manifest of another snapshot")
    return record


@cache
def _checks(kind: str, version: int) -> Mapping[str, Callable[[Any, str], Any]]:
    """The fields of this kind of record in that format, with their checks."""
    later = {"began_at", "cause"} if version < _WITH_CAUSE else set[str]()
    later |= {"advances"} if version < _WITH_ADVANCES else set()
    later |= _OF_OUTSIDE if version < _WITH_OUTSIDE else set()
    return {field: _CHECKS[field] for field in _KINDS[kind].__dataclass_fields__ if field not in later}


def _names_its_manifest(record: CommitRecord) -> bool:
    name = manifest_name(record.snapshot)
    if isinstance(record, CopyRecord):
        return record.manifest_key == f"{record.folder}/{name}"
    return record.manifest_key == name or record.manifest_key == manifest_name(record.snapshot, record.position)


check_life = partial(check_count, smallest=1)
"""Return the number of a life, or raise BadManifest or LimitExceeded."""


def _check_flag(value: Any, what: str) -> bool:
    if type(value) is not bool:
        raise BadManifest(f"{what} is not a bool")
    return value


def _check_outside(value: Any, what: str) -> Any:
    if value not in get_args(OutsideMode):
        raise BadManifest(f"{what} is unknown")
    return value


def _check_cause(value: Any, what: str) -> Any:
    if value is not None and value not in get_args(Cause):
        raise BadManifest(f"{what} is unknown")
    return value


def check_snapshot(value: Any, what: str) -> SnapshotId:
    """Return the id of a snapshot that `value` lists, or raise BadManifest or LimitExceeded."""
    if type(value) is not list or len(value) != len(SnapshotId._fields):
        raise BadManifest(f"{what} is not the id of a snapshot")
    incarnation, initiator, counter = value
    return SnapshotId(
        check_life(incarnation, "the life of a snapshot"),
        check_initiator(initiator),
        check_count(counter, "the counter of a snapshot", smallest=1),
    )


_CHECKS: Mapping[str, Callable[[Any, str], Any]] = {
    "position": check_count,
    "origin_position": check_count,
    "attempt": check_count,
    "incarnation": check_life,
    "writer": check_text,
    "snapshot": check_snapshot,
    "manifest_key": check_text,
    "manifest_digest": check_digest,
    "taken_at": check_time,
    "began_at": lambda value, what: None if value is None else check_time(value, what),
    "cause": _check_cause,
    "label": lambda value, what: None if value is None else check_text(value, what, LABEL_LENGTH_MAX),
    "origin": lambda value, what: None if value is None else check_text(value, what, ORIGIN_LENGTH_MAX),
    "actor": lambda value, what: None if value is None else check_text(value, what),
    "detail": lambda value, what: check_text(value, what, DETAIL_LENGTH_MAX),
    "claimed": _check_flag,
    "advances": _check_flag,
    "outside": _check_outside,
    "takeover": _check_flag,
}
"""How the value of each field is checked; the text is the name of the field, for errors."""
