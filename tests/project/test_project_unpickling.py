"""One module unpickles, and nothing else in the package turns bytes into running code: a search through every file."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOME = ROOT / "rayshot/format/unpickling.py"
CALLER = ROOT / "rayshot/format/pickling.py"
OUTLINE = ROOT / "rayshot/format/outline.py"
"""Reads pickles with placeholders for every class and function."""
SOURCES = [*ROOT.glob("rayshot/**/*.py"), *ROOT.glob("integrations/**/*.py")]

pytestmark = pytest.mark.acceptance("G15", "G16")

PICKLERS = {
    "pickle",
    "_pickle",
    "cloudpickle",
    "dill",
    "marshal",
    "shelve",
    "joblib",
    "pandas",
    "torch",
    "ray.cloudpickle",
}
READERS = {
    "load",
    "loads",
    "Unpickler",
    "Unpickle",
    "_Unpickler",
    "_loads",
    "_load",
    "open",
    "read_pickle",
    "DbfilenameShelf",
}
RUNNERS = {"eval", "exec", "compile", "__import__"}
"""Builtins that run a text."""

YAML_SAFE = {"safe_load", "safe_load_all", "safe_dump"}


def aliases(tree):
    """Name in a file -> what it was imported as: modules, and names out of modules."""
    known = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            tops = {alias.name.split(".")[0] for alias in node.names if alias.asname is None}
            known |= {top: top for top in tops} | {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom):
            known |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return known


def dotted(node, known):
    """What an expression names, with its imports resolved; empty where it is not a name."""
    if isinstance(node, ast.Name):
        return known.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value, known)
        return f"{inner}.{node.attr}" if inner else ""
    return ""


def dangers(tree):
    """What in a file could run or unpickle bytes: (line, what)."""
    known = aliases(tree)
    for node in ast.walk(tree):
        name = dotted(node, known) if isinstance(node, ast.Name | ast.Attribute) else ""
        module, _, last = name.rpartition(".")
        if module in PICKLERS and last in READERS:
            yield node.lineno, name
        if module == "yaml" and last.endswith(("load", "load_all")) and last not in YAML_SAFE:
            yield node.lineno, name
        if name in RUNNERS or (module == "builtins" and last in RUNNERS):
            yield node.lineno, name
        if module in {"shelve", "runpy", "imp"} or name in {
            "numpy.load",
            "numpy.lib.format.read_array",
            "jsonpickle.decode",
        }:
            yield node.lineno, name
        if (
            isinstance(node, ast.keyword)
            and node.arg == "allow_pickle"
            and getattr(node.value, "value", None) is not False
        ):
            yield node.value.lineno, "allow_pickle"
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                unsafe = (
                    node.module == "yaml" and alias.name.endswith(("load", "load_all")) and alias.name not in YAML_SAFE
                )
                if unsafe or (node.module in PICKLERS and alias.name in READERS | {"*"}):
                    yield node.lineno, f"{node.module}.{alias.name}"
        asks = isinstance(node, ast.Call) and dotted(node.func, known) == "getattr" and node.args
        if asks and dotted(node.args[0], known) in PICKLERS | {"builtins"}:
            yield node.lineno, "getattr of a module that unpickles"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_but_the_one_module_unpickles_or_runs_what_it_read(path):
    found = [
        f"line {line}: {what}" for line, what in dangers(ast.parse(path.read_text())) if path not in (HOME, OUTLINE)
    ]
    assert not found, f"{path.relative_to(ROOT)}: only {HOME.relative_to(ROOT)} may do that: {found}"


def test_the_one_module_unpickles_and_runs_nothing_else():
    found = {what for _, what in dangers(ast.parse(HOME.read_text()))}
    assert found == {"pickle.loads", "pickle.Unpickler", "pickle._Unpickler"}


def test_nothing_but_the_pickles_of_states_and_messages_calls_the_one_module():
    imported = {path: aliases(ast.parse(path.read_text())).values() for path in SOURCES}
    importing = {
        path
        for path, names in imported.items()
        if any(f"{name}.".startswith("rayshot.format.unpickling.") for name in names)
    }
    assert importing == {CALLER}


@pytest.mark.parametrize(
    "code",
    [
        "import pickle\npickle.loads(b'')",
        "import pickle as p\np.load(f)",
        "from pickle import loads as harmless",
        "from pickle import *",
        "import _pickle\n_pickle.Unpickler(f)",
        "import cloudpickle\nread = cloudpickle.loads",
        "import marshal, dill\nmarshal.loads(b''); dill.load(f)",
        "import shelve\nshelve.open('f')",
        "import numpy as np\nnp.load('f')",
        "import numpy\nnumpy.frombuffer(b, allow_pickle=True)",
        "import yaml\nyaml.load(t)",
        "from yaml import unsafe_load",
        "import pandas as pd\npd.read_pickle('f')",
        "eval('1')",
        "import builtins\nbuiltins.exec('1')",
        "import pickle\ngetattr(pickle, 'lo' + 'ads')",
        "import torch\ntorch.load('f')",
        "from ray import cloudpickle\ncloudpickle.loads(b'')",
    ],
)
def test_the_search_finds_what_it_is_for(code):
    assert [*dangers(ast.parse(code))]


@pytest.mark.parametrize(
    "code",
    [
        "import json\njson.loads('1')",
        "import pickle\npickle.dumps(1)",
        "import re\nre.compile('x')",
        "import yaml\nyaml.safe_load('x')",
    ],
)
def test_the_search_passes_over_what_is_harmless(code):
    assert not [*dangers(ast.parse(code))]
