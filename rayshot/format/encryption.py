"""Manifests and chunks at rest, encrypted: what lies in the store says nothing but how large it is.

In the place of a manifest's payload (see `signing`) there is one canonical msgpack array:

    ["rayshot encrypted manifest", 1, key id, [wrapped data key, ...], encrypted manifest]

`key id` names the key-encryption key that wrapped the data keys. The first of them is the snapshot's own: with it the
manifest and the chunks that this snapshot wrote are encrypted; the others are those of earlier snapshots whose chunks
it uses again, wrapped anew, so that the newest key-encryption key is all that it takes to read a snapshot. A chunk's
row in the manifest has a sixth element, the index of its data key.

What is encrypted is bound to its place: the manifest to the elements before it, a chunk to its system and key. So two
that were swapped do not open. The manifest is signed as it lies there: the signature can be checked without a key.
"""

from collections.abc import Sequence

from rayshot.errors import BadManifest, CorruptChunk, EncryptionKeyNeeded, FormatTooNew
from rayshot.format import canonical
from rayshot.format.bounds import DATA_KEYS_MAX, ENVELOPE_BYTES_MAX, check_length
from rayshot.format.chunks import Buffer
from rayshot.format.encryption_key import DataKey, EncryptionKey, find_encryption_keys, key_with
from rayshot.format.entries import Chunk

ENCRYPTION_VERSION = 1
_MAGIC = "rayshot encrypted manifest"
_ARRAY_OF_FIVE = b"\x95"
"""How it begins; a manifest is a map."""


def encrypt_manifest(document: bytes, data_keys: Sequence[DataKey], key: EncryptionKey) -> bytes:
    """The payload to seal in the place of `document`; the first of `data_keys` encrypts it, `key` wraps all of them."""
    check_length(data_keys, "data keys", DATA_KEYS_MAX)
    head = [_MAGIC, ENCRYPTION_VERSION, key.key_id, [key.wrap(data_key) for data_key in data_keys]]
    return canonical.pack([*head, data_keys[0].manifest.encrypt(document, canonical.pack(head))])


def open_manifest(payload: bytes, keys: Sequence[EncryptionKey] | None) -> tuple[bytes, tuple[DataKey, ...]]:
    """The manifest in a payload, encrypted or not, and the data keys of its chunks.

    Args:
        payload: of an envelope; trusted or not.
        keys: the key-encryption keys at hand; None means those of the environment, looked up only if one is needed.

    Raises EncryptionKeyNeeded, which names the key; BadManifest for what does not open with it; FormatTooNew;
    ConfigError for a key in the environment that is none.
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
            raise BadManifest("this is neither a manifest nor an encrypted one")
    if not all(type(one) is bytes for one in wrapped):
        raise BadManifest("a wrapped data key is not bytes")
    key = _key(key_id, find_encryption_keys() if keys is None else keys)
    data_keys = tuple(key.unwrap(one) for one in wrapped)
    bound = canonical.pack([_MAGIC, ENCRYPTION_VERSION, key_id, wrapped])
    document = data_keys[0].manifest.decrypt(encrypted, bound)
    if document is None:
        raise BadManifest(f"the manifest does not open with the key {key_id} that is said to have encrypted it")
    return document, data_keys


def encrypt_chunk(packed: Buffer, key: str, system: str, data_key: DataKey) -> bytes:
    """What to store under `key` in the folder of `system`."""
    return data_key.chunks.encrypt(packed, _place(key, system))


def decrypt_chunk(stored: bytes, chunk: Chunk, system: str) -> bytes:
    """What `chunk` holds, still compressed; as it is where it is not encrypted. Raises CorruptChunk."""
    if chunk.data_key is None:
        return stored
    packed = chunk.data_key.chunks.decrypt(stored, _place(chunk.key, system))
    if packed is None:
        raise CorruptChunk(
            f"the chunk {chunk.key} does not open with its key: it was changed, or belongs elsewhere; "
            "take another snapshot",
            key=chunk.key,
        )
    return packed


def _place(key: str, system: str) -> bytes:
    return canonical.pack([system, key])


def _key(key_id: str, keys: Sequence[EncryptionKey]) -> EncryptionKey:
    key = key_with(key_id, keys)
    if key is None:
        raise EncryptionKeyNeeded(
            f"the snapshot is encrypted with the key {key_id}, which is not among the {len(keys)} at hand: add it to "
            "RAYSHOT_ENCRYPTION_KEY, or to the file that RAYSHOT_ENCRYPTION_KEY_FILE names",
            key_id=key_id,
            known=sorted(key.key_id for key in keys),
        )
    return key
