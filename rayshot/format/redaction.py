"""What is not shown unless it is asked for: values whose name says that they are secrets.

A closed rule, so that one can know what it covers. A name is that of an attribute, of a key in a dict, of a keyword
argument, of a field of a numpy array, or for all arguments of a message, a timer or a continuation that of its
method. It is like a secret's if without signs and in small letters it contains one of FRAGMENTS, or if one of its
words is one of WORDS or ends in `token`. What has such a name is shown as `<redacted>`, whole, whatever is in it;
None, True and False stay.

It covers what is shown to eyes: the command line, Spark's tables, reprs and messages of errors. It is no protection of
the bytes, and covers neither positional arguments nor the results of calls.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

FRAGMENTS = (
    "password",
    "passwd",
    "passphrase",
    "secret",
    "credential",
    "authorization",
    "apikey",
    "accesskey",
    "privatekey",
    "signingkey",
    "encryptionkey",
    "connectionstring",
)
WORDS = frozenset({"pwd", "auth", "token", "tokens", "bearer", "cookie", "cookies"})
_TOKEN = ("token", "tokens")
_NAME_LENGTH_MAX = 1_000
"""So much of a name is looked at."""

_SIGNS = re.compile(r"[\W_]+")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_shown: ContextVar[bool] = ContextVar("rayshot secrets shown", default=False)


class Redacted:
    """Stands for a value that is not shown."""

    def __repr__(self) -> str:
        return "<redacted>"


REDACTED = Redacted()


@contextmanager
def show_secrets(*, shown: bool = True) -> Iterator[None]:
    """Inside, in this thread or task, nothing is redacted unless `shown` is False."""
    token = _shown.set(shown)
    try:
        yield
    finally:
        _shown.reset(token)


def is_secret_name(name: str) -> bool:
    """Whether `name` is like that of a secret, by the rule above."""
    name = name[:_NAME_LENGTH_MAX]
    joined = _SIGNS.sub("", name).lower()
    if any(fragment in joined for fragment in FRAGMENTS):
        return True
    return any(word.lower() in WORDS or word.lower().endswith(_TOKEN) for word in _WORD.findall(name))


def hides(name: object, value: object) -> bool:
    """Whether `value` is not to be shown under `name`, which may be anything: only texts and bytes name secrets."""
    if value is None or isinstance(value, bool) or _shown.get():
        return False
    if isinstance(name, bytes):
        name = name[:_NAME_LENGTH_MAX].decode("ascii", "replace")
    return isinstance(name, str) and is_secret_name(name)


def shown(name: object, value: Any) -> Any:
    """`value`, or REDACTED."""
    return REDACTED if hides(name, value) else value


def shown_mapping(mapping: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """`mapping` itself, or a copy with REDACTED for what is not to be shown of it."""
    if any(hides(name, value) for name, value in mapping.items()):
        return {name: shown(name, value) for name, value in mapping.items()}
    return mapping


def shown_call(method: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a message; all of them REDACTED where the method's own name is like a secret's."""
    return [shown(method, value) for value in args], {
        name: shown(method, shown(name, value)) for name, value in kwargs.items()
    }


def shown_timers(timers: Any) -> Any:
    """The timers of a recorded actor, (seconds left, method, arguments), as `shown_call` shows what they will call."""
    return [_shown_timer(timer) for timer in timers] if isinstance(timers, list) else timers


def shown_calls(calls: Any) -> Any:
    """The calls that an actor awaits, (method, method for errors, context) by id, as `shown_timers` shows timers."""
    return {number: _shown_awaited(call) for number, call in calls.items()} if isinstance(calls, dict) else calls


def _shown_timer(timer: Any) -> Any:
    match timer:
        case (left, str(method), tuple(args)):
            return left, method, tuple(shown_call(method, args, {})[0])
    return timer


def _shown_awaited(call: Any) -> Any:
    match call:
        case (str(method), str() | None as on_error, tuple(context)):
            for name in (method, on_error or ""):
                context = tuple(shown_call(name, context, {})[0])
            return method, on_error, context
    return call
