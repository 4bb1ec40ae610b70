"""Proves a snapshot from its bytes, check by check."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol, TypeVar

from rayshot.errors import (
    BadSignature,
    ConfigError,
    CorruptChunk,
    Damaged,
    Incompatible,
    MissingChunk,
    RayshotError,
    SnapshotMismatch,
    UnknownKey,
    Unsigned,
)
from rayshot.format.entries import Chunk
from rayshot.format.envelope import Envelope, verify
from rayshot.format.manifest import Manifest
from rayshot.keys.signing import Prover
from rayshot.log.layout import chunk_folder, inside
from rayshot.places.store import Store
from rayshot.snapshots.channel_state import ChannelState
from rayshot.snapshots.chunk_reader import ChunkReader
from rayshot.snapshots.outside import ActorFolder
from rayshot.snapshots.state import read_captured

PARTS_MAX = 1_000_000
Progress = Callable[[int], None]
"""Called for each chunk and each part of an outside file that was read, with its stored bytes."""


class _Digested(Protocol):
    @property
    def digest(self) -> str: ...


D = TypeVar("D", bound=_Digested)


class Trust(Enum):
    """Whether a trusted key signed a snapshot. Reading needs none; restoring executes, so it needs TRUSTED."""

    TRUSTED = "trusted"
    UNSIGNED = "unsigned"
    UNKNOWN_KEY = "unknown key"
    BAD_SIGNATURE = "bad signature"
    UNREADABLE = "unreadable"
    """The manifest cannot be read, so no signature can be checked."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check. `detail` says what it proved, or, if there is an `error`, what is wrong.

    `unseen` says what it could not look at from here, which is no error; empty if it saw all.
    """

    name: str
    detail: str
    error: RayshotError | None = None
    unseen: str = ""

    @property
    def ok(self) -> bool:
        """Whether the check passed."""
        return self.error is None


@dataclass(frozen=True, slots=True)
class Verification:
    """The outcome of all checks, and whether a trusted key signed the snapshot (`trust_detail` in a sentence)."""

    checks: tuple[Check, ...]
    trust: Trust
    trust_detail: str

    @property
    def sound(self) -> bool:
        """Whether every check passed: the bytes are whole and the cut is consistent."""
        return all(check.ok for check in self.checks)

    @property
    def trusted(self) -> bool:
        """Whether a trusted key signed it."""
        return self.trust is Trust.TRUSTED

    def require_sound(self) -> None:
        """Raise the error of the first check that failed."""
        for check in self.checks:
            if check.error is not None:
                raise check.error


@dataclass(frozen=True, slots=True)
class Portion:
    """Part `number` of `count` parts of a snapshot's chunks and files, counted from 1. The digest decides the part.

    So all parts together are all of them, in every process and at every time.
    """

    number: int
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count <= PARTS_MAX:
            raise ConfigError(f"part {self.number} of {self.count}: give n/t with 1 <= n <= t <= {PARTS_MAX:,}")

    def of(self, several: Iterable[D]) -> list[D]:
        """The chunks or files of this part, in their order."""
        return [one for one in several if int(one.digest[:16], 16) % self.count == self.number - 1]


WHOLE = Portion(1, 1)


def examine(
    manifest: Manifest,
    channels: Iterable[ChannelState],
    reader: ChunkReader,
    folders: Sequence[ActorFolder],
    progress: Progress = lambda _size: None,
) -> tuple[Check, ...]:
    """Check the chunks, cut equation and states of a manifest. It raises StoreErrors, and returns damage."""
    several = tuple(channels)
    return (
        run_check("chunks", lambda: _chunks(manifest.chunks, reader, progress)),
        run_check("cut", lambda: _cut(several)),
        run_check("states", lambda: _states(manifest, reader)),
        *_check_outside(manifest, folders, WHOLE, progress),
    )


def survey(
    manifest: Manifest,
    store: Store,
    folder: str,
    reader: ChunkReader,
    folders: Sequence[ActorFolder],
    part: Portion | None,
    progress: Progress,
    *,
    reads_files: bool,
) -> list[Check]:
    """Check without reading all data: presence and sizes in `folder` by a listing, the cut by its counters.

    It reads the chunks of a `part` and compares them with their digests; outside files of it, if it `reads_files`.
    """
    checks = [
        run_check("presence", lambda: _presence(manifest, store, folder)),
        run_check("cut", lambda: _counters(manifest)),
    ]
    if part is not None:
        chosen = part.of(manifest.chunks)
        checks.append(run_check(f"part {part.number} of {part.count}", lambda: _chunks(chosen, reader, progress)))
    return [*checks, *_check_outside(manifest, folders, part if reads_files else None, progress)]


def run_check(name: str, prove: Callable[[], str]) -> Check:
    """The Check for the result of `prove`, or for the damage that it raises."""
    try:
        return Check(name, prove())
    except (Damaged, Incompatible, SnapshotMismatch) as error:
        return Check(name, error.message, error)


def examine_trust(envelope: Envelope, keys: Sequence[Prover]) -> tuple[Trust, str]:
    """Find out which of the given keys signed a manifest."""
    try:
        key = verify(envelope, keys)
    except Unsigned as error:
        return Trust.UNSIGNED, error.message
    except UnknownKey as error:
        return Trust.UNKNOWN_KEY, error.message
    except BadSignature as error:
        return Trust.BAD_SIGNATURE, error.message
    return Trust.TRUSTED, f"signed with the key {key.key_id}, which this reader trusts"


def _chunks(chunks: Sequence[Chunk], reader: ChunkReader, progress: Progress) -> str:
    for chunk in chunks:
        reader.chunk(chunk.digest)
        progress(chunk.stored_size)
    size = sum(chunk.size for chunk in chunks)
    return f"{_count(len(chunks), 'chunk')} with {_count(size, 'byte')} fit their digests"


def _presence(manifest: Manifest, store: Store, folder: str) -> str:
    awaited = {inside(folder, chunk.key): chunk.stored_size for chunk in manifest.chunks}
    for entry in store.list(chunk_folder(folder)):
        size = awaited.pop(entry.key, None)
        if size is not None and size != entry.size:
            raise CorruptChunk(f"{entry.key} has {entry.size:,} bytes instead of {size:,}", key=entry.key)
    if awaited:
        raise MissingChunk(
            f"{_count(len(awaited), 'chunk')} of {len(manifest.chunks):,} not there, the first one {min(awaited)}",
            keys=sorted(awaited),
        )
    stored = sum(chunk.stored_size for chunk in manifest.chunks)
    return f"{_count(len(manifest.chunks), 'chunk')} with {_count(stored, 'stored byte')} are there, unread"


def _counters(manifest: Manifest) -> str:
    """Name the counters; decoding the manifest has checked that they fit."""
    in_flight = sum(channel.sent - channel.received for channel in manifest.channels)
    return (
        f"on {_count(len(manifest.channels), 'channel')} received <= sent, and the messages between have bytes: "
        f"{in_flight:,} in flight"
    )


def _cut(channels: Sequence[ChannelState]) -> str:
    for channel in channels:
        channel.check()
    in_flight = sum(channel.count for channel in channels)
    return (
        f"on {_count(len(channels), 'channel')} exactly the messages sent and not received are there: "
        f"{in_flight:,} in flight"
    )


def _states(manifest: Manifest, reader: ChunkReader) -> str:
    states = [actor.state for actor in manifest.actors if actor.state is not None]
    for state in states:
        read_captured(state, reader)
    return f"{_count(len(states), 'state')} can be read"


def _check_outside(
    manifest: Manifest, folders: Sequence[ActorFolder], part: Portion | None, progress: Progress
) -> list[Check]:
    """Compare outside files with the manifest, those that can be seen; nothing if the snapshot has none."""
    if not folders:
        return []
    filled = [folder for folder in folders if folder.files]
    seen = {folder.root: folder.is_seen for folder in filled}
    there = [folder for folder in filled if seen[folder.root]]
    check = run_check("outside", lambda: _outside(manifest, len(folders), there, part, progress))
    unseen = [
        f"{_files([folder for folder in filled if folder.root == root])}, as nothing is in {root} from here"
        for root, is_seen in seen.items()
        if not is_seen
    ]
    return [replace(check, unseen="; ".join(unseen))]


def _outside(
    manifest: Manifest, payloads: int, folders: Sequence[ActorFolder], part: Portion | None, progress: Progress
) -> str:
    proved = 0
    for folder in folders:
        chosen = [] if part is None else part.of(folder.files)
        folder.verify(chosen, progress)
        proved += len(chosen)
    if not folders:
        return _count(payloads, "payload")
    how = "unread" if part is None else f"{proved:,} of them read and fit their digests"
    plain = ", plain: not encrypted" if manifest.data_key is not None else ""
    return f"{_count(payloads, 'payload')}; {_files(folders)} are there, {how}{plain}"


def _files(folders: Sequence[ActorFolder]) -> str:
    size = sum(folder.size_bytes for folder in folders)
    return f"{_count(sum(len(folder.files) for folder in folders), 'file')} with {_count(size, 'byte')}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
