"""Rooms have floors: the table in ARCHITECTURE.md says who may import whom, and this test reads it."""

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINES_MAX = 500
HOUSES = ("runtime", "simulation", "snapshots")
"""Folders with rooms of their own."""
FLOORS_MAX = 5
HIGHER = {
    "integrations/pyspark_rayshot/": 9,
    "rayshot/analysis/": 11,
    "rayshot/audit/": 6,
    "rayshot/format/": 6,
    "rayshot/inert/": 6,
    "rayshot/model/": 6,
    "rayshot/protocol/": 6,
    "rayshot/proving/": 6,
    "rayshot/runtime/actor/": 12,
    "rayshot/runtime/coordinator/": 10,
    "rayshot/runtime/driver/": 6,
    "rayshot/runtime/opening/": 6,
}
"""Rooms with more floors than a newcomer can follow, and how many each has: a figure only falls."""


def rooms():
    """Room path -> (rooms it may import, other packages it may import), from the table of ARCHITECTURE.md."""
    table = {}
    for line in (ROOT / "ARCHITECTURE.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[0].startswith("`"):
            table[cells[0].strip("`")] = (re.findall(r"[\w./]+", cells[2]), re.findall(r"\w+", cells[3]))
    return table


def sources():
    return [*ROOT.glob("rayshot/**/*.py"), *ROOT.glob("integrations/**/*.py")]


def room_of(path):
    """The path of a file's room: rooms of HOUSES lie one folder deeper."""
    parts = path.relative_to(ROOT).parts
    depth = 3 if parts[0] == "rayshot" and parts[1] in HOUSES and len(parts) > 3 else 2
    return "/".join(parts[:depth]) + ("" if parts[depth - 1].endswith(".py") else "/")


def imports(path):
    """Modules that a file imports, at its top or later."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import hides where it goes"
            if node.module == "rayshot":
                for alias in node.names:
                    yield f"rayshot.{alias.name}"
            else:
                yield node.module


def allowed(path, module, table):
    ours, others = table[room_of(path)]
    top, *rest = module.split(".")
    if top in sys.stdlib_module_names:
        return True
    if top == "pyspark_rayshot":
        return room_of(path) == "integrations/pyspark_rayshot/"
    if top != "rayshot":
        return top in others
    if not rest or rest[0].startswith("__"):
        return True  # the package itself: its version
    file = ROOT / "/".join(["rayshot", *rest])
    target = room_of(file / "__init__.py" if file.is_dir() else file.with_suffix(".py"))
    return target == room_of(path) or not {rest[0], "/".join(rest[:2]), "all"}.isdisjoint(ours)


def test_every_file_lives_in_a_room_of_the_table():
    table = rooms()
    assert {room_of(path) for path in sources()} <= table.keys()


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_run_down(path):
    table = rooms()
    wrong = [module for module in imports(path) if not allowed(path, module, table)]
    assert not wrong, f"{path.relative_to(ROOT)} may not import {', '.join(wrong)}: see the table in ARCHITECTURE.md"


@pytest.mark.parametrize("module", ["asyncio", "threading", "time", "random", "os", "logging", "pickle", "ray"])
def test_the_core_is_pure(module):
    for path in ROOT.glob("rayshot/protocol/*.py"):
        assert module not in {name.split(".")[0] for name in imports(path)}, path


def test_only_one_file_knows_the_client_of_the_clouds():
    users = [path.name for path in sources() if "obstore" in {name.split(".")[0] for name in imports(path)}]
    assert users == ["object_store.py"]


def test_one_room_of_the_runtime_knows_ray():
    users = {room_of(path) for path in sources() if "ray" in {name.split(".")[0] for name in imports(path)}}
    assert users == {"rayshot/runtime/door/", "rayshot/doctor/"}


def test_siblings_form_no_circles():
    paths = {module_name(path): path for path in sources()}
    graph = {name: set(imported(path, paths)) for name, path in paths.items()}
    done, way = set(), []

    def visit(name):
        assert name not in way, " -> ".join([*way, name])
        if name in done:
            return
        way.append(name)
        for other in sorted(graph[name]):
            visit(other)
        way.pop()
        done.add(name)

    for name in sorted(graph):
        visit(name)


def test_a_room_has_few_floors():
    """A file stands one floor above the highest of those that it imports in its room."""
    paths = {module_name(path): path for path in sources()}
    floors = {}

    def floor(name):
        if name not in floors:
            here = [other for other in imported(paths[name], paths) if room_of(paths[other]) == room_of(paths[name])]
            floors[name] = 1 + max(map(floor, here), default=0)
        return floors[name]

    worse = {}
    for name, path in paths.items():
        room = room_of(path)
        if floor(name) > HIGHER.get(room, FLOORS_MAX):
            worse[room] = max(floor(name), worse.get(room, 0))
    assert not worse, "a file imports its way down through too many others of its room"


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__").removeprefix("integrations.")


def imported(path, modules):
    """Our own modules that a file needs, at its top, later, or for its types only."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in modules:
                    yield inner
                elif node.module in modules and node.module != "rayshot":
                    yield node.module


def test_files_fit_in_the_head():
    for path in [
        *sources(),
        *ROOT.glob("tests/**/*.py"),
        *ROOT.glob("benchmarks/**/*.py"),
        *ROOT.glob("examples/**/*.py"),
    ]:
        lines = len(path.read_text().splitlines())
        assert lines <= LINES_MAX, f"{path.relative_to(ROOT)} has {lines} lines: find the second noun in it"


def test_importing_rayshot_imports_neither_ray_nor_pyspark():
    import subprocess

    code = "import rayshot, sys; dir(rayshot); assert not {'ray', 'pyspark', 'numpy'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_reading_snapshots_imports_neither_ray_nor_pyspark():
    import subprocess

    code = (
        "import rayshot, sys, rayshot.cli; rayshot.open; rayshot.Snapshot; rayshot.actor; rayshot.SnapshotConfig; "
        "assert not {'ray', 'pyspark'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_actors_import_nothing_that_signs_or_encrypts():
    import subprocess

    code = "import rayshot, sys; rayshot.actor; assert 'cryptography' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_an_actors_process_loads_nothing_that_only_readers_of_snapshots_need():
    import subprocess

    late = {"numpy", "zstandard", "rayshot.inert.reader", "rayshot.format.manifest"} | {
        f"rayshot.{room}" for room in ("places", "log", "snapshots")
    }
    code = f"import rayshot.runtime.actor.host, sys; found = {late} & sys.modules.keys(); assert not found, found"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_a_command_loads_what_it_needs_and_nothing_of_others():
    import subprocess

    late = {"ray", "rayshot.audit", "rayshot.simulation", "rayshot.places", "rayshot.snapshots", "networkx"}
    modules = "rayshot.cli.system_commands, rayshot.cli.status"
    code = f"import {modules}, sys; found = {late} & sys.modules.keys(); assert not found, found"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
