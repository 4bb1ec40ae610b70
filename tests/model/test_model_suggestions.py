"""An error about a name that is not known ends with the known name that is nearest to it."""

import pytest

from rayshot.cli.predicates import find_property
from rayshot.errors import ConfigError, RayshotError
from rayshot.model.configuration import SnapshotConfig
from rayshot.model.methods import check_method_options, unknown_method
from rayshot.model.options import check_options
from rayshot.runtime.wire.initiation import check_spread


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (lambda: check_options({"num_cpu": 1}), "num_cpus"),
        (lambda: check_method_options("Account.read", {"num_return": 1}), "num_returns"),
        (lambda: SnapshotConfig(mode="alinged"), "aligned"),
        (lambda: check_spread({"alice": ["bob"], "bob": []}, ["alcie"], "coordinator"), "alice"),
        (lambda: find_property("terminatoin", ()), "termination"),
    ],
)
def test_an_error_about_an_unknown_name_ends_with_the_nearest_one(given, meant):
    with pytest.raises(RayshotError, match=rf"Did you mean '{meant}'\?$"):
        given()


class Account:
    def read(self):
        return 1

    def rows(self):
        yield 1


@pytest.mark.parametrize("user_class", [None, Account])
def test_a_misspelt_method_gets_the_nearest_one_and_no_advice_about_generators(user_class):
    said = str(unknown_method("alice", "depsoit", ["read", "deposit"], user_class))
    assert said == "actor 'alice' has no method 'depsoit'; it has deposit, read. Did you mean 'deposit'?"


def test_who_knows_the_class_of_an_actor_speaks_of_generators_only_if_the_method_is_one():
    assert str(unknown_method("alice", "x", ["read"], Account)) == "actor 'alice' has no method 'x'; it has read"
    assert "In its class 'rows' is a generator" in str(unknown_method("alice", "rows", ["read"], Account))
    assert "; it has read. If 'x' is a generator" in str(unknown_method("alice", "x", ["read"]))


def test_an_unknown_name_that_is_near_to_nothing_is_not_guessed_at():
    with pytest.raises(ConfigError) as raised:
        check_options({"zzz": 1})
    assert "Did you mean" not in str(raised.value)
