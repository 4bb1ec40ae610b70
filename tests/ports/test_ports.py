"""Behaviours of Ray actors, each run as plain Ray and as rayshot, and docs/porting.md, which says what to expect."""

import collections
import itertools
import re
from pathlib import Path

import pytest

from rayshot.model import methods, options
from tests.ports.all_behaviours import BEHAVIOURS, GROUPS
from tests.ports.behaviour import CLASSES
from tests.ports.worlds import Worlds, judge

ROOT = Path(__file__).parents[2]
PORTING = ROOT / "docs" / "porting.md"
ROW = re.compile(r'^\| <a id="([a-z-]+)"></a>(.+?) \| (\w+) \|', re.MULTILINE)

BEYOND = pytest.mark.wide("one more behaviour of a row of the porting table, or one more that works as in Ray")

pytestmark = pytest.mark.acceptance("O8")


def rows():
    """Class by anchor, of each row of the table."""
    found = ROW.findall(PORTING.read_text())
    assert len({anchor for anchor, _, _ in found}) == len(found)
    return {anchor: kind for anchor, _, kind in found}


@pytest.fixture(scope="module")
def worlds(cluster, tmp_path_factory):
    made = Worlds(tmp_path_factory.mktemp("ports"))
    yield made
    made.close()


def cases():
    """All behaviours; `make test` runs one of each row that differs from plain Ray, and some of those that do not."""
    rows_seen, works = {"works"}, itertools.count()
    for one in BEHAVIOURS:
        kind = "works" if one.kind == "works" else one.row
        few = kind not in rows_seen or (kind == "works" and next(works) % 25 == 0)
        rows_seen.add(kind)
        yield pytest.param(one, id=f"{one.group}-{one.name}", marks=() if few else BEYOND)


@pytest.mark.ray
@pytest.mark.parametrize("behaviour", list(cases()))
def test_a_behaviour_is_as_the_porting_table_says(worlds, behaviour):
    plain, outcome = worlds.run(behaviour)
    assert judge(behaviour, plain, outcome) == ""


def test_every_row_of_the_table_is_shown_and_every_behaviour_is_in_it():
    shown = collections.defaultdict(set)
    for behaviour in BEHAVIOURS:
        shown[behaviour.row].add(behaviour.kind)
    assert {row: {kind} for row, kind in rows().items()} == dict(shown)


def test_the_groups_are_all_there_and_most_behaviours_work():
    modules = {group.__name__.rpartition(".")[2] for group in GROUPS}
    assert modules == {behaviour.group for behaviour in BEHAVIOURS}
    counts = collections.Counter(behaviour.kind for behaviour in BEHAVIOURS)
    assert counts == dict(zip(CLASSES, (264, 14, 32), strict=True)), "none is lost unseen"


def test_whatever_an_error_says_of_the_porting_table_is_there():
    named = {
        anchor
        for path in ROOT.glob("rayshot/**/*.py")
        for anchor in re.findall(r"(?:rayshot help porting#|porting\([\"'])([\w-]+)", path.read_text())
    }
    named |= {line for _, line in (*methods._OPTIONS.values(), *options._REFUSED.values())}
    there = set(re.findall(r'<a id="([\w-]+)">', PORTING.read_text()))
    assert named
    assert named <= there
