"""Specifications: a class found again in another process, by its name or by value."""

import subprocess
import sys

import msgpack
import pytest

from rayshot.errors import BadManifest, CodeMismatch
from rayshot.model.specification import ActorSpecification
from tests.model.workloads import Account, Configured

SCRIPT = """
import pathlib, sys, rayshot
from rayshot.model.specification import ActorSpecification

LIMIT = 100

@rayshot.actor
class Account:
    def __init__(self, balance):
        self.balance = min(balance, LIMIT)

    def own_class(self):
        return Account

specification = ActorSpecification.of(Account, {"num_cpus": 1})
pathlib.Path(sys.argv[1]).write_bytes(specification.pack())
"""


def test_a_specification_survives_its_bytes():
    specification = ActorSpecification.of(Configured, {"num_cpus": 2, "capture": "inline"})
    again = ActorSpecification.unpack(specification.pack())
    assert again == specification
    assert again.methods == ("read",)


def test_options_that_nobody_gave_have_their_defaults():
    specification = ActorSpecification.of(Account, {})
    assert (specification.capture, specification.on_error, specification.ray_options) == ("auto", "continue", {})


def test_a_class_that_others_can_import_travels_by_name():
    specification = ActorSpecification.of(Account, {})
    assert specification.class_pickle is None
    assert (specification.class_module, specification.class_name) == ("tests.model.workloads", "Account")


def test_a_class_inside_a_function_travels_by_value(world):
    step = 3

    class Stepping:
        def __init__(self):
            self.count = 0

        def go(self):
            self.count += step

    specification = ActorSpecification.of(Stepping, {})
    assert specification.class_pickle is not None
    assert "<locals>" in specification.class_name
    world.construct(Stepping)
    world.tell("go")
    moved = world.moved()
    moved.tell("go")
    assert moved.cell.instance.count == 6


def test_a_class_of_a_script_comes_to_life_in_another_process(tmp_path):
    script, packed = tmp_path / "script.py", tmp_path / "specification"
    script.write_text(SCRIPT)
    subprocess.run([sys.executable, script, packed], check=True, timeout=60)
    specification = ActorSpecification.unpack(packed.read_bytes())
    assert specification.class_module == "__main__"
    found = specification.resolve()
    account = found(1000)
    assert account.balance == 100
    assert issubclass(account.own_class(), found)
    assert account.own_class().options(name="child")


@pytest.mark.acceptance("G18")
def test_a_class_that_is_gone_is_named_with_the_way_out():
    specification = ActorSpecification("tests.model.workloads", "Moved", None, (), {})
    with pytest.raises(CodeMismatch, match=r"tests\.model\.workloads\.Moved.*rename_classes") as raised:
        specification.resolve()
    assert raised.value.evidence == {"class_name": "tests.model.workloads.Moved"}


@pytest.mark.parametrize("fields", [[], ["m", "n", None, []], ["m", "n", 7, [], {}], ["m", "n", None, {}, {}], 3])
def test_bytes_that_are_no_specification_are_refused(fields):
    with pytest.raises(BadManifest, match="cannot be read"):
        ActorSpecification.unpack(msgpack.packb(fields))
