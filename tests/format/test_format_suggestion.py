"""What an error adds to an unknown name."""

from rayshot.format.suggestion import did_you_mean


def test_a_misspelled_name_gets_the_closest_known_name() -> None:
    assert did_you_mean("alcie", ["bob", "alice", "alina"]) == ". Did you mean 'alice'?"


def test_a_name_that_is_like_none_gets_nothing() -> None:
    assert did_you_mean("dave", ["bob", "alice"]) == ""
    assert did_you_mean("dave", []) == ""


def test_what_is_not_a_string_is_compared_as_one() -> None:
    assert did_you_mean(10, ["100", "bob"]) == ". Did you mean '100'?"


def test_too_many_known_names_are_not_compared() -> None:
    assert did_you_mean("alcie", ["alice", *map(str, range(10_000))]) == ""
