"""Encryption keys and what they keep: wrapped keys, nonces that never repeat, bytes bound to their place."""

import pickle
from dataclasses import replace

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayshot.errors import BadManifest, ConfigError, CorruptChunk, EncryptionKeyNeeded, FormatTooNew, LimitExceeded
from rayshot.format.bounds import DATA_KEYS_MAX
from rayshot.format.encryption import decrypt_chunk, encrypt_chunk, encrypt_manifest, open_manifest
from rayshot.format.entries import Chunk
from rayshot.format.entry_checks import chunk_key
from rayshot.keys.encryption import NONCE_BYTES, OVERHEAD_BYTES, DataKey, EncryptionKey, parse_encryption_keys
from rayshot.keys.finder import find_encryption_keys

KEY, OTHER = EncryptionKey(b"e" * 32), EncryptionKey(b"f" * 32)
DATA, EARLIER = DataKey(b"d" * 32), DataKey(b"c" * 32)
DOCUMENT = msgpack.packb({"format": 1, "secret": "attack at dawn"})
PAYLOAD = encrypt_manifest(DOCUMENT, [DATA, EARLIER], KEY)
PACKED = b"the balance is 90" * 9


def a_chunk(system="bank", data_key=DATA, packed=PACKED):
    digest = "ab" * 32
    key = chunk_key(data_key.chunk_name(digest), "1-coordinator-1")
    stored = encrypt_chunk(packed, key, system, data_key)
    return stored, Chunk(key, digest, 1000, len(stored), "zstd", data_key)


def test_a_manifest_opens_with_its_key_and_brings_the_data_keys():
    assert open_manifest(PAYLOAD, [OTHER, KEY]) == (DOCUMENT, (DATA, EARLIER))
    assert b"dawn" not in PAYLOAD
    assert open_manifest(DOCUMENT, []) == (DOCUMENT, ())


def test_the_same_manifest_is_encrypted_to_the_same_bytes_so_that_a_second_attempt_is_no_other_writer():
    assert encrypt_manifest(DOCUMENT, [DATA, EARLIER], KEY) == PAYLOAD
    assert a_chunk()[0] == a_chunk()[0]


def test_without_the_key_the_error_names_it():
    with pytest.raises(EncryptionKeyNeeded, match=KEY.key_id) as caught:
        open_manifest(PAYLOAD, [OTHER])
    assert caught.value.evidence["key_id"] == KEY.key_id
    with pytest.raises(EncryptionKeyNeeded):
        open_manifest(PAYLOAD, None)


def test_every_flipped_bit_of_an_encrypted_manifest_is_refused():
    for index in range(len(PAYLOAD)):
        for bit in range(8):
            flipped = bytearray(PAYLOAD)
            flipped[index] ^= 1 << bit
            try:
                document, keys = open_manifest(bytes(flipped), [KEY])
            except (BadManifest, EncryptionKeyNeeded, FormatTooNew, LimitExceeded):
                continue
            assert (index, keys) == (0, ())  # it is taken for a manifest that is not encrypted, which it is not either
            assert document == flipped


def test_every_cut_of_an_encrypted_manifest_is_refused():
    for length in range(1, len(PAYLOAD)):
        with pytest.raises(BadManifest):
            open_manifest(PAYLOAD[:length], [KEY])


def test_keys_in_another_order_or_of_another_snapshot_do_not_open_it():
    *head, wrapped, encrypted = msgpack.unpackb(PAYLOAD)
    for wrong in (wrapped[::-1], wrapped[:1], [*wrapped, KEY.wrap(DataKey(b"x" * 32))], [KEY.wrap(EARLIER)]):
        with pytest.raises(BadManifest):
            open_manifest(msgpack.packb([*head, wrong, encrypted]), [KEY])


@pytest.mark.parametrize(
    "fields",
    [
        ["rayshot something", 1, KEY.key_id, [b"x" * 60], b""],
        ["rayshot encrypted manifest", 0, KEY.key_id, [b"x" * 60], b""],
        ["rayshot encrypted manifest", True, KEY.key_id, [b"x" * 60], b""],
        ["rayshot encrypted manifest", 1, KEY.key_id, [], b""],
        ["rayshot encrypted manifest", 1, KEY.key_id, ["x" * 60], b""],
        ["rayshot encrypted manifest", 1, KEY.key_id, [b"x" * 10], b""],
        ["rayshot encrypted manifest", 1, 7, [b"x" * 60], b""],
        ["rayshot encrypted manifest", 1, KEY.key_id, b"", "text"],
    ],
)
def test_another_form_is_refused(fields):
    with pytest.raises(BadManifest):
        open_manifest(msgpack.packb(fields), [KEY])


def test_a_newer_encryption_says_what_to_install():
    fields = ["rayshot encrypted manifest", 2, {}, 0, 0]
    with pytest.raises(FormatTooNew, match="pip install --upgrade rayshot"):
        open_manifest(msgpack.packb(fields), [KEY])


def test_too_many_data_keys_are_refused_before_one_is_opened():
    fields = ["rayshot encrypted manifest", 1, KEY.key_id, [b""] * (DATA_KEYS_MAX + 1), b""]
    with pytest.raises(LimitExceeded):
        open_manifest(msgpack.packb(fields), [KEY])


def test_a_chunk_opens_in_its_place_only():
    stored, chunk = a_chunk()
    assert decrypt_chunk(stored, chunk, "bank") == PACKED
    elsewhere = replace(chunk, key=chunk_key(chunk.name, "1-coordinator-2"))
    for wrong, system in ((chunk, "shop"), (elsewhere, "bank"), (replace(chunk, data_key=EARLIER), "bank")):
        with pytest.raises(CorruptChunk, match="moved from another place"):
            decrypt_chunk(stored, wrong, system)


def test_every_flipped_bit_and_every_cut_of_an_encrypted_chunk_is_refused():
    stored, chunk = a_chunk()
    for index in range(len(stored)):
        flipped = bytearray(stored)
        flipped[index] ^= 1 << index % 8
        for wrong in (bytes(flipped), stored[:index]):
            with pytest.raises(CorruptChunk):
                decrypt_chunk(wrong, chunk, "bank")


def test_names_and_bytes_of_encrypted_chunks_do_not_betray_the_digest():
    digest = "ab" * 32
    names = {key.chunk_name(digest) for key in (DATA, EARLIER)}
    assert len(names | {digest}) == 3


@settings(derandomize=True, deadline=None)
@given(st.lists(st.tuples(st.binary(max_size=40), st.binary(max_size=8)), min_size=2, max_size=30, unique=True))
def test_a_nonce_comes_again_only_with_the_same_bytes_in_the_same_place(several):
    for cipher in (DATA.chunks, DATA.manifest):
        encrypted = [cipher.encrypt(plain, bound) for plain, bound in several]
        assert len({one[:NONCE_BYTES] for one in encrypted}) == len(several)
        assert [cipher.decrypt(one, bound) for one, (_, bound) in zip(encrypted, several, strict=True)] == [
            plain for plain, _ in several
        ]
        assert {len(one) - len(plain) for one, (plain, _) in zip(encrypted, several, strict=True)} == {OVERHEAD_BYTES}


def test_the_uses_of_one_secret_do_not_open_each_other():
    assert DATA.manifest.decrypt(DATA.chunks.encrypt(b"x", b""), b"") is None


@pytest.mark.acceptance("G25")
@pytest.mark.parametrize("key", [KEY, DATA])
def test_keys_do_not_show_and_survive_pickling(key):
    _ = key.chunks if isinstance(key, DataKey) else key.wrap(DATA)  # ciphers that cannot be pickled are made by now
    assert pickle.loads(pickle.dumps(key)) == key
    assert key.secret.hex() not in repr(key) + repr(a_chunk())
    assert key.secret.decode() not in repr(key) + repr(a_chunk())


def test_the_first_key_of_the_environment_encrypts_and_all_of_them_read(monkeypatch, tmp_path):
    assert find_encryption_keys() == ()
    (tmp_path / "keys").write_text(f"# since the summer\n{KEY.text}\n{OTHER.text}\n{OTHER.text}\n")
    monkeypatch.setenv("RAYSHOT_ENCRYPTION_KEY_FILE", str(tmp_path / "keys"))
    assert find_encryption_keys() == (KEY, OTHER)
    monkeypatch.setenv("RAYSHOT_ENCRYPTION_KEY", OTHER.text)
    assert find_encryption_keys() == (OTHER,)


@pytest.mark.acceptance("G25")
@pytest.mark.parametrize(
    "text", ["", "# nothing", "65" * 32, KEY.text[:-1], KEY.text + "0", KEY.text.upper(), "\udcff"]
)
def test_what_is_no_encryption_key_is_a_config_error_that_keeps_it(text):
    with pytest.raises(ConfigError) as caught:
        parse_encryption_keys(text.encode("utf-8", "surrogateescape"), "RAYSHOT_ENCRYPTION_KEY")
    assert "6565" not in str(caught.value)
