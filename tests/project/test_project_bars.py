"""The bars of the project's structure: what is counted, and when a figure fails."""

import ast
import json
from pathlib import PurePath
from types import ModuleType

import pytest

from tests.processes import ROOT

SCRIPT = ROOT / "scripts/bars"
bars = ModuleType("bars")
bars.__file__ = str(SCRIPT)
exec(compile(SCRIPT.read_text(), SCRIPT, "exec"), bars.__dict__)


def source(text, path="rayshot/model/some.py"):
    return bars.Source(PurePath(path), text, ast.parse(text))


@pytest.mark.parametrize(
    "text",
    ["import ray", "import os, ray.util as u", "from ray.actor import ActorHandle", "def f():\n    import ray"],
)
def test_a_folder_imports_a_package_at_the_top_or_later(text):
    found = [source(text), source("import rayshot, os.ray\nfrom .ray import a", "rayshot/log/other.py")]
    assert bars.folders_that_import("ray", found) == {PurePath("rayshot/model")}


def test_asserts_are_counted_in_methods_and_inner_functions_too():
    text = "class A:\n    def f(self):\n        assert self\n        async def g(): return lambda: 1\n"
    assert bars.asserts_in_ten_functions([source(text), source("def h(): pass")]) == 3.33
    assert bars.asserts_in_ten_functions([source("x = 1")]) == 0.0


@pytest.mark.parametrize(
    ("clause", "count"),
    [
        ("except:", 1),
        ("except Exception:", 1),
        ("except (ValueError, BaseException) as error:", 1),
        ("except (ValueError, OSError):", 0),
        ("except errors.Exception:", 0),
    ],
)
def test_an_except_is_broad_if_it_catches_every_error(clause, count):
    assert bars.broad_excepts([source(f"try: pass\n{clause} raise")]) == count


def test_a_name_is_used_twice_by_public_classes_of_two_modules():
    text = "class Twice: pass\nclass _Own: pass\n"
    found = [source(text + "class Once:\n    class Inner: pass"), source(text + "def f():\n    class Once: pass")]
    assert bars.names_used_twice(found) == {"Twice"}


@pytest.mark.parametrize(
    ("path", "room"),
    [
        ("rayshot/model/cell.py", "rayshot/model"),
        ("rayshot/model/deep/cell.py", "rayshot/model"),
        ("rayshot/runtime/wire/packets.py", "rayshot/runtime/wire"),
        ("integrations/pyspark_rayshot/lake/parts.py", "integrations/pyspark_rayshot"),
    ],
)
def test_a_module_counts_for_its_room(path, room):
    found = [source("", path), source("", str(PurePath(path).with_name("__init__.py")))]
    assert bars.modules_by_room(found) == {PurePath(room): 1}


@pytest.fixture
def project(tmp_path):
    """A small one that all bars let pass."""
    for folder in ("rayshot/runtime/coordinator", "integrations", "tests", "docs/benchmarks"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "rayshot/runtime/coordinator/some.py").write_text("def f():\n    assert True\n")
    publish_walk(tmp_path, files=0)
    return tmp_path


def publish_walk(project, files):
    names = ("a tell: files", "a tell: files passed twice", "a death: files")
    figures = [{"name": name, "value": files} for name in names]
    (project / "docs/benchmarks/walk.json").write_text(json.dumps({"benchmarks": {"walk": {"figures": figures}}}))


def test_only_a_figure_that_is_worse_than_its_limit_fails(capsys, monkeypatch, project):
    assert bars.main(project) == 0
    assert "better than its limit: set that to 10.00" in capsys.readouterr().out
    monkeypatch.setitem(bars.BARS, "lines of the product", bars.Bar(limit=1, goal=0, why="for a test"))
    assert bars.main(project) == 1
    assert "WORSE than its limit (for a test)" in capsys.readouterr().out
    monkeypatch.setitem(bars.BARS, "lines of the product", bars.Bar(limit=2, goal=0, why="for a test"))
    assert bars.main(project) == 0
    assert "missed by 2" in capsys.readouterr().out


def test_a_published_walk_that_is_longer_than_its_limit_fails(capsys, project):
    publish_walk(project, files=1_000)
    assert bars.main(project) == 1
    worse = [line for line in capsys.readouterr().out.splitlines() if "WORSE" in line]
    assert [line.partition("  ")[0] for line in worse] == [name for name in bars.BARS if name.startswith("files that")]
