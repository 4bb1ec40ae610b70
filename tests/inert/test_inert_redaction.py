"""What is named like a secret is not shown, wherever it stands, unless somebody says so."""

import datetime as dt
import json
import threading
from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayshot.errors import ConfigError, MessageNotSerializable, StateNotSerializable
from rayshot.format.pickling import dump_message, dump_state
from rayshot.inert.inert_object import Inert, short_repr
from rayshot.inert.jsonable import jsonable
from rayshot.inert.redaction import (
    FRAGMENTS,
    LAST_WORDS,
    REDACTED,
    WORDS,
    check_hidden,
    hides,
    is_secret_name,
    may_be_secrets,
    show_secrets,
    shown_call,
)
from rayshot.model.options import check_options

pytestmark = pytest.mark.acceptance("G25")
WORD = "hunter2"
WHEN = dt.datetime(2026, 11, 24, tzinfo=dt.UTC)


def each(names, value):
    """The same value under several names."""
    return [(name, value) for name in names]


SECRET_TEXTS = [
    *("password", "PASSWORD", "db_password", "dbPassword", "Password1", "_passwd", "db_passwd", "pass_phrase", "pwd"),
    *("token", "access_token", "accessToken", "AUTH_TOKEN", "authtoken", "refresh-token", "session_token", "tokens"),
    *("api_key", "apiKey", "X-API-Key", "APIKEY", "aws_access_key", "aws_secret_access_key", "privateKey", "auth"),
    *("private key", "credential", "Credentials", "authorization", "Proxy-Authorization", "cookie", "signing_key"),
    *("client_secret_value", "azure.connection.string", "__token__", "HTTPToken", "encryption_key", "client_secret"),
    *("secrets", "bearer", "jwt", "id_jwt", "oauth", "oauth_token", "dsn", "sentry_dsn", "conn_str", "passcode", "otp"),
    *(
        "basic_auth",
        "auth_header",
        "cookies",
        "session_cookie",
        "max_token",
        "token_count",
        "has_token",
        "pin",
        "pin_code",
    ),
    *("password_hash", "token_value", "bearer_header", "access_key_id", "github_token2"),
    *("pass", "user_pass", "totp", "totp_code", "hmac_key", "ssh_key", "sshKey", "master_key", "creds", "db_creds"),
    *("pins", "pin_number", "otp_code", "otp_codes", "secret_number", "max_tokens", "token_budget", "api_key_bytes"),
]
"""Names under which a text is hidden."""

SECRET_NUMBERS = [
    *("password", "Password1", "pin", "sim_pin", "otp", "secret", "passcode", "api_key", "private_key", "dbPassword"),
    *("token", "auth_token", "token2", "session_tokens", "tokens_by_round", "token_number", "token_id", "token_value"),
    *("otp_code", "otp_codes", "totp", "pin_number", "pinNumber", "pin_digits", "pins", "user_pass", "creds"),
    *("secret_number", "number_secret", "api_key_bytes", "token_bytes", "hmac_key", "ssh_key", "master_key", "cookies"),
    *("last_used_pin", "used_otp_code", "max_pin_number", "version_secret", "issued_password", "one_time_token"),
    *("password_hash", "secret_id"),
]
"""Names under which a number is hidden too."""

SHOWN = [
    *each(("has_token", "token", "password", "is_secret", "auth", "use_cookies"), True),
    *each(("no_password", "api_key", "bearer"), None),
    *each(("max_tokens", "token_count", "tokens_used", "tokens", "auth_failures", "n_cookies", "prompt_tokens"), 4096),
    *each(("n_passwords_tried", "password_attempts", "password_length", "n_secrets", "maxTokens", "max_token"), 3),
    *each(("number_of_tokens", "numberOfPasswords", "n_pins", "n_credentials", "total_tokens", "token_budget"), 3),
    *each(("max_tokens", "token_budget", "tokens", "password_attempts", "token_version", "maxTokens"), "10"),
    *each(("has_token", "token", "password"), np.True_),
    *each(("token", "api_key_bytes"), np.array([])),
    *each(("token_ttl_s", "tokens_per_second", "secret_version", "otp_window_s", "credentials_age_s"), 0.5),
    *each(("token_expires_at", "password_changed_at", "cookie_seen", "token"), WHEN),
    *each(("token_expires_at", "token"), np.datetime64("2026-11-24")),
    *each(("has_token",), [True, False]),
    *each(("token_ids", "tokens", "input_tokens"), [101, 2023, 102]),
    *each(("token_positions", "token_weights"), np.arange(3)),
    *each(("token_ids", "tokens", "token_count"), [[101, 2023], (102, [None, 0.5]), []]),
    *each(("tokens_by_user", "token_budget", "tokensByUser", "token_quota", "tokens_per_user"), {"alice": 5, "bob": 7}),
    *each(("prompt_tokens_by_user", "password_attempts_by_user", "token_budget_by_team"), {"alice": 5}),
    *each(("max_tokens", "total_tokens", "prompt_tokens", "tokens_by_round"), {"gpt-4": [1, [2]], 3: np.int64(4)}),
    *each(("token_type", "auth_method", "password_policy", "secret_name", "private_key_path"), WORD),
    *each(("key", "keys", "primary_key", "sort_key", "partition_key", "keyboard", "monkey", "turnkey"), WORD),
    *each(("tokenizer", "tokenized", "authors", "author", "authority", "passes", "passed", "passage"), WORD),
    *each(("broken", "secretary", "secretariat", "compass", "pinned", "spin", "spin_number", "option", ""), WORD),
    *each(("balance", "密码", "k" * 10**6, "dsnap", "bearing", "login", "user"), WORD),
    *each(("password ", "token_", "secret "), ""),
    *each(("all_tokens", "passwords_seen"), []),
]
"""Names and values that are shown."""

HIDDEN_DICTS = [
    *each(("password", "secrets", "pin", "pins", "pins_by_user", "token", "session_tokens"), {"alice": 5}),
    *each(("tokens", "token_count", "tokens_used", "token_ids", "token_expires_at", "tokens_seen"), {"alice": 5}),
    *each(("token_limit", "password_attempts", "token_ttl", "tokens_left"), {"alice": 5}),
    *each(("tokens_by_token", "tokens_by_key", "attempts_by_password", "tokens_by_session", "tokens_by"), {"alice": 5}),
    *each(("token_budget_by_token", "token_quota_per_api_key", "tokens_by_session_id"), {"alice": 5}),
    *each(("tokens_by_user", "token_budget", "max_tokens"), {"alice": WORD}),
    *each(("tokens_by_user", "token_budget", "max_tokens"), {"alice": "5"}),
    *each(("tokens_by_user", "token_budget", "max_tokens"), {"alice": [1, WORD]}),
    *each(("tokens_by_user", "token_budget", "max_tokens"), {"alice": {"bob": 5}}),
    *each(("tokens_by_user", "token_budget", "max_tokens"), {"x" * 21: 5}),
    *each(("tokens_by_user", "token_budget", "max_tokens"), {b"alice": 5}),
    *each(("tokens_by_user", "token_budget", "max_tokens"), {("alice",): 5}),
    *each(("token_budget", "max_tokens"), [{"alice": 5}]),
    ("max_tokens", [[1] * 1_000] * 1_000),
]
"""Dicts of numbers whose keys or numbers may be secrets."""

HIDING_METHODS = [
    *each(("set_password", "setPassword", "change_password", "add_api_key", "update_db_credentials"), WORD),
    *each(("verify_token", "use_token", "refresh_token", "login_with_token", "store_secret", "put_secret"), WORD),
    *each(("password", "token", "api_key", "authorization", "Bearer", "check_password", "hash_password"), WORD),
    *each(("give_password", "new_password", "give_new_password", "ssh_key", "set_pass", "creds"), WORD),
    *each(("set_pin", "set_password2", "check_otp", "set_token", "use_token", "verify_otp_code", "token"), 1234),
]
"""Methods that say that they are given a secret, and such a one."""

SHOWING_METHODS = [
    *each(("take_token", "pass_token", "has_token", "token_arrived", "on_token", "request_token"), WORD),
    *each(("has_password", "forget_password", "get_secret", "read_credentials", "count_tokens"), WORD),
    *each(("set_max_tokens", "use_tokens", "add_tokens", "set_token_ttl", "take_token", "pass_token"), 5),
    *each(("set_max_tokens", "update_token_budget"), "5"),
    *each(("set_token_type", "update_auth_method", "set_primary_key", "put", "set", "use_keys", ""), WORD),
    *each(("login", "deposit", "authenticate", "tokenize", "n_passwords_tried"), WORD),
]
"""Methods that say no such thing, or whose argument is none."""


@pytest.mark.parametrize("name", SECRET_TEXTS)
def test_names_like_those_of_secrets(name):
    assert is_secret_name(name)
    for value in (WORD, WORD.encode(), [WORD], {"a": WORD}, {WORD}, (1, WORD), object(), np.array([WORD])):
        assert hides(name, value)


@pytest.mark.acceptance("X9")
@pytest.mark.parametrize("name", SECRET_NUMBERS)
def test_names_of_secrets_that_may_be_numbers(name):
    for value in (1234, 0.5, "1234", [1, 2, 3], 2**521, np.int64(7), np.arange(3, dtype="u1"), [True, 1]):
        assert hides(name, value)


@pytest.mark.acceptance("X9")
@pytest.mark.parametrize(("name", "value"), SHOWN, ids=lambda part: str(part)[:20])
def test_what_is_no_secret_is_shown_whatever_its_name_reminds_of(name, value):
    assert not hides(name, value)
    assert shown_call("deposit", (), {name: value})[1] == {name: value}


@pytest.mark.acceptance("X9")
@pytest.mark.parametrize(("name", "value"), HIDDEN_DICTS, ids=lambda part: str(part)[:20])
def test_dicts_of_numbers_are_hidden_where_their_keys_may_be_secrets(name, value):
    assert hides(name, value)


def test_a_list_that_holds_itself_is_hidden():
    loop = [1]
    loop.append(loop)
    assert hides("max_tokens", loop)


@pytest.mark.acceptance("X9")
@pytest.mark.parametrize(("method", "value"), HIDING_METHODS)
def test_methods_that_are_given_a_secret(method, value):
    args, kwargs = shown_call(method, (value, True), {"more": value})
    assert [repr(one) for one in args] == ["<redacted>", "True"]
    assert repr(kwargs) == "{'more': <redacted>}"


@pytest.mark.acceptance("X9")
@pytest.mark.parametrize(("method", "value"), SHOWING_METHODS)
def test_methods_that_are_given_none_show_their_arguments(method, value):
    assert shown_call(method, (value,), {"round": 3}) == ([value], {"round": 3})
    assert repr(shown_call(method, (), {"password": WORD})[1]) == "{'password': <redacted>}"


def record():
    made = Inert("bank.Login", ("alice",), {"password": WORD})
    made.state = {"api_key": WORD, "user": "alice"}
    made.entries = {"token": WORD}
    return made


STRUCTURED = np.array([(1, WORD)], dtype=[("n", "i4"), ("password", "U7")])
NESTED = np.array(
    [((1, (WORD, 2)), 3)], dtype=[("row", [("n", "i4"), ("login", STRUCTURED.dtype.descr[::-1])]), ("x", "i4")]
)
HIDING = {
    "key of a dict": {"password": WORD, "user": "alice"},
    "key of bytes": {b"password": WORD, "user": "alice"},
    "key among odd ones": {"password": WORD, 7: "alice"},
    "key that looks like a description": {"$token": WORD, "user": "alice"},
    "nested": [{"user": "alice", "inner": ({"Authorization": f"Bearer {WORD}"},)}],
    "whole container": {"credentials": [{"a": {WORD}}], "user": "alice"},
    "ordered": OrderedDict(user="alice", secret=WORD),
    "record": record(),
    "structured array": {"user": "alice", "rows": STRUCTURED},
    "structured scalar": {"user": "alice", "row": STRUCTURED[0]},
    "field inside of a field": {"user": "alice", "rows": NESTED},
    "scalar with a field inside of a field": {"user": "alice", "row": NESTED[0]},
}


@pytest.mark.parametrize("where", HIDING)
def test_a_secret_is_hidden_in_json_and_repr_and_shown_on_demand(where):
    value = HIDING[where]
    for rendered in (json.dumps(jsonable(value)), short_repr(value), repr(value) if isinstance(value, Inert) else ""):
        assert WORD not in rendered
        assert "alice" in rendered or not rendered
    assert "<redacted>" in json.dumps(jsonable(value))
    with show_secrets():
        assert WORD in json.dumps(jsonable(value))
    assert WORD not in json.dumps(jsonable(value))


@pytest.mark.acceptance("X9")
def test_fields_of_arrays_are_hidden_by_their_kind():
    key = np.array([([1, 2],)], dtype=[("api_key_bytes", "u1", 2)])
    counts = np.array([(3, True, 0.5)], dtype=[("max_tokens", "i4"), ("has_token", "?"), ("token_ttl", "f8")])
    assert jsonable(counts)["head"] == [[3, True, 0.5]]
    assert jsonable(counts[0]) == [3, True, 0.5]
    for secret in (np.array([(1,)], dtype=[("pin", "i4")]), np.array([("x",)], dtype=[("token", "U7")]), key):
        assert jsonable(secret)["head"] == jsonable(secret[0]) == "<redacted>"


def test_a_value_is_not_changed_by_being_shown():
    value = {"password": [WORD]}
    jsonable(value)
    short_repr(value)
    assert value == {"password": [WORD]}


def test_showing_is_for_this_thread_alone():
    heard = []
    with show_secrets():
        thread = threading.Thread(target=lambda: heard.append(hides("password", WORD)))
        thread.start()
        thread.join()
        with show_secrets(()):
            assert hides("password", WORD)
        assert not hides("password", WORD)
    assert heard == [True]


@pytest.mark.acceptance("X9")
def test_what_is_asked_for_by_name_is_shown_and_nothing_else():
    state = {"token": WORD, "db_password": WORD, "nested": {"token": [WORD]}, b"token": WORD}
    with show_secrets(["token", "set_password", "password", "api_key"]) as showing:
        assert jsonable({**state, b"token": 1}) == jsonable({**state, "db_password": REDACTED, b"token": 1})
        assert short_repr(state).count(WORD) == 3
        assert hides("Token", WORD)
        assert showing.unused == ["api_key", "password", "set_password"]
        assert shown_call("set_password", (WORD,), {"user": "alice"}) == ([WORD], {"user": "alice"})
        assert repr(shown_call("set_token", (WORD,), {})[0]) == "[<redacted>]"
        assert shown_call("login", (), {"password": WORD}) == ([], {"password": WORD})
        assert showing.unused == ["api_key"]
    assert hides("token", WORD)


@pytest.mark.acceptance("X9")
def test_a_name_that_hides_nothing_cannot_be_asked_for():
    check_hidden(["token", "set_password", "api_key", "has_token"])
    for name in ("balance", "pasword", "tokn", "", "true", "take_tokens_type"):
        with pytest.raises(ConfigError, match="check the spelling"):
            check_hidden(["token", name])


def test_an_error_about_a_state_does_not_tell_keys_of_secrets():
    lock = threading.Lock()
    for state in ({"tokens": {WORD: lock}}, {"a": {"passwords": {WORD: [lock]}}}):
        with pytest.raises(StateNotSerializable) as caught:
            dump_state(state, "Worker.state")
        assert WORD not in str(caught.value) + repr(caught.value.evidence)
        assert "<redacted>" in str(caught.value)
    with pytest.raises(StateNotSerializable, match=r"TokenRing\.state\['conn'\]"):
        dump_state({"conn": lock}, "TokenRing.state")


def test_an_error_about_a_message_does_not_tell_its_secrets():
    with pytest.raises(MessageNotSerializable) as caught:
        dump_message("login", (), {"password": {WORD: threading.Lock()}})
    assert WORD not in str(caught.value)


@pytest.mark.acceptance("X9")
def test_an_error_tells_the_path_behind_what_only_reminds_of_a_secret_and_no_keys_of_secrets():
    lock = threading.Lock()
    for state, path in (
        ({"auth_method": {"alice": lock}}, "['auth_method']['alice']"),
        ({"tokenizer": [lock]}, "['tokenizer'][0]"),
        ({"secrets": {"name": {WORD: lock}}}, "['secrets'][<redacted>][<redacted>]"),
        ({"login": {"api_key": {"type": {WORD: lock}}}}, "['login']['api_key'][<redacted>][<redacted>]"),
    ):
        with pytest.raises(StateNotSerializable) as caught:
            dump_state(state, "TokenRing.state")
        assert caught.value.evidence["path"] == f"TokenRing.state{path}"
    with pytest.raises(MessageNotSerializable) as caught:
        dump_message("take_token", ({"alice": lock},), {})
    assert caught.value.evidence["path"] == ".take_token['args'][0]['alice']"
    with pytest.raises(MessageNotSerializable) as caught:
        dump_message("set_password", ({WORD: lock},), {})
    assert WORD not in str(caught.value) + repr(caught.value.evidence)


def test_an_error_about_an_option_does_not_tell_its_secrets():
    with pytest.raises(ConfigError) as caught:
        check_options({"runtime_env": {"env_vars": {"API_KEY": WORD}, "what": object()}})
    assert WORD not in str(caught.value)


@pytest.mark.parametrize("name", SECRET_TEXTS)
def test_many_names_are_looked_at_at_once(name):
    assert may_be_secrets(["balance", name, "count"])
    assert not may_be_secrets(["balance", "k000001", "count", "owner", "pas", "sword"])
    assert not may_be_secrets([])


@settings(max_examples=500, derandomize=True, deadline=None)
@given(
    st.lists(
        st.lists(
            st.sampled_from([*FRAGMENTS, *LAST_WORDS, *WORDS, "token", "ary", "secret", "pass", "word"])
            | st.text("aB_\n-. 1", max_size=2),
            max_size=4,
        ).map("".join),
        max_size=3,
    )
)
def test_no_secret_is_missed_among_many_names(names):
    assert may_be_secrets(names) or not any(map(is_secret_name, names))
