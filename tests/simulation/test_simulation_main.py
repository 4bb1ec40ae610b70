"""Snapshots of a script in worlds of the same script, started anew: its classes stand for those that were recorded."""

import sys
import types
from types import SimpleNamespace

import pytest

import rayshot
from rayshot.errors import CodeMismatch
from rayshot.format.entries import Blob, CapturedState, Span
from rayshot.format.pickling import dump_names, put_again
from rayshot.model.fit import classes_of_main, fit
from rayshot.model.requirements import code_by_value
from rayshot.places.memory import MemoryStore
from rayshot.simulation import SimulatedSystem
from tests.simulation.test_simulation_evolution import Actor, account, bank, own_key  # noqa: F401 - fixtures
from tests.snapshots.snapshot_builder import Bank, Flow, make_snapshot, open_bank

pytestmark = pytest.mark.acceptance("X2")

PROGRAM = """
class Money:
    edition = {edition}

    class Kind:
        pass

    def __init__(self, amount):
        self.amount = amount


class Unused:
    pass
"""


@pytest.fixture
def script(monkeypatch):
    """This program's `__main__`, once it has run: `script(edition=2, **more)`."""

    def run(edition=1, **more):
        module = types.ModuleType("__main__")
        exec(PROGRAM.format(edition=edition), vars(module))
        vars(module).update(more)
        monkeypatch.setitem(sys.modules, "__main__", module)
        return module

    return run


class Teller(Actor):
    """What `bank.Account` is in this program."""

    def deposit(self, amount, money=None):
        self.taken = money

    def read(self): ...

    def transfer(self, to, amount): ...


def teller():
    return type("Account", (Teller,), {})


def stored(script):
    first = script(edition=1)
    purse = {"money": first.Money(1), "kind": first.Money.Kind(), "class": first.Money}
    flows = {("alice", "bob"): Flow(sent=1, kwargs={"money": first.Money(2)})}
    return make_snapshot(open_bank(MemoryStore()), Bank(states={"alice": purse, "bob": {}}, flows=flows))


def test_the_classes_of_a_script_stand_for_those_that_were_recorded(script, bank):  # noqa: F811
    snapshot = stored(script)
    bank(Account=teller())
    second = script(edition=2)
    world = SimulatedSystem.from_snapshot(snapshot)
    world.run()
    alice, bob = world.actors["alice"], world.actors["bob"]
    assert (type(alice.money), type(alice.kind), vars(alice)["class"]) == (
        second.Money,
        second.Money.Kind,
        second.Money,
    )
    assert type(bob.taken) is second.Money
    assert (bob.taken.amount, bob.taken.edition) == (2, 2)


def test_what_rename_classes_says_comes_before_the_script(script, bank):  # noqa: F811
    snapshot = stored(script)
    bank(Account=teller())
    script(edition=2)
    coin = type("Coin", (), {})
    world = SimulatedSystem.from_snapshot(snapshot, rename_classes={"__main__.Money": coin})
    world.run()
    assert type(world.actors["alice"].money) is type(world.actors["bob"].taken) is coin


def test_a_class_that_the_script_has_no_more_stays_the_recorded_one(script, bank):  # noqa: F811
    snapshot = stored(script)
    bank(Account=teller())
    recorded = sys.modules["__main__"].Money
    del script(edition=2).Money
    assert type(SimulatedSystem.from_snapshot(snapshot).actors["alice"].money) is recorded


def test_only_classes_that_the_snapshot_may_hold_are_taken_along(script, bank):  # noqa: F811
    snapshot = stored(script)
    bank(Account=teller())
    second = script(edition=2, Secret=type("Secret", (), {"file": sys.stderr}))
    names = fit(snapshot.manifest, snapshot.read).names
    assert names == {"__main__.Money": second.Money, "__main__.Money.Kind": second.Money.Kind}


def test_nothing_is_read_for_a_program_without_classes_of_its_own(bank, monkeypatch):  # noqa: F811
    bank(Account=account("deposit", "read", "transfer"))
    snapshot = make_snapshot(open_bank(MemoryStore()))
    program = types.ModuleType("__main__")
    program.Imported = Bank
    monkeypatch.setitem(sys.modules, "__main__", program)
    assert fit(snapshot.manifest, lambda blob: pytest.fail("it was read")).names == {}


def test_of_a_state_with_references_the_buffers_of_arrays_are_not_read_whole():
    parts = {
        Span(0, 0, 9): b"\x80\x05stream cloudpickle.cloudpickle " + put_again.__name__.encode(),
        Span(1, 0, 4): b"an a", Span(2, 0, 9): b"rray that is large",
        Span(3, 0, 9): b"\x80\x05a value ", Span(4, 0, 9): b"of a ref", Span(5, 0, 9): b" cloudpickle.cloudpickle",
    }  # fmt: skip
    stream, *buffers = (Blob(tuple(Span(n, 0, 4 if n == 1 else 9) for n in ns)) for ns in ((0,), (1, 2, 2), (3, 4, 5)))
    asked = []

    def read(blob):
        asked.append(blob)
        return b"".join(parts[span] for span in blob.spans)

    actor = SimpleNamespace(name="alice", state=CapturedState("cloudpickle", stream, tuple(buffers)))
    manifest = SimpleNamespace(actors=[actor], channels=[])
    found = [pickled for _, pickled in code_by_value(manifest, [], read)]
    assert found == [read(stream), read(buffers[1])]
    assert buffers[0] not in asked


def test_a_class_of_the_script_that_cannot_be_pickled_is_refused_by_its_name(script, bank):  # noqa: F811
    snapshot = stored(script)
    bank(Account=teller())
    script(edition=2).Money.log = sys.stderr
    with pytest.raises(CodeMismatch, match=r"rename_classes\['__main__\.Money'\].*cannot be brought"):
        dump_names(fit(snapshot.manifest, snapshot.read).names)


class Stubborn:
    """A global that answers whatever it is asked, and must not be asked."""

    def __getattr__(self, name):
        raise RuntimeError(f"asked for {name}")

    @property
    def __class__(self):
        raise RuntimeError("asked for its class")


def test_the_classes_of_main_are_known_by_their_place_in_it(script):
    @rayshot.actor
    class Clerk:
        class Badge:
            pass

    for cls, name in ((Clerk, "Clerk"), (Clerk.Badge, "Clerk.Badge")):
        cls.__module__, cls.__qualname__ = "__main__", name
    module = script(Clerk=Clerk, Imported=Bank, alias=Clerk.Badge, stubborn=Stubborn(), number=1)
    module.Money.itself = module.Money
    module.Money.Foreign = Bank
    found = classes_of_main()
    assert set(found) == {
        "__main__.Money", "__main__.Money.Kind", "__main__.Unused", "__main__.Clerk", "__main__.Clerk.Badge",
    }  # fmt: skip
    assert found["__main__.Clerk"] is Clerk
