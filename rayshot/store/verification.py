"""What can be proved about a snapshot from its bytes, check by check."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from rayshot.errors import BadSignature, BindingMismatch, Damaged, Incompatible, RayshotError, UnknownKey, Unsigned
from rayshot.format.manifest import Manifest
from rayshot.format.signing import Envelope, Prover, verify
from rayshot.store.channel_state import ChannelState
from rayshot.store.chunk_reader import ChunkReader
from rayshot.store.state import read_captured


class Trust(Enum):
    """Who vouches for a snapshot. Reading needs nobody; restoring executes, so it needs TRUSTED."""

    TRUSTED = "trusted"
    UNSIGNED = "unsigned"
    UNKNOWN_KEY = "unknown key"
    BAD_SIGNATURE = "bad signature"
    UNREADABLE = "unreadable"
    """The manifest cannot be read, so nobody can vouch for it."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at: `detail` says what was proved, or what is wrong where there is an `error`."""

    name: str
    detail: str
    error: RayshotError | None = None

    @property
    def ok(self) -> bool:
        """Whether it was proved."""
        return self.error is None


@dataclass(frozen=True, slots=True)
class Verification:
    """The outcome of all checks, and who vouches for the snapshot (`trust_detail` in a sentence)."""

    checks: tuple[Check, ...]
    trust: Trust
    trust_detail: str

    @property
    def sound(self) -> bool:
        """Whether every check passed: the bytes are whole and the cut is consistent."""
        return all(check.ok for check in self.checks)

    @property
    def trusted(self) -> bool:
        """Whether a key at hand signed it."""
        return self.trust is Trust.TRUSTED

    def require_sound(self) -> None:
        """Raise the error of the first check that failed."""
        for check in self.checks:
            if check.error is not None:
                raise check.error


def examine(manifest: Manifest, channels: Iterable[ChannelState], reader: ChunkReader) -> tuple[Check, ...]:
    """Check chunks, cut equation and states of a manifest that was read; StoreErrors are raised, damage is not."""
    several = tuple(channels)
    return (
        run_check("chunks", lambda: _chunks(manifest, reader)),
        run_check("cut", lambda: _cut(several)),
        run_check("states", lambda: _states(manifest, reader)),
    )


def run_check(name: str, prove: Callable[[], str]) -> Check:
    """Turn what `prove` returns, or the damage that it meets, into a Check."""
    try:
        return Check(name, prove())
    except (Damaged, Incompatible, BindingMismatch) as error:
        return Check(name, error.message, error)


def examine_trust(envelope: Envelope, keys: Sequence[Prover]) -> tuple[Trust, str]:
    """Find out who vouches for a manifest, given the keys at hand."""
    try:
        key = verify(envelope, keys)
    except Unsigned as error:
        return Trust.UNSIGNED, error.message
    except UnknownKey as error:
        return Trust.UNKNOWN_KEY, error.message
    except BadSignature as error:
        return Trust.BAD_SIGNATURE, error.message
    return Trust.TRUSTED, f"signed with the key {key.key_id}, which is at hand"


def _chunks(manifest: Manifest, reader: ChunkReader) -> str:
    for chunk in manifest.chunks:
        reader.chunk(chunk.digest)
    size = sum(chunk.size for chunk in manifest.chunks)
    return f"{_count(len(manifest.chunks), 'chunk')} with {_count(size, 'byte')} fit their digests"


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


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
