"""The keys that keep snapshots secret: one for the data of each snapshot, wrapped by one that people keep.

A line of text with a key-encryption key is `rayshot-encryption:` and 64 hexadecimal digits. In KEY_VARIABLE, or the
file that KEY_VARIABLE_FILE names, the first line encrypts what is written; all of them read. So a key is rotated by
putting a new one above it, and retired by taking it away when the last snapshot under it is gone.
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
    """What the chunks and the manifest of one snapshot are encrypted with: 32 random bytes that no repr shows.

    It is made with the snapshot, travels with what is written, and is stored wrapped only.
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
        """What a chunk with that digest is called: 64 digits, by which only who has the key can find what it holds."""
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
        """Its name in snapshots, which betrays nothing."""
        return key_id_of("encryption", self.secret)

    @property
    def text(self) -> str:
        """The line of text that it is read from."""
        return _PREFIX + self.secret.hex()

    def wrap(self, key: DataKey) -> bytes:
        """WRAPPED_BYTES bytes, from which only who has this key gets `key`."""
        return self._cipher.encrypt(key.secret, b"")

    def unwrap(self, wrapped: bytes) -> DataKey:
        """The key that `wrap` took. Raises BadManifest for anything else."""
        secret = self._cipher.decrypt(wrapped, b"") if len(wrapped) == WRAPPED_BYTES else None
        if secret is None:
            raise BadManifest(f"a data key does not open with the key {self.key_id} that is said to have wrapped it")
        return DataKey(secret)

    @cached_property
    def _cipher(self) -> "Cipher":
        return _cipher(self.secret, "data key")


def new_data_key() -> DataKey:
    """For one new snapshot."""
    return DataKey(secrets.token_bytes(KEY_BYTES))


def new_encryption_key() -> EncryptionKey:
    """For a person to keep."""
    return EncryptionKey(secrets.token_bytes(KEY_BYTES))


def find_encryption_keys() -> tuple[EncryptionKey, ...]:
    """The keys of this process's environment, the one that encrypts first; none where nothing is set.

    Raises ConfigError for what is no such key; the message never repeats it.
    """
    found = given(KEY_VARIABLE)
    return () if found is None else parse_encryption_keys(*found)


def parse_encryption_keys(text: bytes, source: str) -> tuple[EncryptionKey, ...]:
    """The keys in `text`, one a line; `source` says in errors where it was. Raises ConfigError."""
    lines = [line.decode("ascii", "replace") for line in lines_of(text, source)]
    for line in lines:
        if not line.startswith(_PREFIX) or not _DIGITS.fullmatch(line.removeprefix(_PREFIX)):
            raise ConfigError(
                f"{source}: an encryption key is a line of {_PREFIX} and {2 * KEY_BYTES} hexadecimal digits, as "
                "`rayshot keygen --encryption` writes it"
            )
    if not lines:
        raise ConfigError(f"{source}: there is no encryption key in it; unset it to write without encryption")
    return tuple(dict.fromkeys(EncryptionKey(bytes.fromhex(line.removeprefix(_PREFIX))) for line in lines))


def key_with(key_id: str, keys: Sequence[EncryptionKey]) -> EncryptionKey | None:
    """The one of `keys` with that id."""
    return next((key for key in keys if key.key_id == key_id), None)


def _cipher(secret: bytes, purpose: str) -> "Cipher":
    from rayshot.format.cipher import Cipher  # noqa: PLC0415 - every actor imports this module; few encrypt

    return Cipher(secret, purpose)
