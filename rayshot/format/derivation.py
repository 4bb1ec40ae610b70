"""Keys for one use each, derived from a secret, and what encryption adds to a length: known without a cipher."""

from blake3 import blake3

OVERHEAD_BYTES = 12 + 16
"""Encryption adds so many bytes: a nonce and a tag."""


def derive(secret: bytes, context: str) -> bytes:
    """A key of 32 bytes, derived from `secret` for the use that `context` names."""
    return blake3(secret, derive_key_context=context).digest()
