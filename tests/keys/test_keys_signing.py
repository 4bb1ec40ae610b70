"""Envelopes and keys: nothing is believed that was not signed, and a key is found, made and guarded."""

import dataclasses
import multiprocessing
import pickle
import stat

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rayshot.errors import BadManifest, BadSignature, ConfigError, Damaged, FormatTooNew, UnknownKey, Unsigned
from rayshot.format import envelope
from rayshot.format.envelope import open_envelope, seal, verify
from rayshot.keys.finder import find_key, key_path, load_key
from rayshot.keys.signing import SigningKey

KEY, OTHER = SigningKey(b"k" * 32), SigningKey(b"o" * 32)
PAYLOAD = b"what restoring would execute"
SEALED = seal(PAYLOAD, KEY)
REFUSALS = (Damaged, FormatTooNew, Unsigned, UnknownKey, BadSignature)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.delenv("RAYSHOT_SIGNING_KEY", raising=False)
    monkeypatch.delenv("RAYSHOT_SIGNING_KEY_FILE", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def names(folder):
    return [path.name for path in folder.iterdir()]


def trusted(data, *keys):
    envelope = open_envelope(data)
    verify(envelope, keys)
    return envelope.payload


def test_what_was_sealed_opens_and_verifies():
    assert trusted(SEALED, OTHER, KEY) == PAYLOAD
    assert verify(open_envelope(SEALED), [KEY]) == KEY


@pytest.mark.acceptance("G3")
def test_every_flipped_bit_is_refused():
    for index in range(len(SEALED)):
        for bit in range(8):
            flipped = bytearray(SEALED)
            flipped[index] ^= 1 << bit
            with pytest.raises(REFUSALS):
                trusted(bytes(flipped), KEY, OTHER)


@pytest.mark.acceptance("G1")
def test_every_cut_and_every_trailing_byte_is_refused():
    for length in range(len(SEALED)):
        with pytest.raises(BadManifest):
            open_envelope(SEALED[:length])
    with pytest.raises(BadManifest):
        open_envelope(SEALED + b"\0")


@pytest.mark.acceptance("G2")
@settings(derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_no_envelope(data):
    with pytest.raises((Damaged, FormatTooNew)):
        open_envelope(data)


@pytest.mark.acceptance("G4")
def test_an_unsigned_envelope_opens_but_is_not_trusted():
    envelope = open_envelope(seal(PAYLOAD, None))
    assert (envelope.payload, envelope.key_id) == (PAYLOAD, None)
    with pytest.raises(Unsigned):
        verify(envelope, [KEY])


@pytest.mark.acceptance("G4")
def test_a_stripped_signature_is_unsigned():
    *head, _, _, _, payload = msgpack.unpackb(SEALED)
    with pytest.raises(Unsigned):
        trusted(msgpack.packb([*head, "none", None, b"", payload]), KEY)


@pytest.mark.acceptance("G3")
def test_a_key_that_is_not_at_hand_is_unknown_and_named():
    with pytest.raises(UnknownKey, match=KEY.key_id):
        trusted(SEALED, OTHER)
    with pytest.raises(UnknownKey):
        trusted(SEALED)


@pytest.mark.acceptance("G3")
def test_a_signature_of_another_payload_or_key_is_bad():
    envelope = open_envelope(SEALED)
    for change in (
        {"payload": PAYLOAD + b"!"},
        {"key_id": OTHER.key_id},
        {"signature": open_envelope(seal(PAYLOAD, OTHER)).signature},
        {"signature": bytes(32)},
    ):
        with pytest.raises(BadSignature):
            verify(dataclasses.replace(envelope, **change), [KEY, OTHER])


@pytest.mark.acceptance("G3")
@pytest.mark.parametrize(
    "element",
    [
        (0, "rayshot something"),
        (1, 0),
        (1, True),
        (2, "md5"),
        (2, "none"),
        (3, None),
        (3, "x"),
        (4, b""),
        (4, bytes(31)),
        (4, None),
        (5, "text"),
    ],
)
def test_an_envelope_of_another_form_is_refused(element):
    fields = msgpack.unpackb(SEALED)
    fields[element[0]] = element[1]
    with pytest.raises(BadManifest):
        open_envelope(msgpack.packb(fields))


@pytest.mark.acceptance("G6")
def test_a_newer_envelope_says_what_to_install():
    with pytest.raises(FormatTooNew, match="pip install --upgrade rayshot"):
        open_envelope(msgpack.packb(["rayshot manifest", 2, {"anything": 1}]))


@pytest.mark.acceptance("G12")
def test_an_envelope_over_the_limit_is_refused(monkeypatch):
    monkeypatch.setattr(envelope, "ENVELOPE_BYTES_MAX", 10)
    with pytest.raises(Damaged):
        open_envelope(SEALED)


def test_two_secrets_have_two_ids_and_neither_shows():
    assert KEY.key_id != OTHER.key_id
    assert "kkkk" not in repr(KEY)
    assert pickle.loads(pickle.dumps(KEY)) == KEY


def test_a_short_or_endless_secret_is_refused():
    for secret in (b"", b"x" * 31, b"x" * 70_000):
        with pytest.raises(ConfigError):
            SigningKey(secret)


def test_the_variable_wins_over_the_file_and_the_own_key(monkeypatch, home):
    own = load_key(local=True)
    (home / "key").write_text("f" * 40 + "\n")
    monkeypatch.setenv("RAYSHOT_SIGNING_KEY_FILE", str(home / "key"))
    assert load_key(local=True) == load_key(local=False) == SigningKey(b"f" * 40)
    monkeypatch.setenv("RAYSHOT_SIGNING_KEY", " " + "e" * 40 + "\n")
    assert load_key(local=True) == load_key(local=False) == find_key() == SigningKey(b"e" * 40)
    assert own not in (SigningKey(b"f" * 40), SigningKey(b"e" * 40))


@pytest.mark.parametrize("secret", ["", "secret-but-short", "\udcff-short"])
def test_an_unusable_variable_is_a_config_error_that_keeps_the_secret(monkeypatch, secret):
    monkeypatch.setenv("RAYSHOT_SIGNING_KEY", secret)
    with pytest.raises(ConfigError, match="RAYSHOT_SIGNING_KEY: a signing key has") as caught:
        load_key(local=True)
    assert "short" not in str(caught.value)


def test_a_file_that_is_missing_short_or_endless_is_a_config_error(monkeypatch, home):
    (home / "short").write_text("x" * 31)
    (home / "endless").write_text("x" * 100_000)
    for name in ("missing", "short", "endless", ""):
        monkeypatch.setenv("RAYSHOT_SIGNING_KEY_FILE", str(home / name))
        with pytest.raises(ConfigError):
            load_key(local=True)


def test_the_own_key_is_made_once_private_and_without_leftovers(home):
    assert find_key() is None
    key = load_key(local=True)
    assert load_key(local=True) == find_key() == key
    assert key_path() == home / "config" / "rayshot" / "signing.key"
    assert stat.S_IMODE(key_path().stat().st_mode) == 0o600
    assert names(key_path().parent) == ["signing.key"]


def test_other_storage_never_uses_the_own_key():
    load_key(local=True)
    with pytest.raises(ConfigError, match="must be given"):
        load_key(local=False)


def test_an_own_key_that_others_may_read_is_refused():
    load_key(local=True)
    key_path().chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        load_key(local=True)


def test_the_own_key_lies_in_the_home_folder_by_default(monkeypatch, home):
    monkeypatch.setenv("HOME", str(home))
    for value in ("", "relative/path"):
        monkeypatch.setenv("XDG_CONFIG_HOME", value)
        assert key_path() == home / ".config" / "rayshot" / "signing.key"


def test_a_folder_that_cannot_be_made_is_a_config_error(home):
    (home / "config").write_text("a file where the folder should be")
    with pytest.raises(ConfigError, match="cannot be made"):
        load_key(local=True)
    assert names(home) == ["config"]


def make_key(start, answers):
    start.wait()
    answers.put(load_key(local=True).key_id)


def test_a_race_of_processes_makes_one_key():
    context = multiprocessing.get_context("fork")
    start, answers = context.Event(), context.Queue()
    processes = [context.Process(target=make_key, args=(start, answers)) for _ in range(6)]
    for process in processes:
        process.start()
    start.set()
    assert len({answers.get(timeout=30) for _ in processes}) == 1
    for process in processes:
        process.join(30)
    assert names(key_path().parent) == ["signing.key"]
