"""The wheel in an empty environment, as a newcomer has it: no sources, no tools, no extras."""

import json
import os
import subprocess
import sys
import venv

import pytest

import rayshot
from tests import readme
from tests.processes import own_environment
from tests.wheel.building import build

pytestmark = [pytest.mark.wide("installs the wheel and Ray into an empty environment"), pytest.mark.ray]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The folder with `python` and `rayshot` of an environment with the wheel and what it needs, and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    wheel = build("wheel", tmp_path_factory.mktemp("wheel"))
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin/python", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", wheel], env=environment(), check=True, timeout=900)
    return folder / "bin"


def environment():
    """A newcomer's: neither these sources nor the workers of the tests."""
    kept = {name: value for name, value in own_environment().items() if name != "PYTHONPATH"}
    return kept | {"RAY_TMPDIR": os.environ["RAY_TMPDIR"], "COLUMNS": "80"}


def run(programs, folder, program, *arguments):
    return subprocess.run(
        [programs / program, *arguments],
        env=environment(), cwd=folder, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_the_command_says_which_version_it_is(programs, tmp_path):
    said = run(programs, tmp_path, "rayshot", "--version")
    assert (said.returncode, said.stdout) == (0, f"rayshot, version {rayshot.__version__}\n")


def test_what_is_imported_is_the_wheel_and_imports_neither_ray_nor_spark(programs, tmp_path):
    code = "import rayshot, sys; print(rayshot.__file__, 'ray' in sys.modules, 'pyspark' in sys.modules)"
    said = run(programs, tmp_path, "python", "-c", code).stdout.split()
    assert said[0].startswith(str(programs.parent))
    assert said[1:] == ["False", "False"]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ((), "reference-spark"),
        (("support",), "# Which Ray"),
        (("healing#what-a-program-must-do",), "## What a program must do\n"),
        (("ActorDied",), "| `ActorDied` |"),
        (("verify",), "Usage: rayshot verify"),
    ],
)
def test_the_pages_are_in_the_wheel_and_are_shown(programs, tmp_path, asked, says):
    done = run(programs, tmp_path, "rayshot", "help", *asked)
    assert (done.returncode, says in done.stdout) == (0, True), done.stdout + done.stderr


def test_the_demo_runs_and_its_snapshots_are_listed_proved_and_drawn(programs, tmp_path):
    demo = run(programs, tmp_path, "rayshot", "demo")
    assert demo.returncode == 0, demo.stderr
    listed = run(programs, tmp_path, "rayshot", "list", "./shots", "--json")
    assert "closing time" in listed.stdout
    assert json.loads(listed.stdout)
    verified = run(programs, tmp_path, "rayshot", "verify", "./shots", "--read-data")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    reported = run(programs, tmp_path, "rayshot", "report", "./shots", "-o", "cut.html")
    assert reported.returncode == 0, reported.stderr
    assert "</html>" in (tmp_path / "cut.html").read_text()


def test_the_program_of_the_readme_prints_what_the_readme_says(programs, tmp_path):
    code, printed = readme.bank()
    (tmp_path / "bank.py").write_text(code)
    done = run(programs, tmp_path, "python", "bank.py")
    assert done.returncode == 0, done.stderr
    assert readme.said(done.stdout) == printed
