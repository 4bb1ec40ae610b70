"""docs/simulation.md cannot lie: its examples run and print what it says."""

import contextlib
import importlib.machinery
import io
import re
import sys
import types
from pathlib import Path

from rayshot.places.local import LocalStore
from tests.simulation.workloads import Account
from tests.snapshots.snapshot_builder import KEY, make_snapshot, open_bank

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "simulation.md"


def test_the_examples_print_what_the_page_shows(tmp_path, monkeypatch):
    monkeypatch.setenv("RAYSHOT_SIGNING_KEY", KEY.secret.decode())
    make_snapshot(open_bank(LocalStore(tmp_path / "shots")))
    page = PAGE.read_text().replace('"./shots"', repr(str(tmp_path / "shots")))
    module = types.ModuleType("bank")  # in which the snapshot's actors are
    module.__spec__ = importlib.machinery.ModuleSpec("bank", None)
    monkeypatch.setitem(sys.modules, "bank", module)
    examples = re.findall(r"```python[^\n]*\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL)
    assert len(examples) == 6
    assert page.count("```python") == 6
    for code, promised in examples:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, module.__dict__)
        assert printed.getvalue().strip() == promised.strip()


def test_the_example_of_the_readme_holds():
    (code,) = re.findall(r"```python\n(from rayshot\.simulation.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    exec(code, {"Account": Account})
