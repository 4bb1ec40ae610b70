"""The wheel in an environment that has everything which it names but Ray: snapshots are read there, nothing runs."""

import re
import subprocess
import venv
import zipfile
from importlib.metadata import distribution

import pytest

from tests.golden.release import KEY
from tests.processes import ROOT, own_environment
from tests.wheel.building import build

STORE = ROOT / "tests/golden/format-1"
EXTRAS = ("", "spark", "tables", "ui")
BEGINNINGS = """
import rayshot
for begin in ("init", "resume", "restore", "attach"):
    try:
        getattr(rayshot, begin)("bank")
    except rayshot.errors.UnsupportedVersion as error:
        print(error)
"""
READING = """
import rayshot
from pyspark_rayshot import DefaultSource
from pyspark_rayshot.source import DefaultSource as again

snapshot = rayshot.open("{store}").system("bank").latest()
print(snapshot.label, len(snapshot.actors), DefaultSource is again, DefaultSource.name())
"""


def needed(requirement, found):
    """Adds to `found` the distributions that a requirement stands for, without Ray and what only Ray needs."""
    name, extras, condition = re.fullmatch(r"([\w.-]+)(?:\[([\w,-]+)\])?[^;]*(?:;(.*))?", requirement).groups()
    extra = re.search(r"extra == ['\"]([\w-]+)['\"]", condition or "")
    if name == "ray" or (extra and extra[1] not in EXTRAS) or name in found:
        return
    try:
        known = distribution(name)
    except ModuleNotFoundError:  # of another system or Python
        return
    if name != "rayshot":
        found[name] = known
    for one in known.requires or ():
        if name == "rayshot" or "extra ==" not in one or any(f"'{want}'" in one for want in (extras or "").split(",")):
            needed(one, found)


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The Python of the environment; packages are links to those of this one."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python3.*/site-packages")
    with zipfile.ZipFile(build("wheel", tmp_path_factory.mktemp("wheel"))) as wheel:
        wheel.extractall(packages)
    found = {}
    needed("rayshot", found)
    for known in found.values():
        for name in {file.parts[0] for file in known.files} - {"..", "__pycache__"}:
            if not (packages / name).exists():
                (packages / name).symlink_to(known.locate_file(name))
    assert not list(packages.glob("ray"))
    return folder / "bin/python"


def run(python, code, cwd):
    environment = {name: value for name, value in own_environment().items() if name != "PYTHONPATH"}
    return subprocess.run(
        [python, "-c", code],
        env=environment | {"RAYSHOT_SIGNING_KEY": KEY, "COLUMNS": "120"}, cwd=cwd,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def command(python, cwd, *arguments):
    code = f"import sys; from rayshot.cli import main; sys.argv = ['rayshot', *{list(map(str, arguments))}]; main()"
    return run(python, code, cwd)


def test_the_environment_has_no_ray_and_its_rayshot_is_the_wheel(python, tmp_path):
    said = run(python, "import rayshot; print(rayshot.__file__); import ray", tmp_path)
    assert said.stdout.startswith(str(python.parents[1]))
    assert "ModuleNotFoundError: No module named 'ray'" in said.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("list",), "payday"),
        (("show",), "payday"),
        (("verify", "--read-data"), "Proved: a consistent cut"),
        (("report", "-o", "cut.html"), ""),
        (("topology",), "bank"),
        (("ui", "--help"), "STORAGE"),
    ],
)
def test_commands_read_a_storage(python, tmp_path, arguments, says):
    name, *more = arguments
    done = command(python, tmp_path, name, STORE, *more)
    assert (done.returncode, says in done.stdout) == (0, True), done.stdout + done.stderr


def test_a_program_reads_a_storage_and_spark_finds_its_source(python, tmp_path):
    done = run(python, READING.format(store=STORE), tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"payday \d+ True rayshot\n", done.stdout)


def test_whoever_begins_a_system_is_told_which_ray_and_how_to_get_it(python, tmp_path):
    done = run(python, BEGINNINGS, tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 4
    assert all("Ray is not installed here: pip install 'ray>=2.50,<3'" in line for line in lines)


@pytest.mark.parametrize("name", ["status", "systems", "doctor", "demo"])
def test_a_command_that_needs_a_cluster_says_the_same_in_one_line(python, tmp_path, name):
    done = command(python, tmp_path, name)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: unsupported_version: ")
    assert "pip install 'ray>=2.50,<3'" in line
