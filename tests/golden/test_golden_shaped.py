"""Kept snapshots that say the shapes of classes: every version reads them, and loads their values by name."""

import dataclasses
import enum
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

import rayshot
from rayshot.audit import prove
from rayshot.cli import main
from rayshot.errors import CodeMismatch
from rayshot.keys.signing import SigningKey
from rayshot.simulation import SimulatedSystem
from tests.golden.release import KEY, storages

HERE = Path(__file__).parent
FORMATS = storages("shaped")
MODULE = "tests.golden.workloads"

pytestmark = [pytest.mark.parametrize("kept", FORMATS), pytest.mark.acceptance("S10")]


class Level(enum.Enum):
    NONE = enum.auto()
    LOW = enum.auto()
    HIGH = enum.auto()


class Right(enum.Flag):
    RUN = enum.auto()
    READ = enum.auto()
    WRITE = enum.auto()


@dataclasses.dataclass(frozen=True, slots=True)
class Price:
    currency: str
    cents: int
    tax: int = 0


class Row(NamedTuple):
    n: int
    who: str


class Low(enum.Enum):
    LOW = enum.auto()


class Rank(enum.IntFlag):
    NONE = enum.auto()
    LOW = enum.auto()
    HIGH = enum.auto()


class Single(enum.Enum):
    RUN = 1
    READ = 2
    WRITE = 3


@dataclasses.dataclass
class Open:
    currency: str
    cents: int


@dataclasses.dataclass
class Line:
    n: int
    who: str


class Plain: ...


TODAY = {f"{MODULE}.{kind.__name__}": kind for kind in (Level, Right, Price, Row)}


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("RAYSHOT_SIGNING_KEY", KEY)


def payday(kept):
    return rayshot.open(HERE / kept).system("bank").latest()


def test_it_is_proved_and_says_the_shapes(kept):
    snapshot = payday(kept)
    assert snapshot.verify([SigningKey(KEY.encode())]).trusted
    assert prove(snapshot, [snapshot]).sound
    (till,) = snapshot.manifest.actors
    assert {name: (shape.kind, shape.parts) for name, shape in till.shapes.items()} == {
        f"{MODULE}.Level": ("enum", (("LOW", 1), ("HIGH", 2))),
        f"{MODULE}.Price": (
            "fields" if kept == "shaped-1" else "row",
            (("cents", None), ("currency", None)),
        ),
        f"{MODULE}.Right": ("flag", (("READ", 1), ("WRITE", 2))),
        f"{MODULE}.Row": ("fields", (("who", None), ("n", None))),
    }


def test_its_values_are_those_of_their_names_in_classes_that_changed(kept):
    till = SimulatedSystem.from_snapshot(payday(kept), rename_classes=TODAY).actors["till"]
    assert till.held == [Level.HIGH, Right.READ | Right.WRITE, Price("USD", 500), Row(3, "w")]


def test_a_member_that_is_gone_is_refused_with_both_sides(kept):
    with pytest.raises(CodeMismatch) as caught:
        SimulatedSystem.from_snapshot(payday(kept), rename_classes={f"{MODULE}.Level": Low})
    assert "has till with HIGH in tests.golden.workloads.Level(LOW=1, HIGH=2), the program has" in str(caught.value)
    assert "Low(LOW=1)" in str(caught.value)


def test_its_values_are_those_of_their_names_in_classes_of_another_kind(kept):
    kinds = {"Level": Rank, "Price": Open, "Row": Line}
    names = {f"{MODULE}.{name}": kind for name, kind in kinds.items()}
    held = SimulatedSystem.from_snapshot(payday(kept), rename_classes=names).actors["till"].held
    assert [held[0], *held[2:]] == [Rank.HIGH, Open("USD", 500), Line(3, "w")]


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("Right", Single, r"the value 3 in .*Right\(READ=1, WRITE=2\), a flag, .*Single\(RUN=1, .*WRITE=3\), an enum"),
        (
            "Row",
            Plain,
            r"recorded values in .*Row\(who, n\), a named tuple or struct, .*Plain, which has no such parts",
        ),
        ("Level", Line, r"recorded values in .*Level\(LOW=1, HIGH=2\), an enum, .*Line\(n, who\), a dataclass"),
    ],
)
def test_what_no_class_of_another_kind_can_take_is_refused_with_both_sides(kept, name, kind, says):
    with pytest.raises(CodeMismatch, match=says):
        SimulatedSystem.from_snapshot(payday(kept), rename_classes={f"{MODULE}.{name}": kind})


@pytest.mark.acceptance("R1")
def test_a_drill_loads_by_name_too_and_refuses_as_a_restore_does(kept):
    def drill(kind):
        moved = f"{MODULE}.Level={__name__}.{kind.__name__}"
        return CliRunner().invoke(main, ["drill", str(HERE / kept), "--rename-class", moved])

    assert drill(Level).exit_code == 0
    gone = drill(Low)
    assert gone.exit_code == 14
    assert "has till with HIGH in tests.golden.workloads.Level(LOW=1, HIGH=2), the program has" in gone.stderr
