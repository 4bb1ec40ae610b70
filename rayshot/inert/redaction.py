"""Hides values whose names say that they are secrets, unless a user asks for them.

It protects values that open something to everybody who sees them: passwords, PINs and keys; the tokens, cookies and
headers that replace them; strings that contain one of these, such as a connection string. It protects what people see:
the command line, Spark's tables, reprs, and messages of errors. It does not protect the bytes.

The rule is closed, so that a user can know what it covers. It looks at the names of attributes, of keys in a dict, of
keyword arguments and of fields of a numpy array. Signs, digits and capital letters divide a name into words.

- A name is that of a secret where, without signs and in small letters, it contains one of FRAGMENTS; or its last word
  (in front of one of ENDINGS, as in `pin_number`) is one of LAST_WORDS; or one of its words is one of WORDS or ends in
  `token`. But not where its last word is one of ABOUT, as in `token_type` and `private_key_path`.
- What has such a name is hidden, whole, whatever is in it. None, True and False stay, and a time, and what is empty.
- Numbers stay, alone, in lists of any depth, and as texts of digits, where another word, one of QUANTITIES, says that
  they are not secret: `max_tokens`, `password_attempts`. So do those of `tokens`, alone or behind one of USES:
  `prompt_tokens`.
- Numbers in a dict stay where the same holds, or the name begins as in `tokens_by_user`, and where it says besides that
  the keys are not secrets, and these are short texts or integers. It does so by what stands behind `by` or `per`, if
  that is not a secret's name and has none of UNCLEAR in it; by one of ALLOTTED at its end, as in `token_budget`; or by
  `tokens` behind one of SUMS or USES, as in `max_tokens`. A dict under any other name may have secrets as keys.
- But all are hidden where the name ends in the secret itself, one of FRAGMENTS or LAST_WORDS, as in `last_used_pin`.
- Positional arguments have no names. They are hidden where their method says that it is given a secret: as if they
  had the name that stands behind one of GIVING, as in `set_password`, or that of a method that is the name of a secret
  and no more, as in `api_key`. `take_token` and `has_password` say no such thing. The same holds for timers and
  continuations.

Neither other positional arguments are covered, nor the results of calls, nor the fields of a named tuple or of a frozen
dataclass with slots whose class is not in the pickle: those have no names there.
"""

import datetime as dt
import re
import sys
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import Any, TypeVar

from rayshot.errors import ConfigError

FRAGMENTS = (
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pincode",
    "secret",
    "credential",
    "apikey",
    "accesskey",
    "privatekey",
    "signingkey",
    "encryptionkey",
    "hmackey",
    "sshkey",
    "masterkey",
    "connectionstring",
    "connstr",
    "authorization",
)
LAST_WORDS = frozenset({"pwd", "pass", "pin", "otp", "totp", "dsn"})
ENDINGS = frozenset({"number", "numbers", "code", "codes", "value", "values", "digits"})
WORDS = frozenset({"auth", "oauth", "bearer", "jwt", "cookie", "cookies", "creds", "pins"})
ABOUT = frozenset(
    {
        *("type", "kind", "name", "format", "length", "status", "policy", "method", "mode", "scheme", "algorithm"),
        *("provider", "issuer", "scope", "scopes", "path", "file"),
    }
)
QUANTITIES = frozenset(
    {
        *("max", "min", "n", "num", "count", "counts", "total", "limit", "quota", "budget", "size"),
        *("used", "left", "remaining", "attempts", "tries", "retries", "failures", "has", "is", "version", "ids"),
        *("age", "ttl", "expires", "expiry", "issued", "at", "since", "until", "timestamp", "timeout", "window"),
        *("seconds", "minutes", "hours", "days", "interval", "duration", "rate", "per", "cost", "price"),
        *("index", "indices", "position", "positions", "offset", "length", "lengths", "weights"),
    }
)
"""Of something, or about its time. `number` is none, as in `secret_number`, except in `number_of`."""
USES = frozenset({"prompt", "completion", "input", "output", "cached"})
"""Of the tokens of a language model, which are counted."""
SUMS = frozenset({"max", "min", "total", "n", "num"})
ALLOTTED = frozenset({"budget", "budgets", "quota", "quotas"})
"""What somebody has."""
UNCLEAR = frozenset(
    {
        *("key", "keys", "session", "sessions", "id", "ids", "header", "headers", "hash", "hashes"),
        *("value", "values", "code", "codes", "text", "texts", "string", "strings", "digits"),
    }
)
"""What may be a secret behind `by`."""
GIVING = frozenset(
    {
        *("set", "put", "add", "use", "with", "store", "save", "register", "enter", "provide", "submit", "hash"),
        *("give", "new", "change", "update", "replace", "reset", "rotate", "renew", "refresh", "revoke"),
        *("check", "verify", "validate"),
    }
)
"""What a method does with a secret that it is given. One that takes, passes, has or counts tokens is given none."""
_TOKEN = ("token", "tokens")
_NAME_LENGTH_MAX = 1_000
"""So much of a name is looked at."""
_NAMES_KEPT_MAX = 1_000
"""Rows of a table have the same few names."""
_NUMBERS_LOOKED_AT_MAX = 100_000
"""A longer list is hidden without a look at all that is in it."""
_HOLDER_LENGTH_MAX = 20
"""So long is a key that is not a secret; tokens are longer."""

_SIGNS = re.compile(r"[\W_]+")
_SIGNS_IN_LINES = re.compile(r"[^\w\n]+|_+")
_IN_SECRET_NAMES = (*FRAGMENTS, *LAST_WORDS, *WORDS, "token")
"""Each name of a secret has one of these in it, without signs and in small letters."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_STEPS = re.compile(r"[^\w\s-]+")
_SECRETARY = re.compile("secretar(y|ies|iat)")
_NUMBERS = (int, float, complex, Decimal, dt.date, dt.time, dt.timedelta)
_STAND_INS: Mapping[str, object] = MappingProxyType({"b": True, **dict.fromkeys("iufcmM", 0)})
"""By the kind of a numpy dtype a value of that kind: truth values and numbers are not hidden as texts are."""
_KINDS_OF_NUMBERS = "biufcmM"
"""Of numpy's dtypes."""
_KINDS_OF_FLAGS_AND_TIMES = "bmM"


class Redacted:
    """Stands for a value that is not shown."""

    def __repr__(self) -> str:
        return "<redacted>"


REDACTED = Redacted()


class Showing:
    """What is shown all the same: what has one of `names`, everything where that is None."""

    def __init__(self, names: Collection[str] | None) -> None:
        self._names = None if names is None else frozenset(names)
        self._used: set[str] = set()

    @property
    def unused(self) -> list[str]:
        """The names under which nothing would have been hidden so far."""
        return sorted((self._names or frozenset()) - self._used)

    def shows(self, name: str) -> bool:
        """Whether that which would be hidden under `name` is shown."""
        if self._names is None:
            return True
        if name in self._names:
            self._used.add(name)
        return name in self._names


_Item = TypeVar("_Item")
_showing: ContextVar[Showing | None] = ContextVar("rayshot secrets shown", default=None)


@contextmanager
def show_secrets(names: Collection[str] | None = None) -> Iterator[Showing]:
    """Inside, in this thread or task, show what has one of `names`; None means everything."""
    showing = Showing(names)
    token = _showing.set(showing)
    try:
        yield showing
    finally:
        _showing.reset(token)


def with_secrets_shown(names: Collection[str] | None, items: Iterator[_Item]) -> Iterator[_Item]:
    """`items`, each made with what `show_secrets` shows, and nothing else is; any thread may ask for the next one.

    A `with` in a generator would hold for whoever asks it for items, also between two of them.
    """
    context = copy_context()
    context.run(_showing.set, Showing(names))
    while True:
        try:
            yield context.run(next, items)
        except StopIteration:
            return


def is_secret_name(name: str) -> bool:
    """Whether `name` is that of a secret, by the rule above."""
    return _is_secret(name[:_NAME_LENGTH_MAX])


@lru_cache(_NAMES_KEPT_MAX)
def _is_secret(name: str) -> bool:
    words = _words(name)
    if not words or words[-1] in ABOUT:
        return False
    joined = _joined(name)
    return (
        any(fragment in joined for fragment in FRAGMENTS)
        or _last_word(words) in LAST_WORDS
        or any(word in WORDS or word.endswith(_TOKEN) for word in words)
    )


def name_taken(method: str) -> str | None:
    """The name of the secret that `method` says to be given, by the rule above; None where it says no such thing."""
    method = method[:_NAME_LENGTH_MAX]
    words = _words(method)
    place = next((place for place, word in enumerate(words, 1) if word in GIVING), None)
    if place is not None:
        name = "_".join(words[place:])
    elif len(words) == 1 or _joined(method) in FRAGMENTS:
        name = method
    else:
        return None
    return name if is_secret_name(name) else None


def may_be_secrets(names: Collection[str]) -> bool:
    """Whether one of `names` may be that of a secret; False is certain. It looks at all of them at once."""
    lines = "\n".join(names)
    if lines.count("\n") >= max(1, len(names)):  # a name is more than one line
        return True
    joined = _SIGNS_IN_LINES.sub("", lines).lower()
    return any(word in joined for word in _IN_SECRET_NAMES)


def is_secret_path(path: str) -> bool:
    """Whether a step of a path, such as `.login['password']`, is named like a secret: what comes next may be one."""
    return any(is_secret_name(step) for step in _STEPS.split(path))


def check_hidden(names: Collection[str]) -> None:
    """Raise ConfigError for a name that hides nothing, so that asking to show it is a mistake."""
    for name in names:
        if not is_secret_name(name) and name_taken(name) is None:
            raise ConfigError(
                f"rayshot never hides anything named {name!r}, so there is nothing to show: check the spelling",
                name=name,
            )


def hides(name: object, value: object) -> bool:
    """Whether `value` is not to be shown under `name`, which may be anything: only texts and bytes name secrets."""
    if isinstance(name, bytes):
        name = name[:_NAME_LENGTH_MAX].decode("ascii", "replace")
    return isinstance(name, str) and _is_hidden(name, value, name)


def hides_a_field(dtype: Any) -> bool:
    """Whether a numpy dtype has a field, at any depth, that is named like a secret."""
    waiting = [dtype.base]
    while waiting:
        fields = waiting.pop().fields or {}
        if any(hides(name, _STAND_INS.get(field.base.kind, REDACTED)) for name, (field, *_) in fields.items()):
            return True
        waiting += [field.base for field, *_ in fields.values()]
    return False


def shown(name: object, value: Any) -> Any:
    """`value`, or REDACTED."""
    return REDACTED if hides(name, value) else value


def shown_mapping(mapping: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """`mapping` itself, or a copy with REDACTED for what is not to be shown of it."""
    if any(hides(name, value) for name, value in mapping.items()):
        return {name: shown(name, value) for name, value in mapping.items()}
    return mapping


def shown_call(method: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a message, with REDACTED for what its method's name hides, or their own."""
    taken = name_taken(method)

    def told(value: Any) -> Any:
        return REDACTED if taken is not None and _is_hidden(taken, value, method) else value

    return [told(value) for value in args], {name: told(shown(name, value)) for name, value in kwargs.items()}


def shown_timers(timers: Any) -> Any:
    """The timers of a recorded actor, (seconds left, method, arguments), as `shown_call` shows what they will call."""
    return [_shown_timer(timer) for timer in timers] if isinstance(timers, list) else timers


def shown_calls(calls: Any) -> Any:
    """The calls that an actor awaits, (method, method for errors, context) by id, as `shown_timers` shows timers."""
    return {number: _shown_awaited(call) for number, call in calls.items()} if isinstance(calls, dict) else calls


def _is_hidden(name: str, value: object, asked: str) -> bool:
    """Whether `name` hides `value`, unless somebody has asked for it by the name that he sees."""
    if _is_flag_or_time(value) or _is_empty(value) or not is_secret_name(name):
        return False
    if _holds_quantities(name, value):
        return False
    showing = _showing.get()
    return showing is None or not showing.shows(asked)


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def _joined(name: str) -> str:
    return _SECRETARY.sub("", _SIGNS.sub("", name).lower())


def _is_empty(value: object) -> bool:
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return bool(value.size == 0)
    return isinstance(value, str | bytes | bytearray | list | tuple | dict | set | frozenset | deque) and not value


def _is_flag_or_time(value: object) -> bool:
    numpy = sys.modules.get("numpy")
    return isinstance(value, bool | dt.date | dt.time | dt.timedelta | None) or (
        numpy is not None and isinstance(value, numpy.generic) and value.dtype.kind in _KINDS_OF_FLAGS_AND_TIMES
    )


def _holds_quantities(name: str, value: object) -> bool:
    """Whether a value is nothing but numbers and times, and the name of a secret says that they are none."""
    if not isinstance(value, dict):
        return _says_a_quantity(name) and _is_number(value)
    return _tells_holders(name) and all(map(_is_holder, value)) and _are_numbers(value.values())


def _is_number(value: object) -> bool:
    """Whether a value is a number, a time or a text of digits, or holds numbers and times and nothing else."""
    if isinstance(value, str):
        return value.isdecimal()
    return value is not None and _are_numbers([value])


def _are_numbers(values: Collection[Any]) -> bool:
    """Whether all are None, numbers and times, or lists and sets of such."""
    numpy = sys.modules.get("numpy")
    waiting, looked_at = [values], 0
    while waiting:
        some = waiting.pop()
        looked_at += 1 + len(some)
        if looked_at > _NUMBERS_LOOKED_AT_MAX:
            return False
        for one in some:
            if isinstance(one, list | tuple | set | frozenset | deque):
                waiting.append(one)
            elif one is not None and not isinstance(one, _NUMBERS):
                if numpy is None or not isinstance(one, numpy.ndarray | numpy.generic):
                    return False
                if one.dtype.kind not in _KINDS_OF_NUMBERS:
                    return False
    return True


def _is_holder(key: object) -> bool:
    return isinstance(key, int) or (isinstance(key, str) and len(key) <= _HOLDER_LENGTH_MAX)


def _tells_holders(name: str) -> bool:
    """Whether a dict of numbers under the name of a secret says, by the rule above, how much of it each key has."""
    words = _words(name[:_NAME_LENGTH_MAX])
    place = next((place for place, word in enumerate(words) if word in {"by", "per"}), None)
    if place is not None:
        rest = words[place + 1 :]
        if not rest or is_secret_name("_".join(rest)) or not UNCLEAR.isdisjoint(rest):
            return False
        return _are_counted_tokens(words[:place]) or _says_a_quantity(name)
    if words[-1] in ALLOTTED:
        return _says_a_quantity(name)
    return words[-1] == "tokens" and len(words) > 1 and (SUMS | USES).issuperset(words[:-1])


def _are_counted_tokens(words: list[str]) -> bool:
    return words[-1:] == ["tokens"] and USES.issuperset(words[:-1])


def _says_a_quantity(name: str) -> bool:
    """Whether numbers under the name of a secret are of something, by the rule above, and not the secret itself."""
    words = _words(name[:_NAME_LENGTH_MAX])
    if _are_counted_tokens(words):
        return True
    if _last_word(words) in LAST_WORDS or "".join(_without_endings(words)).endswith(FRAGMENTS):
        return False
    return not QUANTITIES.isdisjoint(words) or ("number", "of") in pairwise(words)


def _without_endings(words: list[str]) -> list[str]:
    """The words in front of `number`, `code` and the like, which do not say of what."""
    return words[:-1] if len(words) > 1 and words[-1] in ENDINGS else words


def _last_word(words: list[str]) -> str:
    return _without_endings(words)[-1]


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
