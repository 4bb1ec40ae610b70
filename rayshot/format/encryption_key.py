"""Encryption keys: a data key for each snapshot, wrapped by a key-encryption key that people keep.

A line of text with a key-encryption key is `rayshot-encryption:` and 64 hexadecimal digits. In KEY_VARIABLE, or the
file that KEY_VARIABLE_FILE names, the key of the first line encrypts new snapshots; all keys decrypt. To rotate a key,
put a new one above it. Remove a key when the last snapshot that needs it is gone.
"""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from blake3 import blake3

from rayshot.errors import BadManifest, ConfigError
from rayshot.format.derivation import OVERHEAD_BYTES, derive
from rayshot.format.key_files import given, key_id_of, lines_of

if TYPE_CHECKING:
    from rayshot.format.cipher import Cipher

KEY_VARIABLE = "RAYSHOT_ENCRYPTION_KEY"
KEY_BYTES = 32
WRAPPED_BYTES = KEY_BYTES + OVERHEAD_BYTES
_PREFIX = "rayshot-encryption:"
_DIGITS = re.compile(rf"[0-9a-f]{{{2 * KEY_BYTES}}}")


@dataclass(frozen=True)
class DataKey:
    """Encrypts the chunks and the manifest of one snapshot: 32 random bytes that no repr shows.

    It is made with the snapshot and is stored only wrapped.
    """

    secret: bytes = field(repr=False)

    def __getstate__(self) -> dict[str, bytes]:
        return {"secret": self.secret}  # ciphers are made anew where it arrives

    @cached_property
    def chunks(self) -> "Cipher":
        """For chunks."""
        return _cipher(self.secret, "chunk")

    @cached_property
    def manifest(self) -> "Cipher":
        """For the manifest."""
        return _cipher(self.secret, "manifest")

    def chunk_name(self, digest: str) -> str:
        """The name of the chunk with this digest: 64 digits that tell nothing without the key."""
        return blake3(bytes.fromhex(digest), key=self._name_key).hexdigest()

    @cached_property
    def _name_key(self) -> bytes:
        return derive(self.secret, "rayshot 1 chunk name")


@dataclass(frozen=True)
class EncryptionKey:
    """A key-encryption key: 32 bytes that no repr shows."""

    secret: bytes = field(repr=False)

    def __getstate__(self) -> dict[str, bytes]:
        return {"secret": self.secret}

    @cached_property
    def key_id(self) -> str:
        """The key's name in snapshots. It tells nothing about the key."""
        return key_id_of("encryption", self.secret)

    @property
    def text(self) -> str:
        """The key as a line of text."""
        return _PREFIX + self.secret.hex()

    def wrap(self, key: DataKey) -> bytes:
        """`key` encrypted, as WRAPPED_BYTES bytes."""
        return self._cipher.encrypt(key.secret, b"")

    def unwrap(self, wrapped: bytes) -> DataKey:
        """The data key in the bytes that `wrap` returned. Raises BadManifest for other bytes."""
        secret = self._cipher.decrypt(wrapped, b"") if len(wrapped) == WRAPPED_BYTES else None
        if secret is None:
            raise BadManifest(
                f"the key {self.key_id} does not decrypt a data key, though the manifest names it: "
                "the manifest was changed"
            )
        return DataKey(secret)

    @cached_property
    def _cipher(self) -> "Cipher":
        return _cipher(self.secret, "data key")


def new_data_key() -> DataKey:
    """A random key for one new snapshot."""
    return DataKey(secrets.token_bytes(KEY_BYTES))


def new_encryption_key() -> EncryptionKey:
    """A random key for a person to keep."""
    return EncryptionKey(secrets.token_bytes(KEY_BYTES))


def find_encryption_keys() -> tuple[EncryptionKey, ...]:
    """The keys in this process's environment, the encrypting one first; none if none is set.

    Raises ConfigError for a malformed key; the message never repeats it.
    """
    found = given(KEY_VARIABLE)
    return () if found is None else parse_encryption_keys(*found)


def parse_encryption_keys(text: bytes, source: str) -> tuple[EncryptionKey, ...]:
    """The keys in `text`, one a line. Errors name the `source`. Raises ConfigError."""
    lines = [line.decode("ascii", "replace") for line in lines_of(text, source)]
    for line in lines:
        if not line.startswith(_PREFIX) or not _DIGITS.fullmatch(line.removeprefix(_PREFIX)):
            raise ConfigError(
                f"{source}: an encryption key is a line of {_PREFIX} and {2 * KEY_BYTES} hexadecimal digits, as "
                "`rayshot keygen --encryption` writes it"
            )
    if not lines:
        raise ConfigError(f"{source} holds no encryption key; unset it to write without encryption")
    return tuple(dict.fromkeys(EncryptionKey(bytes.fromhex(line.removeprefix(_PREFIX))) for line in lines))


def key_with(key_id: str, keys: Sequence[EncryptionKey]) -> EncryptionKey | None:
    """The key with this id, or None."""
    return next((key for key in keys if key.key_id == key_id), None)


def _cipher(secret: bytes, purpose: str) -> "Cipher":
    from rayshot.format.cipher import Cipher  # noqa: PLC0415 - every actor imports this module; few encrypt

    return Cipher(secret, purpose)
