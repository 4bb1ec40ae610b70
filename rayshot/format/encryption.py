"""Encryption of stored manifests and chunks: the store sees only their sizes.

In the place of a manifest's payload (see `signing`) there is one canonical msgpack array:

    ["rayshot encrypted manifest", 1, key id, [wrapped data key, ...], encrypted manifest]

`key id` names the key-encryption key that wrapped the data keys. The first data key is the snapshot's own. It encrypts
the manifest and the chunks that this snapshot wrote. The others belong to earlier snapshots whose chunks it reuses.
They are wrapped again, so that the newest key-encryption key is enough to read a snapshot. A chunk's row in the
manifest has a sixth element, the index of its data key.

Encryption binds bytes to their place: the manifest to the elements before it, a chunk to its system and key. So swapped
bytes cannot be decrypted. The signature covers the encrypted manifest, so it can be checked without an encryption key.
"""

from collections.abc import Sequence

from rayshot.errors import BadManifest, CorruptChunk, EncryptionKeyNeeded, FormatTooNew
from rayshot.format import canonical
from rayshot.format.bounds import DATA_KEYS_MAX, ENVELOPE_BYTES_MAX, check_length
from rayshot.format.chunks import Buffer
from rayshot.format.entries import Chunk
from rayshot.keys.encryption import DataKey, EncryptionKey, key_with
from rayshot.keys.finder import find_encryption_keys

ENCRYPTION_VERSION = 1
_MAGIC = "rayshot encrypted manifest"
_ARRAY_OF_FIVE = b"\x95"
"""The first element of the array. A plain manifest is a map."""


def encrypt_manifest(document: bytes, data_keys: Sequence[DataKey], key: EncryptionKey) -> bytes:
    """The payload that replaces `document`. The first of `data_keys` encrypts it; `key` wraps all of them."""
    check_length(data_keys, "data keys", DATA_KEYS_MAX)
    head = [_MAGIC, ENCRYPTION_VERSION, key.key_id, [key.wrap(data_key) for data_key in data_keys]]
    return canonical.pack([*head, data_keys[0].manifest.encrypt(document, canonical.pack(head))])


def open_manifest(payload: bytes, keys: Sequence[EncryptionKey] | None) -> tuple[bytes, tuple[DataKey, ...]]:
    """The manifest in a payload, encrypted or not, and the data keys of its chunks.

    Args:
        payload: the payload of an envelope, trusted or not.
        keys: the key-encryption keys; None means the environment's keys, which are read only if one is needed.

    Raises EncryptionKeyNeeded, which names the key; BadManifest for bytes that the key does not decrypt; FormatTooNew;
    ConfigError for a malformed key in the environment.
    """
    if not payload.startswith(_ARRAY_OF_FIVE):
        return payload, ()
    match canonical.unpack(payload, what="the encrypted manifest", bytes_max=ENVELOPE_BYTES_MAX):
        case [str(magic), int(version), *_] if magic == _MAGIC and version > ENCRYPTION_VERSION:
            raise FormatTooNew(
                f"the manifest is encrypted in version {version} and this rayshot reads up to {ENCRYPTION_VERSION}: "
                "install a newer rayshot (pip install --upgrade rayshot)",
                format=version,
                supported=ENCRYPTION_VERSION,
            )
        case [str(magic), 1, str(key_id), [_, *_] as wrapped, bytes(encrypted)] if magic == _MAGIC:
            check_length(wrapped, "data keys", DATA_KEYS_MAX)
        case _:
            raise BadManifest("these bytes are not a manifest, encrypted or not")
    if not all(type(one) is bytes for one in wrapped):
        raise BadManifest("a wrapped data key is not bytes")
    key = _key(key_id, find_encryption_keys() if keys is None else keys)
    data_keys = tuple(key.unwrap(one) for one in wrapped)
    bound = canonical.pack([_MAGIC, ENCRYPTION_VERSION, key_id, wrapped])
    document = data_keys[0].manifest.decrypt(encrypted, bound)
    if document is None:
        raise BadManifest(
            f"the key {key_id} does not decrypt the manifest, though the manifest names it: the manifest was changed"
        )
    return document, data_keys


def encrypt_chunk(packed: Buffer, key: str, system: str, data_key: DataKey) -> bytes:
    """The bytes to store under `key` in the folder of `system`."""
    return data_key.chunks.encrypt(packed, _place(key, system))


def decrypt_chunk(stored: bytes, chunk: Chunk, system: str) -> bytes:
    """The stored bytes of `chunk`, decrypted if it is encrypted, still compressed. Raises CorruptChunk."""
    if chunk.data_key is None:
        return stored
    packed = chunk.data_key.chunks.decrypt(stored, _place(chunk.key, system))
    if packed is None:
        raise CorruptChunk(
            f"the chunk {chunk.key} cannot be decrypted: it was changed, or moved from another place; "
            "`rayshot verify` shows whether another snapshot is whole",
            key=chunk.key,
        )
    return packed


def _place(key: str, system: str) -> bytes:
    return canonical.pack([system, key])


def _key(key_id: str, keys: Sequence[EncryptionKey]) -> EncryptionKey:
    key = key_with(key_id, keys)
    if key is None:
        raise EncryptionKeyNeeded(
            f"the snapshot is encrypted with the key {key_id}, and this program has {len(keys)} others: add it to "
            "RAYSHOT_ENCRYPTION_KEY, or to the file that RAYSHOT_ENCRYPTION_KEY_FILE names",
            key_id=key_id,
            known=sorted(key.key_id for key in keys),
        )
    return key
