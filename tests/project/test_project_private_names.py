"""Private names of Ray, and public ones that not each supported release has, are said in one module."""

import ast
import os
import re
import subprocess
import sys
import tomllib

import pytest
import ray

from rayshot.errors import UnsupportedVersion
from rayshot.runtime.door import private_names
from tests.processes import ROOT, search_path
from tests.written import check_written

HOME = ROOT / "rayshot/runtime/door/private_names.py"
LOSSES = ROOT / "docs/support.md"
NAMES = ROOT / "docs/design/0037-one-door-to-ray.md"
SOURCES = [path for path in (*ROOT.glob("rayshot/**/*.py"), *ROOT.glob("integrations/**/*.py")) if path != HOME]
PATH = re.compile(r"\bray\.(?:[\w.]*\._(?!_)|core\.|_(?!_))")
LATE = {row.path.rpartition(".")[2] for row in private_names.ROWS if row.since != "2.50"}
"""Names that older releases lack."""


def said(code):
    """The private names of Ray that a file says: in imports, in attributes, in arguments and in texts."""
    tree = ast.parse(code)
    documents = {id(node.body[0].value) for node in ast.walk(tree) if has_document(node)}
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    own |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and is_stored(node)}
    knows_ray = any(name == "ray" or name.startswith("ray.") for name in imported(tree))
    for node in ast.walk(tree):
        match node:
            case ast.Import() | ast.ImportFrom():
                yield from (name for name in imported(node) if PATH.match(name) or late(name))
            case ast.Attribute(value=value, attr=name):
                path, foreign = ast.unparse(node), not is_own(value) and name not in own
                if PATH.match(path) or late(path) or (knows_ray and private(name) and foreign):
                    yield path
            case ast.Call(func=function, keywords=keywords) if ast.unparse(function).startswith("ray."):
                yield from (f"{ast.unparse(function)}({one.arg})" for one in keywords if private(one.arg or ""))
            case ast.Constant(value=str(text)) if id(node) not in documents:
                yield from (text for _ in range(text == private_names.METRICS_PORT or bool(PATH.search(text))))


def has_document(node):
    return isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None


def is_stored(node):
    return isinstance(node.ctx, ast.Store) and is_own(node.value)


def is_own(value):
    return isinstance(value, ast.Name) and value.id in {"self", "cls"}


def private(name):
    return name.startswith("_") and not name.startswith("__")


def late(path):
    return path.startswith("ray.") and path.rpartition(".")[2] in LATE


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_other_module_says_a_private_name_of_ray(path):
    found = sorted(set(said(path.read_text())))
    assert not found, f"{', '.join(found)}: give each a row in {HOME.name}, with the way without it"


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import ray._private.worker", "ray._private.worker"),
        ("from ray._raylet import ObjectRef", "ray._raylet.ObjectRef"),
        ("from ray.core.generated import gcs_pb2", "ray.core.generated.gcs_pb2"),
        ("from ray.experimental.internal_kv import _internal_kv_put", "ray.experimental.internal_kv._internal_kv_put"),
        ("import ray\nray._private.state.actors()", "ray._private"),
        ("import ray\nref._on_completed(tell)", "ref._on_completed"),
        ("import ray\nray.init(_temp_dir='x')", "ray.init(_temp_dir)"),
        ("import ray\ntry: f()\nexcept ray.exceptions.AuthenticationError: pass", "ray.exceptions.AuthenticationError"),
        ("from importlib import import_module\nimport_module('ray._private.worker')", "ray._private.worker"),
        ("node['MetricsAgentPort']", "MetricsAgentPort"),
    ],
)
def test_the_search_finds_each_way_to_say_one(code, found):
    assert found in set(said(code))


@pytest.mark.parametrize(
    "code",
    [
        "import ray\nray.get(ref)",
        "import ray\nclass A:\n    def _f(self): self._g = 1\n    def h(self, other): return other._g + other._f()",
        '"""Of ray._private nothing is used."""',
        "from ray.exceptions import RpcError",
    ],
)
def test_the_search_finds_nothing_where_none_is_said(code):
    assert not list(said(code))


def test_each_row_says_what_it_is_for_and_since_when():
    paths = [row.path for row in private_names.ROWS]
    assert len(paths) == len(set(paths))
    for row in private_names.ROWS:
        assert row.use
        assert re.fullmatch(r"2\.\d\d", row.since), row
        assert (row.since == "2.50") or row.instead or row.lost, "an older Ray has no way without it"


def between(text, what):
    """Where the page has a table, and what is there now."""
    begin, end = f"<!-- {what} begin -->\n", f"<!-- {what} end -->\n"
    before, _, rest = text.partition(begin)
    _, _, behind = rest.partition(end)
    return before + begin, end + behind


def test_pages_say_what_each_release_lacks_and_which_names_are_used():
    lost = {row.lost: row.since for row in private_names.ROWS if row.lost and row.since != "2.50"}
    losses = "".join(f"| {what} | {since} |\n" for what, since in sorted(lost.items(), key=lambda item: item[::-1]))
    names = "".join(
        f"| `{row.path}` | {row.since} | {row.use} | {row.instead or row.lost or ''} |\n" for row in private_names.ROWS
    )
    for page, what, table in (
        (LOSSES, "losses", f"| what you lose | before Ray |\n| --- | --- |\n{losses}"),
        (NAMES, "names of Ray", f"| name | since | for | without it |\n| --- | --- | --- | --- |\n{names}"),
    ):
        before, behind = between(page.read_text(), what)
        check_written(page, f"{before}\n{table}\n{behind}")


def test_the_bounds_of_ray_are_those_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = private_names.HOW.removeprefix("pip install ").strip("'")
    assert wanted in project["dependencies"]


@pytest.mark.parametrize("version", ["2.50.0", "2.60.1", "2.99", "3.0.0.dev0"])
def test_a_ray_within_the_bounds_is_fit(version):
    private_names.check_ray(version)


@pytest.mark.parametrize("version", ["1.13.0", "2.9.3", "2.49.2", "3.0.0", "4.1"])
def test_a_ray_outside_the_bounds_is_refused_with_what_to_install(version):
    with pytest.raises(UnsupportedVersion, match=re.escape("pip install 'ray>=2.50,<3'")) as caught:
        private_names.check_ray(version)
    assert caught.value.evidence == {"ray": version}


@pytest.fixture
def lacking(monkeypatch):
    """Rows that a test adds are gone behind it."""
    for table in ("ROWS", "_lacking"):
        monkeypatch.setattr(private_names, table, list(getattr(private_names, table)))


def test_a_ray_that_lacks_what_rayshot_needs_is_refused_by_the_name(lacking):
    found = private_names._row("ray._private.worker.no_such_name", "to find nothing")
    with pytest.raises(UnsupportedVersion, match=r"has no ray\._private\.worker\.no_such_name, .* \(to find nothing\)"):
        private_names.check_ray()
    with pytest.raises(UnsupportedVersion, match=r"no_such_name"):
        found("now")


def test_what_a_ray_lacks_is_said_and_no_reason_to_refuse_it(lacking):
    for path in ("ray._private.no_such_module.name", "ray.exceptions.NoSuchError"):
        assert not private_names._row(path, "to find nothing", "2.99", lost="nothing is found")
    private_names._row("ray.nowhere.name", "to find nothing", "2.99", instead="something else is found")
    private_names.check_ray()
    assert "nothing is found (not from Ray 2.99 on)" in private_names.lacking()
    assert not [said for said in private_names.lacking() if "something else" in said]


def test_an_error_that_ray_lacks_is_one_that_nobody_raises(lacking):
    error = private_names._error("ray.exceptions.NoSuchError", "nothing", "2.99", lost="nothing is raised")
    assert issubclass(error, ray.exceptions.RayError)
    with pytest.raises(ZeroDivisionError):
        try:
            1 / 0  # noqa: B018
        except error:
            pytest.fail("another error was caught")


BEGINNINGS = """
import sys
{before}
import rayshot, rayshot.cli
from click.testing import CliRunner

for name in ("init", "resume", "restore", "attach"):
    try:
        getattr(rayshot, name)
    except rayshot.errors.UnsupportedVersion as error:
        print(error)
for command in ("status", "systems", "doctor", "demo"):
    done = CliRunner().invoke(rayshot.cli.main, [command])
    print(done.exit_code, done.stderr.strip())
"""


@pytest.mark.parametrize(
    ("before", "says"),
    [
        ("sys.modules['ray'] = None", "Ray is not installed here: pip install 'ray>=2.50,<3'"),
        ("import ray; ray.__version__ = '2.49.2'", "runs on Ray 2.50 or newer, below 3: pip install 'ray>=2.50,<3'"),
        (
            "import ray._private.services as services; del services.find_bootstrap_address",
            "has no ray._private.services.find_bootstrap_address",
        ),
    ],
)
def test_whoever_begins_a_system_without_a_fit_ray_is_told_which_and_how(before, says, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", BEGINNINGS.format(before=before)],
        capture_output=True, text=True, check=False, timeout=100, cwd=tmp_path, env={**os.environ, **search_path()},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 8
    assert all(says in line for line in lines)
    assert all(line.startswith("2 error: unsupported_version: ") for line in lines[4:])
