"""What is named like a secret is not shown, wherever it stands, unless somebody says so."""

import json
import threading
from collections import OrderedDict

import numpy as np
import pytest

from rayshot.errors import ConfigError, MessageNotSerializable, StateNotSerializable
from rayshot.format.inert import Inert, jsonable, short_repr
from rayshot.format.pickling import dump_message, dump_state
from rayshot.format.redaction import hides, is_secret_name, show_secrets, shown_call
from rayshot.model.specification import check_options

pytestmark = pytest.mark.acceptance("G25")
WORD = "hunter2"


@pytest.mark.parametrize(
    "name",
    [
        *("password", "PASSWORD", "db_password", "dbPassword", "Password1", "_passwd", "pass_phrase", "pwd", "secrets"),
        *("token", "access_token", "accessToken", "AUTH_TOKEN", "authtoken", "refresh-token", "tokens", "bearer"),
        *("api_key", "apiKey", "X-API-Key", "APIKEY", "aws_access_key", "aws_secret_access_key", "privateKey", "auth"),
        *("private key", "credential", "Credentials", "authorization", "Proxy-Authorization", "cookie", "signing_key"),
        *("client_secret_value", "azure.connection.string", "__token__", "HTTPToken", "encryption_key"),
    ],
)
def test_names_like_those_of_secrets(name):
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "balance",
        "key",
        "keys",
        "monkey",
        "tokenizer",
        "authors",
        "author",
        "pass",
        "passed",
        "broken",
        "",
        "密码",
        "k" * 10**6,
    ],
)
def test_names_that_are_not(name):
    assert not is_secret_name(name)


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


def test_what_cannot_be_a_secret_stays():
    assert jsonable({"has_token": True, "token": None, "password": False}) == {
        "has_token": True,
        "token": None,
        "password": False,
    }
    assert not hides(7, WORD)


def test_a_value_is_not_changed_by_being_shown():
    value = {"password": [WORD]}
    jsonable(value)
    short_repr(value)
    assert value == {"password": [WORD]}


def test_arguments_of_a_method_named_like_a_secret_are_hidden():
    args, kwargs = shown_call("set_password", (WORD, True), {"user": "alice"})
    assert [repr(one) for one in args] == ["<redacted>", "True"]
    assert repr(kwargs) == "{'user': <redacted>}"
    args, kwargs = shown_call("login", ("alice",), {"password": WORD})
    assert (args, repr(kwargs)) == (["alice"], "{'password': <redacted>}")


def test_showing_is_for_this_thread_alone():
    heard = []
    with show_secrets():
        thread = threading.Thread(target=lambda: heard.append(hides("password", WORD)))
        thread.start()
        thread.join()
        with show_secrets(shown=False):
            assert hides("password", WORD)
        assert not hides("password", WORD)
    assert heard == [True]


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


def test_an_error_about_an_option_does_not_tell_its_secrets():
    with pytest.raises(ConfigError) as caught:
        check_options({"runtime_env": {"env_vars": {"API_KEY": WORD}, "what": object()}})
    assert WORD not in str(caught.value)
