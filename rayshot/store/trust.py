"""Whether a snapshot may be loaded: loading runs code that its bytes choose."""

from collections.abc import Iterable

from rayshot.errors import ConfigError
from rayshot.format.signing import Prover, verify
from rayshot.store.snapshot import Snapshot


def check_allow_unsigned(allow_unsigned: object) -> None:
    """Raise ConfigError for anything but True and False."""
    if not isinstance(allow_unsigned, bool):
        raise ConfigError(f"allow_unsigned={allow_unsigned!r}: leave it out, or say True")


def check_trust(snapshot: Snapshot, keys: Iterable[Prover], *, allow_unsigned: bool) -> None:
    """Raise Untrusted unless one of `keys` proves the signature, or `allow_unsigned` is True. Also ConfigError."""
    check_allow_unsigned(allow_unsigned)
    if not allow_unsigned:
        verify(snapshot.envelope, keys)
