"""Snapshots of yesterday's classes in worlds of today's: migrated, mapped, left out, or refused with both sides."""

import collections
import pickle
import platform
import sys
import types
from dataclasses import make_dataclass, replace
from importlib.machinery import ModuleSpec

import cloudpickle
import msgpack
import numpy as np
import pytest

import rayshot
from rayshot.errors import (
    ActorNotFound,
    CodeMismatch,
    ConfigError,
    MigrationFailed,
    PythonMismatch,
)
from rayshot.format.outline import outline
from rayshot.format.pickling import dump_class, dump_state, put_again
from rayshot.model.fit import fit
from rayshot.model.handle import ActorHandle
from rayshot.model.specification import ActorSpecification
from rayshot.places.memory import MemoryStore
from rayshot.simulation import SimulatedSystem
from rayshot.snapshots.chunk_reader import ChunkReader
from rayshot.snapshots.chunk_writer import ChunkWriter
from tests.snapshots.snapshot_builder import KEY, Bank, Flow, make_manifest, make_snapshot, open_bank


@pytest.fixture(autouse=True)
def own_key(monkeypatch):
    monkeypatch.setenv("RAYSHOT_SIGNING_KEY", KEY.secret.decode())


class Actor:
    """What is decorated when it is put into the program."""


class Ledger(Actor):
    """What `bank.Account` has become: it holds cents, and a currency."""

    def deposit(self, amount):
        self.cents += 100 * amount

    def read(self):
        return self.cents

    def transfer(self, to, amount): ...

    @classmethod
    def migrate(cls, state, from_version):
        return {"cents": 100 * state["balance"], "from": from_version}


@pytest.fixture
def bank(monkeypatch):
    """The module `bank` of this program: `bank(Account=...)` says what is in it."""

    def program(version=1, **classes):
        module = types.ModuleType("bank")
        for name, cls in classes.items():
            cls.__module__, cls.__qualname__ = "bank", name
            setattr(module, name, rayshot.actor(version=version)(cls) if issubclass(cls, Actor) else cls)
        module.__spec__ = ModuleSpec("bank", None)
        monkeypatch.setitem(sys.modules, "bank", module)
        return module

    return program


def account(*methods, **namespace):
    return type("Account", (Actor,), {**{name: lambda self, *args: None for name in methods}, **namespace})


USUAL = ("deposit", "read", "transfer")


def stored(usual=None, **options):
    return make_snapshot(open_bank(MemoryStore()), usual or Bank(), **options)


def evolve(**namespace):
    return type("Account", (Ledger,), namespace)


def test_an_older_state_is_migrated_before_it_is_taken(bank):
    bank(version=3, Account=evolve())
    world = SimulatedSystem.from_snapshot(stored(Bank(version=2)))
    assert world.state("alice") == {"cents": 9000, "from": 2}
    world.run()
    assert world.actors["bob"].cents == 100 * (10 + 30 + 40 + 50)


def test_a_migrated_state_goes_through_setstate(bank):
    taken = []
    bank(version=2, Account=evolve(__setstate__=lambda self, state: taken.append(state)))
    SimulatedSystem.from_snapshot(stored())
    assert taken == [{"cents": 9000, "from": 1}, {"cents": 1000, "from": 1}]


@pytest.mark.acceptance("G18")
def test_a_newer_version_is_refused_with_both_sides(bank):
    bank(version=2, Account=evolve())
    with pytest.raises(CodeMismatch, match=r"alice of class bank.Account at version 3.*bank.Account at version 2"):
        SimulatedSystem.from_snapshot(stored(Bank(version=3)))


@pytest.mark.acceptance("G18")
def test_an_older_version_without_a_migration_is_refused_with_both_sides(bank):
    bank(version=2, Account=account(*USUAL))
    with pytest.raises(CodeMismatch, match=r"at version 1, the program has bank.Account at version 2 without migrate"):
        SimulatedSystem.from_snapshot(stored())


def test_a_migration_that_fails_names_actor_and_class(bank):
    bank(version=2, Account=evolve())
    with pytest.raises(MigrationFailed, match=r"'alice': bank\.Account\.migrate.*KeyError\('balance'\)"):
        SimulatedSystem.from_snapshot(stored(Bank(states={"alice": {}, "bob": {}})))


@pytest.mark.acceptance("G18")
def test_a_method_that_messages_in_flight_call_must_be_there(bank):
    bank(Account=account("read", "put"))
    with pytest.raises(CodeMismatch, match=r"messages in flight from alice of bob .* call deposit.*with put, read"):
        SimulatedSystem.from_snapshot(stored())
    bank(Account=account("deposit", "read"))  # nothing calls transfer
    SimulatedSystem.from_snapshot(stored())


@pytest.mark.acceptance("G18")
@pytest.mark.parametrize(
    ("pending", "why"),
    [
        (Bank(flows={}, timers=[(1.0, "transfer", ())]), "timers of alice .* call transfer"),
        (Bank(flows={}, calls={1: ("read", "transfer", ())}), "pending replies of alice .* call transfer"),
    ],
)
def test_a_method_that_timers_and_replies_call_must_be_there(bank, pending, why):
    bank(Account=account("deposit", "read"))
    with pytest.raises(CodeMismatch, match=why):
        SimulatedSystem.from_snapshot(stored(pending))


@pytest.mark.acceptance("G18")
def test_a_field_without_default_must_be_in_the_state(bank):
    made = make_dataclass("Account", [("balance", int), ("owner", str), ("limit", int, 7)], bases=(Actor,))
    for name in USUAL:
        setattr(made, name, lambda self, *args: None)
    bank(Account=made)
    with pytest.raises(CodeMismatch, match=r"alice of class bank.Account with balance, .*requires balance, owner"):
        SimulatedSystem.from_snapshot(stored())
    states = {name: {"balance": 1, "owner": name, "array": np.zeros(9)} for name in ("alice", "bob")}
    assert SimulatedSystem.from_snapshot(stored(Bank(states=states))).state("alice")["owner"] == "alice"


@pytest.mark.acceptance("G18")
def test_a_class_that_is_gone_is_named_with_its_actors_and_what_there_is(bank):
    bank(Teller=account())
    with pytest.raises(CodeMismatch, match=r"no bank.Account.*class of alice, bob.*in bank Teller") as raised:
        SimulatedSystem.from_snapshot(stored())
    assert raised.value.evidence["classes"] == ["bank.Account"]


@pytest.mark.acceptance("G18")
@pytest.mark.parametrize("new", [Ledger, f"{__name__}.Ledger"])
def test_a_class_that_moved_is_mapped_by_class_or_by_name(new):
    world = SimulatedSystem.from_snapshot(
        stored(Bank(states={"alice": {"cents": 1}, "bob": {"cents": 2}})), rename_classes={"bank.Account": new}
    )
    world.run()
    assert world.actors["bob"].cents == 2 + 100 * 120
    assert type(world.actors["bob"]) is Ledger


@pytest.mark.parametrize(
    "rename_classes",
    [
        {"bank.Account": "nowhere.Account"},
        {"bank.Account": 7},
        {"Account": Ledger},
        {7: Ledger},
        {"bank.Account": "sys.path"},
        [7],
    ],
)
def test_renamed_classes_that_name_nothing_is_refused(rename_classes):
    with pytest.raises(ConfigError, match="rename_classes"):
        SimulatedSystem.from_snapshot(stored(), rename_classes=rename_classes)


class Money:
    def __init__(self, amount):
        self.amount = amount


class Coin(Money):
    """What `bank.Money` has become."""


class Purse(Actor):
    def deposit(self, money):
        self.held.append(money)

    def read(self): ...
    def transfer(self, to, amount): ...


def test_values_inside_states_and_messages_are_mapped_too(bank, monkeypatch):
    bank(Money=Money)
    repository = open_bank(MemoryStore())
    call = pickle.dumps(("deposit", (Money(5),), {}), protocol=5)
    body = msgpack.packb([0, "pickle", call])
    monkeypatch.setattr(Flow, "part", lambda self, first, last: msgpack.packb([first, 1, body]))
    flows = {("alice", "bob"): Flow(sent=1)}
    snapshot = make_snapshot(repository, Bank(states={"alice": {"held": [Money(1)]}, "bob": {"held": []}}, flows=flows))
    bank(Coin=Coin)
    with pytest.raises(CodeMismatch, match="Money"):
        SimulatedSystem.from_snapshot(snapshot, rename_classes={"bank.Account": Purse})
    world = SimulatedSystem.from_snapshot(snapshot, rename_classes={"bank.Account": Purse, "bank.Money": "bank.Coin"})
    world.run()
    assert not world.dead_letters
    for name, amount in (("alice", 1), ("bob", 5)):
        (held,) = world.actors[name].held
        assert (type(held), held.amount) == (Coin, amount)


def test_actors_whose_class_is_gone_are_left_out_if_that_is_allowed(bank):
    bank()
    flows = {("alice", "bob"): Flow(sent=5, received=2), ("driver:main", "alice"): Flow(sent=2)}
    with pytest.raises(CodeMismatch, match=r"no actor .* is left"):
        SimulatedSystem.from_snapshot(stored(Bank(flows=flows)), skip_missing_classes=True)
    world = SimulatedSystem.from_snapshot(
        stored(Bank(flows=flows)), skip_missing_classes=["alice"], rename_classes={"bank.Account": Ledger}
    )
    assert set(world.actors) == {"bob"}
    assert set(world.ended) == {"alice"}
    assert [(d.sender, d.receiver, d.number, d.method) for d in world.dead_letters] == [
        ("driver:main", "alice", 1, "deposit"),
        ("driver:main", "alice", 2, "deposit"),
    ]
    assert "left out" in world.dead_letters[0].error
    assert [(one.sender, one.number) for one in world.pending] == [("alice", 3)]  # what it had sent still arrives
    world.snapshot()
    assert world.snapshots[-1].ended == ("alice",)


def test_who_is_left_out_by_name_must_be_there():
    with pytest.raises(ActorNotFound, match="no carol to leave out; it has alice, bob"):
        SimulatedSystem.from_snapshot(stored(), skip_missing_classes=["carol"])
    with pytest.raises(ConfigError, match="list of actors' names"):
        SimulatedSystem.from_snapshot(stored(), skip_missing_classes="alice")


def test_code_by_value_of_another_python_is_refused_and_code_by_name_is_not(bank):
    bank(Account=account(*USUAL))
    SimulatedSystem.from_snapshot(stored(Bank(python_version="3.10")))
    bank(Account=account(*USUAL))
    states = {"alice": {"rule": lambda amount: amount + 1}, "bob": {}}
    assert SimulatedSystem.from_snapshot(stored(Bank(states=states))).state("alice")["rule"](1) == 2
    with pytest.raises(PythonMismatch, match=r"written by Python 3\.10 .* in the state of alice"):
        SimulatedSystem.from_snapshot(stored(Bank(states=states, python_version="3.10")))


@pytest.mark.parametrize("value", [lambda amount: amount + 1, 7])
def test_code_by_value_in_the_value_of_a_reference_is_found_too(bank, monkeypatch, value):
    class Reference:
        def __reduce__(self):
            return put_again, (pickle.PickleBuffer(cloudpickle.dumps(value, protocol=5)),)

    def dump(state, name):
        return dump_state(state, name)._replace(codec="cloudpickle")  # as a state with a reference is

    bank(Account=account(*USUAL))
    monkeypatch.setattr("tests.snapshots.snapshot_builder.dump_state", dump)
    snapshot = stored(Bank(states={"alice": {"rules": [Reference()]}, "bob": {}}, python_version="3.10"))
    if value == 7:
        fit(snapshot.manifest, snapshot.read)
    else:
        with pytest.raises(PythonMismatch, match="in the state of alice"):
            fit(snapshot.manifest, snapshot.read)


def test_handles_in_older_states_know_the_methods_of_today(bank):
    """A handle is recorded with the methods of its actor's class: what was added since must be reachable."""

    class First(Actor):
        def greet(self):
            self.other.added.tell()

    class Second(First):
        def added(self):
            self.seen = True

    known = ActorHandle("bank", "bob", frozenset({"deposit", "read", "transfer"}), None)
    snapshot = stored(Bank(states={"alice": {"other": known}, "bob": {}}, flows={}))
    bank(Account=Second)
    world = SimulatedSystem.from_snapshot(snapshot)
    world.get_actor("alice").greet.tell()
    world.run()
    assert world.actors["bob"].seen
    assert not world.dead_letters


def test_an_outline_needs_neither_classes_nor_buffers():
    values = {
        "array": np.arange(5.0),
        "nested": collections.OrderedDict(a=collections.defaultdict(list, b=[1])),
        "by value": type("Dynamic", (dict,), {"__module__": "__main__"}),
        "plain": [1, {"x": (2.5, b"c")}],
    }
    stream = cloudpickle.dumps(values, protocol=5, buffer_callback=lambda buffer: False)
    outlined = outline(stream)
    assert outlined.keys() == values.keys()
    assert outlined["plain"] == values["plain"]


def test_an_actor_whose_creation_was_in_flight_is_born_in_the_class_of_today(monkeypatch):
    recorded = ActorSpecification("bank", "Account", None, USUAL, {})
    create = SimulatedSystem().create(Ledger, name="x")._port.codec.create
    create = create(recorded.pack(), msgpack.packb(["__init__"]))
    parts = {1: msgpack.packb([1, 2, create + msgpack.packb(["deposit", 3])])}
    monkeypatch.setattr(Flow, "part", lambda self, first, last: parts[first])
    bank = Bank(states={"alice": {"cents": 0}}, unborn=["bob"], flows={("alice", "bob"): Flow(sent=2)})
    world = SimulatedSystem.from_snapshot(stored(bank), rename_classes={"bank.Account": Opened})
    world.run()
    assert world.actors["bob"].cents == 300
    assert type(world.actors["bob"]) is Opened
    world.snapshot()
    assert world.snapshots[-1].actors["bob"].specification.class_name == "Opened"


class Opened(Ledger):
    def __init__(self):
        self.cents = 0


def test_a_class_by_value_of_another_python_is_refused(bank, monkeypatch):
    bank()
    by_value = account(*USUAL)
    repository = open_bank(MemoryStore())
    writer = ChunkWriter(repository.store, "bank", "1-coordinator-1")
    writer.add(dump_class(by_value))
    (blob,), chunks = writer.finish()

    def remade(version):
        made = make_manifest(repository, Bank(python_version=version), 1)
        actors = tuple(replace(actor, class_pickle=blob) for actor in made.actors)
        return replace(made, actors=actors, chunks=(*made.chunks, *chunks))

    monkeypatch.setattr(repository, "intend", lambda snapshot, base: str(snapshot))
    reader = ChunkReader(repository.store, "bank", {chunk.digest: chunk for chunk in remade("3.11").chunks})
    here = ".".join(platform.python_version_tuple()[:2])
    assert fit(remade(here), reader.read).specifications["alice"].class_pickle is not None
    with pytest.raises(PythonMismatch, match=r"the class bank\.Account of alice, .*restore it with Python 3\.2"):
        fit(remade("3.2"), reader.read)


def test_a_message_in_flight_that_names_a_class_that_is_gone_is_named_before_it_is_handled(bank, monkeypatch):
    bank(Money=Money)
    call = pickle.dumps(("deposit", (Money(5),), {}), protocol=5)
    body = msgpack.packb([1, 7, msgpack.packb([0, "pickle", call])])
    monkeypatch.setattr(Flow, "part", lambda self, first, last: msgpack.packb([first, 1, body]))
    snapshot = stored(Bank(states={"alice": {"held": []}, "bob": {"held": []}}, flows={("alice", "bob"): Flow(sent=1)}))
    bank()
    with pytest.raises(CodeMismatch, match=r"message 1 in flight to 'bob' holds bank\.Money, .*rename_classes"):
        SimulatedSystem.from_snapshot(snapshot, rename_classes={"bank.Account": Purse})
    bank(Money=Money)
    SimulatedSystem.from_snapshot(snapshot, rename_classes={"bank.Account": Purse})


def test_classes_that_lost_nothing_are_fitted_without_reading_a_byte(bank):
    bank(version=2, Account=evolve())

    def read(blob):
        raise AssertionError("nothing needs to be read")

    fitting = fit(stored().manifest, read)
    assert {name: specification.version for name, specification in fitting.specifications.items()} == {
        "alice": 2,
        "bob": 2,
    }
