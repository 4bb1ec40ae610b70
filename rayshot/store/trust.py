"""Whether a snapshot may be loaded: loading runs code that its bytes choose."""

from collections.abc import Iterable

from rayshot.errors import ConfigError
from rayshot.format.signing import Prover, verify
from rayshot.store.snapshot import Snapshot

UNSIGNED = "unsigned"


def check_trust_word(trust: str | None) -> None:
    """Raise ConfigError unless `trust` is None, or "unsigned" to load what nobody trusted vouches for."""
    if trust not in (None, UNSIGNED):
        raise ConfigError(f"trust={trust!r}: leave it out, or say {UNSIGNED!r}")


def check_trust(snapshot: Snapshot, keys: Iterable[Prover], trust: str | None) -> None:
    """Raise Untrusted unless one of `keys` proves this snapshot's signature, or `trust` says that none needs to."""
    check_trust_word(trust)
    if trust != UNSIGNED:
        verify(snapshot.envelope, keys)
