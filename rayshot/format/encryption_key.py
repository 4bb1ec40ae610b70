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

from blake3 import blake3
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from rayshot.errors import BadManifest, ConfigError
from rayshot.format.key_files import given, lines_of
from rayshot.format.keys import key_id_of

KEY_VARIABLE = "RAYSHOT_ENCRYPTION_KEY"
KEY_BYTES = 32
NONCE_BYTES, TAG_BYTES = 12, 16
OVERHEAD_BYTES = NONCE_BYTES + TAG_BYTES
"""By so much encrypted bytes are longer."""

WRAPPED_BYTES = KEY_BYTES + OVERHEAD_BYTES
_PREFIX = "rayshot-encryption:"
_DIGITS = re.compile(rf"[0-9a-f]{{{2 * KEY_BYTES}}}")


class Cipher:
    """AES-256-GCM under one secret, with nonces that follow from what is encrypted.

    The nonce is a keyed BLAKE3 of the associated data and the plain bytes. Two different encryptions share one only
    where 96 bits of that collide, which 2**24 of them do with a probability of 2**-49. And whoever encrypts the same
    again - a second vault, a second attempt after a lost answer - gets the same bytes, so that writing once stays
    writing once. Each use of a secret has a `purpose`, from which keys of its own are derived.
    """

    def __init__(self, secret: bytes, purpose: str) -> None:
        self._cipher = AESGCM(_derive(secret, f"rayshot 1 {purpose} encryption"))
        self._nonce_key = _derive(secret, f"rayshot 1 {purpose} nonce")

    def encrypt(self, plain: bytes, bound: bytes) -> bytes:
        """Nonce, encrypted bytes and tag; they open with the same `bound` only."""
        hasher = blake3(len(bound).to_bytes(8, "little"), key=self._nonce_key)
        nonce = hasher.update(bound).update(plain).digest(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, plain, bound)

    def decrypt(self, data: bytes, bound: bytes) -> bytes | None:
        """The plain bytes; None for what was not encrypted under this secret and `bound`."""
        if len(data) < OVERHEAD_BYTES:
            return None
        view = memoryview(data)
        try:
            return self._cipher.decrypt(view[:NONCE_BYTES], view[NONCE_BYTES:], bound)
        except InvalidTag:
            return None


@dataclass(frozen=True)
class DataKey:
    """What the chunks and the manifest of one snapshot are encrypted with: 32 random bytes that no repr shows.

    It is made with the snapshot, travels with what is written, and is stored wrapped only.
    """

    secret: bytes = field(repr=False)

    def __getstate__(self) -> dict[str, bytes]:
        return {"secret": self.secret}  # ciphers are made anew where it arrives

    @cached_property
    def chunks(self) -> Cipher:
        """For chunks."""
        return Cipher(self.secret, "chunk")

    @cached_property
    def manifest(self) -> Cipher:
        """For the manifest."""
        return Cipher(self.secret, "manifest")

    def chunk_name(self, digest: str) -> str:
        """What a chunk with that digest is called: 64 digits, by which only who has the key can find what it holds."""
        return blake3(bytes.fromhex(digest), key=self._name_key).hexdigest()

    @cached_property
    def _name_key(self) -> bytes:
        return _derive(self.secret, "rayshot 1 chunk name")


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
    def _cipher(self) -> Cipher:
        return Cipher(self.secret, "data key")


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


def _derive(secret: bytes, context: str) -> bytes:
    return blake3(secret, derive_key_context=context).digest()
