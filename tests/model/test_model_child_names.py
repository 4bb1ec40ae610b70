"""Names of anonymous actors: they follow from the message whose handler makes them, and are random elsewhere."""

import itertools

import pytest

from rayshot.errors import ConfigError
from rayshot.model.child_names import ChildNames, child_name, random_name

MESSAGE = ("alice", "driver:x", 7)


def test_a_name_is_the_class_and_a_mark_and_fits_however_long_the_class_is():
    assert random_name("Bank.Account")[:-16] == "bank-account-"
    assert random_name("make.<locals>.Bank.Account")[:-16] == "bank-account-"
    assert child_name("Bank.Account", *MESSAGE, 0)[:-16] == "bank-account-"
    assert len(random_name("x" * 500)) == len(child_name("x" * 500, *MESSAGE, 0)) == 128
    with pytest.raises(ConfigError, match="control characters"):
        child_name("two\nlines", *MESSAGE, 0)


def test_the_name_of_a_child_never_changes_with_the_version_of_rayshot():
    assert child_name("Account", *MESSAGE, 0) == "account-fb458b80b760fa26"


def test_everything_that_tells_two_creations_apart_is_in_the_name():
    made_by = itertools.product(("a", "a1"), ("b", "1b", "driver:b"), (1, 11, 2), (0, 1, 11))
    names = [child_name("Account", *one) for one in made_by]
    assert len(set(names)) == len(names) == 54
    assert len({random_name("Account") for _ in range(100)}) == 100


def test_names_are_counted_for_each_message_by_itself():
    names = ChildNames("alice")
    taken = [names.take("Account", *message) for message in (("bob", 1), ("bob", 1), ("bob", 2), ("carol", 1))]
    expected = [("bob", 1, 0), ("bob", 1, 1), ("bob", 2, 0), ("carol", 1, 0)]
    assert taken == [child_name("Account", "alice", *one) for one in expected]
