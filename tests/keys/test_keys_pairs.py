"""Key pairs, lists of trusted keys and their rotation: readers who cannot forge, and keys that were retired."""

import pickle

import pytest

from rayshot.errors import BadSignature, ConfigError, UnknownKey
from rayshot.format.envelope import open_envelope, seal, verify
from rayshot.keys.finder import find_key, find_trusted_keys, load_key
from rayshot.keys.signing import PrivateKey, PublicKey, SigningKey, parse_key

HMAC, PAIR, OTHER_PAIR = SigningKey(b"k" * 32), PrivateKey(b"p" * 32), PrivateKey(b"q" * 32)
PAYLOAD = b"what restoring would execute"
SEALED = seal(PAYLOAD, PAIR)

pytestmark = pytest.mark.acceptance("G3", "G4")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    for name in ("SIGNING_KEY", "TRUSTED_KEYS"):
        monkeypatch.delenv(f"RAYSHOT_{name}", raising=False)
        monkeypatch.delenv(f"RAYSHOT_{name}_FILE", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def test_what_a_private_key_signed_its_public_key_proves():
    assert verify(open_envelope(SEALED), [HMAC, PAIR.public]) == PAIR.public
    assert open_envelope(SEALED).algorithm == "ed25519"


def test_every_flipped_bit_of_an_ed25519_envelope_is_refused():
    from rayshot.errors import Damaged, FormatTooNew, Untrusted

    for index in range(len(SEALED)):
        flipped = bytearray(SEALED)
        flipped[index] ^= 1 << index % 8
        with pytest.raises((Damaged, Untrusted, FormatTooNew)):
            verify(open_envelope(bytes(flipped)), [PAIR.public, HMAC])


def test_a_public_key_cannot_sign():
    assert not hasattr(PAIR.public, "sign")
    assert not hasattr(PAIR.public, "secret")


def test_a_public_key_is_no_secret_for_hmac():
    """A forger knows the public key, and could sign with it if any reader took it for a shared secret."""
    forged = seal(PAYLOAD, SigningKey(PAIR.public.text.encode()))
    with pytest.raises(UnknownKey):
        verify(open_envelope(forged), [PAIR.public])
    with pytest.raises(UnknownKey):
        verify(open_envelope(seal(PAYLOAD, SigningKey(PAIR.public.value))), [PAIR.public])


@pytest.mark.parametrize("around", ['"{}"', "\ufeff{}", "# of the bank\n{}", "key={}", "export KEY={}"])
@pytest.mark.parametrize(
    "key", [PAIR.public.text, PAIR.text, PAIR.public.text.upper(), f"rayshot-encryption:{'0' * 64}"]
)
def test_a_key_with_something_around_it_is_no_secret_that_everybody_knows(monkeypatch, around, key):
    text = around.format(key)
    monkeypatch.setenv("RAYSHOT_SIGNING_KEY", text)
    with pytest.raises(ConfigError, match="RAYSHOT_SIGNING_KEY: a key must stand alone") as caught:
        find_key()
    assert key not in str(caught.value)
    monkeypatch.delenv("RAYSHOT_SIGNING_KEY")
    if "\n" not in text:
        monkeypatch.setenv("RAYSHOT_TRUSTED_KEYS", text)
        with pytest.raises(ConfigError, match="RAYSHOT_TRUSTED_KEYS: a key must stand alone"):
            find_trusted_keys()


def test_a_signature_under_the_other_algorithm_is_bad():
    import msgpack

    fields = msgpack.unpackb(SEALED)
    fields[2], fields[4] = "hmac-sha256", fields[4][:32]
    with pytest.raises(BadSignature):
        verify(open_envelope(msgpack.packb(fields)), [PAIR.public])


def test_a_retired_key_is_unknown_and_one_that_is_still_listed_is_not(monkeypatch):
    monkeypatch.setenv("RAYSHOT_SIGNING_KEY", OTHER_PAIR.text)
    monkeypatch.setenv("RAYSHOT_TRUSTED_KEYS", f"# before last summer\n{PAIR.public.text}\n\n{'h' * 40}\n")
    by_hmac = seal(PAYLOAD, SigningKey(b"h" * 40))
    for sealed in (SEALED, by_hmac, seal(PAYLOAD, find_key())):
        verify(open_envelope(sealed), find_trusted_keys())
    monkeypatch.setenv("RAYSHOT_TRUSTED_KEYS", PAIR.public.text)
    verify(open_envelope(SEALED), find_trusted_keys())
    with pytest.raises(UnknownKey):
        verify(open_envelope(by_hmac), find_trusted_keys())


def test_trusted_keys_come_from_a_file_too_and_need_no_signing_key(monkeypatch, home):
    assert find_trusted_keys() == ()
    (home / "trusted").write_text(f"{PAIR.public.text}\n")
    monkeypatch.setenv("RAYSHOT_TRUSTED_KEYS_FILE", str(home / "trusted"))
    assert find_trusted_keys() == (PAIR.public,)
    assert find_key() is None


def test_a_file_of_several_lines_for_signing_is_still_one_secret(monkeypatch, home):
    (home / "key").write_bytes(b"-----BEGIN SOMETHING-----\nabcdefghijklmnop\n-----END-----\n")
    monkeypatch.setenv("RAYSHOT_SIGNING_KEY_FILE", str(home / "key"))
    assert load_key(local=False) == SigningKey(b"-----BEGIN SOMETHING-----\nabcdefghijklmnop\n-----END-----")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("RAYSHOT_SIGNING_KEY", PAIR.public.text),
        ("RAYSHOT_SIGNING_KEY", PAIR.text[:-1]),
        ("RAYSHOT_SIGNING_KEY", PAIR.text.upper()),
        ("RAYSHOT_SIGNING_KEY", "rayshot-ed448-private:" + "70" * 32),
        ("RAYSHOT_TRUSTED_KEYS", PAIR.text),
        ("RAYSHOT_TRUSTED_KEYS", PAIR.public.text + "0"),
        ("RAYSHOT_TRUSTED_KEYS", f"{PAIR.public.text} {OTHER_PAIR.public.text}"),
        ("RAYSHOT_TRUSTED_KEYS", "short"),
        ("RAYSHOT_TRUSTED_KEYS", f"{PAIR.public.text}\n" * 1001),
        ("RAYSHOT_TRUSTED_KEYS_FILE", "/nowhere/keys"),
    ],
)
def test_what_is_no_key_for_the_purpose_is_a_config_error_that_keeps_it(monkeypatch, variable, value):
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError) as caught:
        find_trusted_keys()
    assert "7070" not in str(caught.value)


def test_keys_are_read_from_the_text_they_write_and_survive_pickling():
    for key in (PAIR, PAIR.public):
        assert parse_key(f"  {key.text}\n".encode()) == key == pickle.loads(pickle.dumps(key))
    assert PAIR.key_id == PAIR.public.key_id != OTHER_PAIR.key_id
    assert "7070" not in repr(PAIR)
    assert isinstance(parse_key(PAIR.public.text.encode()), PublicKey)
