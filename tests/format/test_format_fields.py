"""Fields that objects pickle by place, without their names: where the pickle holds the class, it knows them."""

import dataclasses
import json
import typing

import pytest

from rayshot.format.pickling import dump_state
from rayshot.inert import reader
from rayshot.inert.digest import content_digest
from rayshot.inert.inert_object import short_repr
from rayshot.inert.jsonable import jsonable
from rayshot.inert.redaction import show_secrets

WORD = "hunter2"


def of_main(cls):
    """As if a script had defined it."""
    cls.__module__, cls.__qualname__ = "__main__", cls.__name__
    return cls


def classes():
    """A script's classes whose objects pickle no names."""

    @dataclasses.dataclass(frozen=True, slots=True)
    class Config:
        kind: typing.ClassVar[str] = "config"
        seed: dataclasses.InitVar[int]
        user: str
        api_key: str = dataclasses.field(kw_only=True)
        tries: int = dataclasses.field(default=3, init=False)

        def __post_init__(self, seed):
            pass

    @dataclasses.dataclass(frozen=True, slots=True)
    class Wide(Config):
        zone: str = "eu"

    class Narrow(Config):
        pass

    class Login(typing.NamedTuple):
        user: str
        password: str

    class Admin(Login):
        pass

    return [of_main(cls) for cls in (Config, Wide, Narrow, Login, Admin)]


def read(value):
    pickled = dump_state(value, "alice")
    return reader.read(pickled.stream, pickled.buffers)


CONFIG, WIDE, NARROW, LOGIN, ADMIN = classes()
CONFIG_FIELDS = {"user": "alice", "api_key": "<redacted>", "tries": 3}
LOGIN_FIELDS = {"user": "alice", "password": "<redacted>"}
VALUES = [
    (CONFIG(1, "alice", api_key=WORD), CONFIG_FIELDS),
    (WIDE(1, "alice", api_key=WORD), {**CONFIG_FIELDS, "zone": "eu"}),
    (NARROW(1, "alice", api_key=WORD), CONFIG_FIELDS),
    (LOGIN("alice", WORD), LOGIN_FIELDS),
    (ADMIN("alice", WORD), LOGIN_FIELDS),
]


@pytest.mark.parametrize(("value", "fields"), VALUES, ids=lambda part: type(part).__name__)
def test_fields_have_their_names_and_secrets_among_them_are_hidden(value, fields):
    (record,) = read([value])
    assert jsonable(record) == {"$class": f"__main__.{type(value).__name__}", **fields}
    assert list(jsonable(record))[1:] == list(fields)
    assert record["user"] == "alice"
    assert WORD not in short_repr(record)
    assert "user='alice'" in short_repr(record)
    with show_secrets():
        assert WORD in json.dumps(jsonable(record))
        assert WORD in short_repr(record)


@pytest.mark.parametrize(("value", "_"), VALUES, ids=lambda part: type(part).__name__)
def test_a_digest_does_not_tell_a_secret_field(value, _):
    config = isinstance(value, CONFIG)
    hidden, shown = ("api_key", "tries") if config else ("password", "user")

    def digest_with(**changes):
        if not config:
            return content_digest(read(value._replace(**changes)))
        other = object.__new__(type(value))
        for field in dataclasses.fields(value):
            object.__setattr__(other, field.name, changes.get(field.name, getattr(value, field.name)))
        return content_digest(read(other))

    assert digest_with(**{hidden: "x"}) == digest_with(**{hidden: "y"})
    assert digest_with(**{shown: "x"}) != digest_with(**{shown: "y"})


def test_an_object_that_its_own_class_holds_has_its_names_too():
    _, _, _, login, _ = classes()
    login.ROOT = login("root", WORD)
    one, root = read([login("alice", WORD), login.ROOT])
    assert jsonable([one, root]) == [
        {"$class": "__main__.Login", "user": name, "password": "<redacted>"} for name in ("alice", "root")
    ]


class Odd:
    """Pickles what it likes by place."""

    __slots__ = ("user", "word")

    def __getstate__(self):
        return [self.word, self.user]

    def __setstate__(self, state):
        self.word, self.user = state


def test_a_list_that_a_class_makes_itself_gets_no_names():
    odd = object.__new__(of_main(Odd))
    odd.user, odd.word = "alice", "x"
    assert jsonable(read(odd)) == {"$class": "__main__.Odd", "$state": ["x", "alice"]}


def test_what_does_not_fit_the_fields_of_its_class_gets_no_names():
    _, _, _, login, _ = classes()
    login._fields = ("user",)
    assert jsonable(read(login("alice", 7))) == {"$class": "__main__.Login", "$args": ["alice", 7]}
    login._fields = ("user", "user")
    assert jsonable(read(login("alice", 7))) == {"$class": "__main__.Login", "$args": ["alice", 7]}
