"""Whether a snapshot may be loaded: loading runs code that its bytes choose."""

from rayshot.errors import ConfigError
from rayshot.format.signing import SigningKey, verify
from rayshot.store.snapshot import Snapshot

UNSIGNED = "unsigned"


def check_trust_word(trust: str | None) -> None:
    """Raise ConfigError unless `trust` is None, or "unsigned" to load what nobody trusted vouches for."""
    if trust not in (None, UNSIGNED):
        raise ConfigError(f"trust={trust!r}: leave it out, or say {UNSIGNED!r}")


def check_trust(snapshot: Snapshot, key: SigningKey | None, trust: str | None) -> None:
    """Raise Untrusted unless `key` signed exactly this snapshot, or `trust` says that nobody needs to have."""
    check_trust_word(trust)
    if trust != UNSIGNED:
        verify(snapshot.envelope, [key] if key is not None else [])
