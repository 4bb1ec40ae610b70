"""Versions of states and the hook that migrates them: what is refused at decoration, and what a migration may do."""

import dataclasses

import pytest

import rayshot
from rayshot.errors import ConfigError, MigrationFailed
from rayshot.model.specification import ActorSpecification
from rayshot.model.versions import attributes_of, migrate, required_fields
from tests.model.workloads import Account


class Counter:
    """At version 2 it counts in `total`, before that it did in `count`."""

    def __init__(self):
        self.total = 0

    def add(self):
        self.total += 1

    @staticmethod
    def migrate(state, from_version):
        return {"total": state["count"] + from_version}


def specified(actor_class):
    return ActorSpecification.of(actor_class, {})


def test_a_version_is_in_the_specification_and_in_its_bytes():
    specification = specified(rayshot.actor(version=2)(type("Counter1", (Counter,), {})))
    assert specification.version == 2
    assert ActorSpecification.unpack(specification.pack()) == specification
    assert specified(Account).version == 1


@pytest.mark.parametrize("version", [0, -1, True, 1.0, "2", None, 2**63])
def test_a_version_is_a_whole_number_from_1(version):
    with pytest.raises(ConfigError, match="whole number from 1"):
        rayshot.actor(version=version)


def test_a_version_is_the_class_s_own_and_no_option_of_one_actor():
    with pytest.raises(ConfigError, match="no option 'version'"):
        Account.options(version=2)


def test_a_class_has_one_version():
    class Once:
        pass

    rayshot.actor(version=2)(Once)
    with pytest.raises(ConfigError, match="Once has version 2 already"):
        rayshot.actor(version=3)(Once)


def test_a_migration_is_no_handler_but_a_method_of_that_name_at_version_1_is():
    class Traveller:
        def migrate(self, country): ...

    assert specified(rayshot.actor(version=2)(type("Counter2", (Counter,), {}))).methods == ("add",)
    assert specified(rayshot.actor(Traveller)).methods == ("migrate",)


def test_a_migration_may_be_a_class_method_and_may_be_inherited():
    class Base:
        @classmethod
        def migrate(cls, state, from_version, *, strict=True):
            return {**state, "of": cls.__name__}

    class Derived(Base):
        pass

    specification = specified(rayshot.actor(version=3)(Derived))
    assert migrate({"a": 1}, 2, Derived, specification.version, "x") == {"a": 1, "of": "Derived"}


@pytest.mark.parametrize(
    ("hook", "why"),
    [
        (lambda self, state, from_version: state, "staticmethod"),
        (staticmethod(lambda state: state), r"called with \(state, from_version\)"),
        (classmethod(lambda cls, state, from_version, to_version: state), r"called with \(state, from_version\)"),
        (7, "staticmethod"),
    ],
)
def test_a_migration_that_cannot_be_called_is_refused_at_decoration(hook, why):
    with pytest.raises(ConfigError, match=why):
        rayshot.actor(version=2)(type("Odd", (), {"migrate": hook}))


def test_a_migration_that_would_have_to_be_awaited_is_refused_at_decoration():
    class Waiting:
        @staticmethod
        async def migrate(state, from_version): ...

    with pytest.raises(ConfigError, match="coroutine"):
        rayshot.actor(version=2)(Waiting)


def test_states_of_the_same_version_are_left_alone():
    state = {"total": 1}
    assert migrate(state, 2, Counter, 2, "x") is state


def test_a_migration_that_raises_is_named_with_actor_class_and_place():
    with pytest.raises(MigrationFailed, match=r"'x'.*Counter\.migrate.*version 1.*KeyError.*\.py:\d+") as raised:
        migrate({}, 1, Counter, 2, "x")
    assert raised.value.evidence["actor"] == "x"
    assert raised.value.evidence["class_name"].endswith("Counter")
    assert isinstance(raised.value.__cause__, KeyError)


def test_a_migration_that_returns_nothing_or_leaves_out_a_field_fails():
    @dataclasses.dataclass
    class Holder:
        owner: str
        balance: int = 0

        @staticmethod
        def migrate(state, from_version):
            return state

    with pytest.raises(MigrationFailed, match="without owner"):
        migrate({"balance": 1}, 1, Holder, 2, "x")
    with pytest.raises(MigrationFailed, match="returned None"):
        migrate(None, 1, Holder, 2, "x")
    assert migrate({"owner": "a"}, 1, Holder, 2, "x") == {"owner": "a"}


def test_fields_without_default_are_required_unless_the_class_takes_its_state_by_itself():
    @dataclasses.dataclass
    class Holder:
        owner: str
        kind: dataclasses.InitVar[str]
        names: list = dataclasses.field(default_factory=list)

    class Own(Holder):
        def __setstate__(self, state): ...

    assert required_fields(Holder) == {"owner"}
    assert required_fields(Own) == required_fields(Counter) == frozenset()


def test_attributes_are_those_that_pickle_would_set():
    assert attributes_of({"a": 1}) == {"a"}
    assert attributes_of((None, {"b": 1})) == {"b"}
    assert attributes_of(({"a": 1}, {"b": 1})) == {"a", "b"}
    assert attributes_of([1]) is None
