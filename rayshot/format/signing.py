"""The signed envelope around a manifest: who vouches for exactly these bytes.

What lies under `manifests/<snapshot id>` is one canonical msgpack array:

    ["rayshot manifest", 1, algorithm, key id, signature, payload]

The algorithm is "hmac-sha256", or "none" with the key id nil and an empty signature. The signature covers the first
four elements as they are spelled, followed by the payload: each is self-delimiting, so the two cannot run into one
another. System, snapshot and log position are inside the payload; the repository compares them with where it looked.
"""

import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rayshot.errors import BadManifest, BadSignature, FormatTooNew, UnknownKey, Unsigned
from rayshot.format import canonical
from rayshot.format.bounds import MANIFEST_BYTES_MAX
from rayshot.format.signing_key import SigningKey, find_key, key_path, load_key

__all__ = [
    "Envelope",
    "SigningKey",
    "find_key",
    "key_path",
    "load_key",
    "open_envelope",
    "seal",
    "verify",
]

ENVELOPE_VERSION = 1
ENVELOPE_BYTES_MAX = MANIFEST_BYTES_MAX + 4096
_MAGIC = "rayshot manifest"
_HMAC, _NONE = "hmac-sha256", "none"
_SIGNATURE_BYTES = 32
_KEY_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Envelope:
    """A payload and who says that it is theirs; `key_id` is None where nobody does. Trust it only after `verify`."""

    payload: bytes = field(repr=False)
    key_id: str | None
    signature: bytes = field(repr=False)


def seal(payload: bytes, key: SigningKey | None) -> bytes:
    """The envelope to store; `key=None` leaves it unsigned, so that every restore refuses it until told otherwise."""
    if key is None:
        return canonical.pack([_MAGIC, ENVELOPE_VERSION, _NONE, None, b"", payload])
    signature = _sign(payload, key)
    return canonical.pack([_MAGIC, ENVELOPE_VERSION, _HMAC, key.key_id, signature, payload])


def open_envelope(data: bytes) -> Envelope:
    """Read what `seal` made, without trusting it.

    Raises FormatTooNew for a newer envelope, LimitExceeded for one too large, BadManifest for anything else.
    """
    match canonical.unpack(data, what="the envelope", bytes_max=ENVELOPE_BYTES_MAX):
        case [str(magic), int(version), *_] if magic == _MAGIC and version > ENVELOPE_VERSION:
            raise FormatTooNew(
                f"the manifest's envelope has version {version} and this rayshot reads up to {ENVELOPE_VERSION}: "
                "install a newer rayshot (pip install --upgrade rayshot)",
                format=version,
                supported=ENVELOPE_VERSION,
            )
        case [str(magic), int(version), *fields] if magic == _MAGIC and version is ENVELOPE_VERSION:
            return _read_fields(fields)
        case _:
            raise BadManifest("this is no envelope of a manifest")


def _read_fields(fields: list[Any]) -> Envelope:
    match fields:
        case [str(algorithm), None, b"", bytes(payload)] if algorithm == _NONE:
            return Envelope(payload, None, b"")
        case [str(algorithm), str(key_id), bytes(signature), bytes(payload)] if (
            algorithm == _HMAC and _KEY_ID.fullmatch(key_id) and len(signature) == _SIGNATURE_BYTES
        ):
            return Envelope(payload, key_id, signature)
        case _:
            raise BadManifest("the envelope's signature is of no known form")


def verify(envelope: Envelope, keys: Iterable[SigningKey]) -> SigningKey:
    """Return the key out of `keys` that signed exactly this payload.

    Raises Unsigned, UnknownKey (signed, but with none of `keys`) or BadSignature.
    """
    if envelope.key_id is None:
        raise Unsigned("the manifest is not signed: nobody vouches for what restoring it would execute")
    known = {key.key_id: key for key in keys}
    key = known.get(envelope.key_id)
    if key is None:
        raise UnknownKey(
            f"the manifest is signed with the key {envelope.key_id}, which is not among the "
            f"{len(known)} at hand: set RAYSHOT_SIGNING_KEY to the key of the system that wrote it",
            key_id=envelope.key_id,
            known=sorted(known),
        )
    if not hmac.compare_digest(_sign(envelope.payload, key), envelope.signature):
        raise BadSignature(f"the manifest was changed after the key {key.key_id} signed it", key_id=key.key_id)
    return key


def _sign(payload: bytes, key: SigningKey) -> bytes:
    code = hmac.new(key.secret, digestmod="sha256")
    for element in (_MAGIC, ENVELOPE_VERSION, _HMAC, key.key_id):
        code.update(canonical.pack(element))
    code.update(payload)
    return code.digest()
