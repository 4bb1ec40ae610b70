"""AES-256-GCM with nonces that follow from what is encrypted."""

from blake3 import blake3
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from rayshot.format.derivation import OVERHEAD_BYTES, derive

NONCE_BYTES = 12


class Cipher:
    """AES-256-GCM under one secret, with nonces that follow from what is encrypted.

    The nonce is a keyed BLAKE3 of the associated data and the plain bytes. Two different encryptions share a nonce only
    if 96 bits of it collide; among 2**24 encryptions the probability of that is 2**-49. Encrypting the same bytes again
    - in a second vault, or after a lost answer - gives the same result, so a repeated write does not conflict. Each use
    of a secret has a `purpose`, from which its keys are derived.
    """

    def __init__(self, secret: bytes, purpose: str) -> None:
        self._cipher = AESGCM(derive(secret, f"rayshot 1 {purpose} encryption"))
        self._nonce_key = derive(secret, f"rayshot 1 {purpose} nonce")

    def encrypt(self, plain: bytes | bytearray | memoryview, bound: bytes) -> bytes:
        """Nonce, encrypted bytes and tag. Only the same `bound` decrypts them."""
        hasher = blake3(len(bound).to_bytes(8, "little"), key=self._nonce_key)
        nonce = hasher.update(bound).update(plain).digest(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, plain, bound)

    def decrypt(self, data: bytes, bound: bytes) -> bytes | None:
        """The plain bytes; None if the bytes were not encrypted with this secret and `bound`."""
        if len(data) < OVERHEAD_BYTES:
            return None
        view = memoryview(data)
        try:
            return self._cipher.decrypt(view[:NONCE_BYTES], view[NONCE_BYTES:], bound)
        except InvalidTag:
            return None
