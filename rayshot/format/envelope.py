"""The signed envelope around a manifest: it proves which key signed exactly these bytes.

The object `manifests/<snapshot id>` is one canonical msgpack array:

    ["rayshot manifest", 1, algorithm, key id, signature, payload]

The algorithm is "hmac-sha256" (32 bytes of signature), "ed25519" (64), or "none" with the key id nil and an empty
signature. The signature covers the first four elements as they are spelled, followed by the payload. Each element
delimits itself, so no byte can move from one to the next. The payload holds system, snapshot and log position, and the
repository compares them with the place of the object. It is a manifest, encrypted or not: see
`encryption`.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rayshot.errors import BadManifest, BadSignature, FormatTooNew, UnknownKey, Unsigned
from rayshot.format import canonical
from rayshot.format.bounds import ENVELOPE_BYTES_MAX
from rayshot.keys.files import KEY_ID_DIGITS
from rayshot.keys.signing import SIGNATURE_BYTES, Prover, Signer

ENVELOPE_VERSION = 1
_MAGIC = "rayshot manifest"
_NONE = "none"
_KEY_ID = re.compile(rf"[0-9a-f]{{{KEY_ID_DIGITS}}}")


@dataclass(frozen=True, slots=True)
class Envelope:
    """A payload and the id of the key that is said to have signed it, or None. Trust it only after `verify`."""

    payload: bytes = field(repr=False)
    key_id: str | None
    signature: bytes = field(repr=False)
    algorithm: str = _NONE


def seal(payload: bytes, key: Signer | None) -> bytes:
    """The envelope to store. `key=None` leaves it unsigned; a restore refuses it without `allow_unsigned`."""
    if key is None:
        return canonical.pack([_MAGIC, ENVELOPE_VERSION, _NONE, None, b"", payload])
    signature = key.sign(_signed(key.algorithm, key.key_id, payload))
    return canonical.pack([_MAGIC, ENVELOPE_VERSION, key.algorithm, key.key_id, signature, payload])


def open_envelope(data: bytes) -> Envelope:
    """Read the bytes of `seal`, without trusting them.

    Raises FormatTooNew for a newer envelope, LimitExceeded for a too large one, BadManifest for other bytes.
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
            raise BadManifest("these bytes are not the envelope of a manifest")


def _read_fields(fields: list[Any]) -> Envelope:
    match fields:
        case [str(algorithm), None, b"", bytes(payload)] if algorithm == _NONE:
            return Envelope(payload, None, b"")
        case [str(algorithm), str(key_id), bytes(signature), bytes(payload)] if len(signature) == SIGNATURE_BYTES.get(
            algorithm
        ) and _KEY_ID.fullmatch(key_id):
            return Envelope(payload, key_id, signature, algorithm)
        case _:
            raise BadManifest("the envelope's signature has an unknown form")


def verify(envelope: Envelope, keys: Iterable[Prover]) -> Prover:
    """Return the key out of `keys` that proves the signature of exactly this payload.

    Raises Unsigned, UnknownKey (signed, but with none of `keys`) or BadSignature.
    """
    if envelope.key_id is None:
        raise Unsigned("the manifest is not signed, and a restore would execute the code that it holds")
    known = {key.key_id: key for key in keys}
    key = known.get(envelope.key_id)
    if key is None:
        raise UnknownKey(
            f"the manifest is signed with the {envelope.algorithm} key {envelope.key_id}, and this program has "
            f"{len(known)} others: set RAYSHOT_SIGNING_KEY to the key of the system that wrote it, or list it in "
            "RAYSHOT_TRUSTED_KEYS",
            key_id=envelope.key_id,
            known=sorted(known),
        )
    signed = _signed(key.algorithm, key.key_id, envelope.payload)
    if envelope.algorithm != key.algorithm or not key.proves(envelope.signature, signed):
        raise BadSignature(f"the manifest was changed after the key {key.key_id} signed it", key_id=key.key_id)
    return key


def _signed(algorithm: str, key_id: str, payload: bytes) -> Iterator[bytes]:
    """The signed bytes, in parts."""
    for element in (_MAGIC, ENVELOPE_VERSION, algorithm, key_id):
        yield canonical.pack(element)
    yield payload
