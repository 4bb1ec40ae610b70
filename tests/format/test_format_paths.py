"""The path to what cannot be pickled is found also where the state's own code fails when it is looked at."""

import threading
import weakref

import pytest

from rayshot.errors import MessageNotSerializable, StateNotSerializable
from rayshot.format.pickling import dump_message, dump_state

pytestmark = pytest.mark.acceptance("S2")


class Nameless:
    """Cannot be shown before it has a name."""

    def __repr__(self):
        return "Nameless " + self.name

    def __reduce__(self):
        return Nameless, ()


class Unbound:
    """Raises whatever it is asked for, as a proxy does outside of its context."""

    def __getattribute__(self, name):
        raise RuntimeError("working outside of context")


class Unspeakable(Exception):
    """Raises when it is shown."""

    def __str__(self):
        raise KeyError("text")


class Refusing:
    """Raises this error when it is pickled."""

    def __init__(self, error):
        self.error = error

    def __reduce__(self):
        raise self.error


def gone():
    """A proxy of an object that is gone."""
    return weakref.proxy(Nameless())


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({Nameless(): threading.Lock()}, "['part'][<Nameless>]"),
        ({frozenset([1]): [threading.Lock()]}, "['part'][frozenset({1})][0]"),
        ([gone()], "['part'][0]"),
        ([Unbound()], "['part'][0]"),
        (Refusing(Unspeakable()), "['part']"),
        (Refusing(SystemExit(3)), "['part']"),
    ],
)
def test_a_state_and_a_message_are_refused_with_the_path(value, path):
    with pytest.raises(StateNotSerializable) as state:
        dump_state({"part": value}, "alice")
    assert state.value.evidence["path"] == f"alice{path}"
    with pytest.raises(MessageNotSerializable) as message:
        dump_message("take", ({"part": value},), {})
    assert message.value.evidence["path"] == f".take['args'][0]{path}"
