"""The keys that sign manifests and prove signatures, and how each is written as a line of text.

    rayshot-ed25519-private:<64 hexadecimal digits>     signs; who holds it can also prove
    rayshot-ed25519-public:<64 hexadecimal digits>      proves and cannot sign, so it is not a secret
    anything else of 32 bytes and more                  a secret for HMAC-SHA256: who can prove can also sign

A line that begins like one of our keys but is malformed is refused. So is a line that holds one in quotes, behind a
comment or behind a byte order mark. Otherwise a mistyped public key would become an HMAC secret that everybody knows.
"""

import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Literal

from rayshot.errors import ConfigError
from rayshot.keys.files import key_id_of

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SECRET_BYTES_MIN = 32
SECRET_BYTES_MAX = 64 << 10
OURS = "rayshot-"
"""The start of all keys that are not plain secrets."""

_PRIVATE, _PUBLIC = "rayshot-ed25519-private:", "rayshot-ed25519-public:"
_MARKS = (b"rayshot-ed25519-", b"rayshot-encryption:")
_ED25519_DIGITS = re.compile(r"[0-9a-f]{64}")

Algorithm = Literal["hmac-sha256", "ed25519"]
SIGNATURE_BYTES: Mapping[str, int] = MappingProxyType({"hmac-sha256": 32, "ed25519": 64})


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A secret of SECRET_BYTES_MIN to SECRET_BYTES_MAX bytes for HMAC-SHA256, which never shows in a repr."""

    algorithm: ClassVar[Algorithm] = "hmac-sha256"
    secret: bytes = field(repr=False)
    key_id: str = field(init=False)

    def __post_init__(self) -> None:
        if not SECRET_BYTES_MIN <= len(self.secret) <= SECRET_BYTES_MAX:
            raise ConfigError(
                f"a signing key has {len(self.secret)} bytes; use {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX}: "
                "`rayshot keygen` makes one"
            )
        object.__setattr__(self, "key_id", key_id_of("signing", self.secret))

    @property
    def public(self) -> "SigningKey":
        """What proves its signatures: itself."""
        return self

    def sign(self, parts: Iterable[bytes]) -> bytes:
        """Sign the bytes of `parts`, joined."""
        code = hmac.new(self.secret, digestmod="sha256")
        for part in parts:
            code.update(part)
        return code.digest()

    def proves(self, signature: bytes, parts: Iterable[bytes]) -> bool:
        """Whether `signature` is that of the bytes of `parts`, joined."""
        return hmac.compare_digest(self.sign(parts), signature)


@dataclass(frozen=True)
class PublicKey:
    """The public half of an Ed25519 pair, 32 bytes. It proves signatures and cannot sign."""

    algorithm: ClassVar[Algorithm] = "ed25519"
    value: bytes = field(repr=False)

    @cached_property
    def key_id(self) -> str:
        """The name of the pair."""
        return key_id_of("ed25519", self.value)

    @property
    def public(self) -> "PublicKey":
        """Itself."""
        return self

    @property
    def text(self) -> str:
        """The line of text that `parse_key` reads."""
        return _PUBLIC + self.value.hex()

    def proves(self, signature: bytes, parts: Iterable[bytes]) -> bool:
        """Whether `signature` is that of the bytes of `parts`, joined."""
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - late: HMAC does without
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

        try:
            Ed25519PublicKey.from_public_bytes(self.value).verify(signature, b"".join(parts))
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True)
class PrivateKey:
    """The private half of an Ed25519 pair, 32 bytes, which never show in a repr."""

    algorithm: ClassVar[Algorithm] = "ed25519"
    secret: bytes = field(repr=False)

    @cached_property
    def public(self) -> PublicKey:
        """What proves its signatures."""
        return PublicKey(self._pair.public_key().public_bytes_raw())

    @property
    def key_id(self) -> str:
        """The name of the pair."""
        return self.public.key_id

    @property
    def text(self) -> str:
        """The line of text that `parse_key` reads."""
        return _PRIVATE + self.secret.hex()

    def sign(self, parts: Iterable[bytes]) -> bytes:
        """Sign the bytes of `parts`, joined."""
        return self._pair.sign(b"".join(parts))

    @property
    def _pair(self) -> "Ed25519PrivateKey":
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415 - as above

        return Ed25519PrivateKey.from_private_bytes(self.secret)


Signer = SigningKey | PrivateKey
Prover = SigningKey | PublicKey


def new_secret() -> str:
    """A new secret for HMAC-SHA256, as a string."""
    return secrets.token_hex(SECRET_BYTES_MIN)


def new_private_key() -> PrivateKey:
    """A new Ed25519 pair."""
    return PrivateKey(secrets.token_bytes(32))


def parse_key(line: bytes) -> SigningKey | PrivateKey | PublicKey:
    """The key in a line of text, without blanks around it. Raises ConfigError, which never repeats the key."""
    line = line.strip()
    text = line.lower()
    if not text.startswith(OURS.encode()):
        if any(mark in text for mark in _MARKS):
            raise ConfigError("a key must stand alone: leave out quotes, comments and other keys")
        return SigningKey(line)
    for prefix, kind in ((_PRIVATE, PrivateKey), (_PUBLIC, PublicKey)):
        digits = line.removeprefix(prefix.encode()).decode("ascii", "replace")
        if line.startswith(prefix.encode()) and _ED25519_DIGITS.fullmatch(digits):
            return kind(bytes.fromhex(digits))
    raise ConfigError(
        f"a key that begins with {OURS!r} is {_PRIVATE} or {_PUBLIC} and 64 hexadecimal "
        "digits, as `rayshot keygen --algorithm ed25519` writes them"
    )
