"""Programs that people write for Ray, and the same on rayshot, of which an actor is killed in the middle."""

import difflib
import importlib
import re
import threading

import pytest

import rayshot
from tests.processes import ROOT
from tests.runtime.healed import HEALS, kill, until_it_runs
from tests.waiting import eventually

TEXT = "the actors of a tree ask their children and the children ask theirs until a leaf is asked which counts"
EDGES = [(k, k + 7) for k in range(0, 200, 3)] + [(k, 2 * k) for k in range(1, 60, 4)]
POINTS = [(x / 10, 3 * x / 10 - 1) for x in range(-10, 11)]

pytestmark = pytest.mark.ray


def program(name, form):
    return importlib.import_module(f"examples.ports.{form}.{name}")


def lines(name, form):
    return (ROOT / "examples" / "ports" / form / f"{name}.py").read_text().splitlines()


def who_is_asked(system):
    """An actor for whose answer another one waits now; None if there is none."""
    return next((callee for one in system.status().actors.values() for callee in one.waits_for or ()), None)


@pytest.mark.parametrize(("name", "count"), [("tree", 1), ("union_find", 3), ("parameter_server", 2)])
def test_a_program_comes_over_by_its_decorators_and_little_else(name, count):
    plain, moved = lines(name, "plain"), lines(name, "moved")
    changed = [line for line in difflib.ndiff(plain, moved) if re.match(r"\+ .*\S", line)]
    assert changed.pop(0) == "+ import rayshot"
    assert len(changed) == count


@pytest.mark.acceptance("A5")
@pytest.mark.parametrize(
    ("name", "args", "actors"),
    [("tree", (TEXT, 300), 7), ("union_find", (EDGES,), 6), ("parameter_server", (POINTS, 60), 4)],
)
def test_a_program_that_came_over_is_killed_and_ends_as_the_plain_one(cluster, tmp_path, name, args, actors):
    expected = program(name, "plain").run(*args)
    found = []
    with rayshot.init(
        f"port-{name.replace('_', '-')}",
        storage=tmp_path,
        failure=HEALS,
        snapshot=rayshot.SnapshotConfig(interval_s=0.3),
    ) as system:
        moved = program(name, "moved")
        thread = threading.Thread(target=lambda: found.append(moved.run(*args)), daemon=True)
        thread.start()
        eventually(lambda: len(system.status().actors) == actors, 60)
        system.snapshot()  # from now on no call is lost with an actor that must be made again
        kill(system, eventually(lambda: who_is_asked(system), 60))
        until_it_runs(system, 2)
        thread.join(120)
        assert system.status().aborted == 0
    (result,) = found
    if name == "parameter_server":  # floats, in an order that nobody fixes
        assert result[1] == expected[1] == 900
        assert result[0] == pytest.approx((3.0, -1.0), abs=1e-3)
    else:
        assert result == expected
