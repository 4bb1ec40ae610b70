"""Encryption keys: a data key for each snapshot, wrapped by a key-encryption key that people keep.

A line of text with a key-encryption key is `rayshot-encryption:` and 64 hexadecimal digits.
"""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from blake3 import blake3

from rayshot.errors import BadManifest, ConfigError
from rayshot.keys.files import key_id_of, lines_of

KEY_BYTES = 32
NONCE_BYTES = 12
OVERHEAD_BYTES = NONCE_BYTES + 16
"""Encryption adds so many bytes: a nonce and a tag."""
WRAPPED_BYTES = KEY_BYTES + OVERHEAD_BYTES
_PREFIX = "rayshot-encryption:"
_DIGITS = re.compile(rf"[0-9a-f]{{{2 * KEY_BYTES}}}")


def derive(secret: bytes, context: str) -> bytes:
    """A key of 32 bytes, derived from `secret` for the use that `context` names."""
    return blake3(secret, derive_key_context=context).digest()


class Cipher:
    """AES-256-GCM under one secret, with nonces that follow from what is encrypted.

    The nonce is a keyed BLAKE3 of the associated data and the plain bytes. Two different encryptions share a nonce only
    if 96 bits of it collide; among 2**24 encryptions the probability of that is 2**-49. Encrypting the same bytes again
    - in a second vault, or after a lost answer - gives the same result, so a repeated write does not conflict. Each use
    of a secret has a `purpose`, from which its keys are derived.
    """

    def __init__(self, secret: bytes, purpose: str) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - every actor imports this module

        self._cipher = AESGCM(derive(secret, f"rayshot 1 {purpose} encryption"))
        self._nonce_key = derive(secret, f"rayshot 1 {purpose} nonce")

    def encrypt(self, plain: bytes | bytearray | memoryview, bound: bytes) -> bytes:
        """Nonce, encrypted bytes and tag. Only the same `bound` decrypts them."""
        hasher = blake3(len(bound).to_bytes(8, "little"), key=self._nonce_key)
        nonce = hasher.update(bound).update(plain).digest(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, plain, bound)

    def decrypt(self, data: bytes, bound: bytes) -> bytes | None:
        """The plain bytes; None if the bytes were not encrypted with this secret and `bound`."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - as above

        if len(data) < OVERHEAD_BYTES:
            return None
        view = memoryview(data)
        try:
            return self._cipher.decrypt(view[:NONCE_BYTES], view[NONCE_BYTES:], bound)
        except InvalidTag:
            return None


@dataclass(frozen=True)
class DataKey:
    """Encrypts the chunks and the manifest of one snapshot: 32 random bytes that no repr shows.

    It is made with the snapshot and is stored only wrapped.
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
    def _cipher(self) -> Cipher:
        return Cipher(self.secret, "data key")


def new_data_key() -> DataKey:
    """A random key for one new snapshot."""
    return DataKey(secrets.token_bytes(KEY_BYTES))


def new_encryption_key() -> EncryptionKey:
    """A random key for a person to keep."""
    return EncryptionKey(secrets.token_bytes(KEY_BYTES))


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
