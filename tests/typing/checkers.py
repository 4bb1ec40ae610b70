"""Type checkers, run over programs: which lines have errors."""

import ast
import builtins
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.pages.page import pages
from tests.processes import ROOT

HERE = Path(__file__).parent
CACHE = ROOT / ".mypy_cache"
EXAMPLES = (
    "examples/*.py",
    "examples/flights/*.py",
    "examples/exercises/*.py",
    "examples/learners/*.py",
    "examples/holders/*.py",
    "k8s/base/*.py",
)
PORTS = "examples/ports/moved/*.py"
"""pyright does not read them: by Ray's own types `ray.get(unknown)` is a list; see docs/type-checkers.md."""
GIVEN = """
import typing
import rayshot

system: rayshot.System
snap: rayshot.Snapshot
snapshot: rayshot.Snapshot

def __getattr__(name: str) -> typing.Any: ...
"""
"""Names that snippets of pages use and do not define; of others nothing is known."""
LOOSE = (
    "--allow-untyped-defs", "--allow-incomplete-defs", "--allow-untyped-calls", "--allow-untyped-decorators",
    "--allow-subclassing-any", "--no-warn-return-any", "--disable-error-code=var-annotated",
    "--disable-error-code=import-untyped",
)  # fmt: skip
"""Examples show programs without annotations, as most users of Ray write them. All else of `--strict` holds."""


def plain(program):
    """The same lines, written without `@rayshot.method` and without the base for type checkers."""
    return re.sub(r" *@rayshot\.method\n", "\n", program).replace("(rayshot.Actor)", "")


def mistakes(program):
    """The numbers of the lines that say that they are wrong."""
    return {number for number, line in enumerate(program.splitlines(), 1) if "# mistake: " in line}


def snippets(folder):
    """Write each snippet with rayshot in it into a file of its own; returns how many there are."""
    (folder / "given.pyi").write_text(GIVEN)
    blocks = [(page, block) for page in pages() for block in page.blocks if block.language == "python"]
    chosen = [(page, block) for page, block in blocks if "rayshot" in block.code or "system" in block.code]
    for page, block in chosen:
        name = re.sub(r"\W", "_", page.name.removesuffix(".md").lower())
        (folder / f"{name}_{block.line}.py").write_text(with_names(block.code))
    return len(chosen)


def with_names(text):
    """The snippet behind imports of the names that it does not define, all in one line."""
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    read = {one.id: one.lineno for one in sorted(names, key=line, reverse=True) if isinstance(one.ctx, ast.Load)}
    made = {one.id for one in names if not isinstance(one.ctx, ast.Load) and one.lineno <= read.get(one.id, one.lineno)}
    made |= {node.name for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)}
    made |= {node.arg for node in nodes if isinstance(node, ast.arg)} | {*dir(builtins)}
    made |= {(one.asname or one.name).split(".")[0] for node in nodes if hasattr(node, "names") for one in alias(node)}
    made |= {node.name for node in nodes if isinstance(node, ast.ExceptHandler) and node.name}
    lacking = sorted(read.keys() - made)
    modules = [f"import {name}" for name in lacking if name in ("ray", "rayshot")]
    given = [f"from given import {name}" for name in lacking if name not in ("ray", "rayshot")]
    return "; ".join(["pass", *modules, *given]) + "\n" + text


def line(node):
    return node.lineno


def alias(node):
    return [one for one in node.names if isinstance(one, ast.alias)]


def mypy(folder, *arguments, plugin):
    """Lines with errors that mypy finds in the files, as (file, line), and its whole text."""
    config = folder / "mypy.ini"
    config.write_text(f"[mypy]\nstrict = True\n{'plugins = rayshot.mypy_plugin' if plugin else ''}\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", config, "--cache-dir", CACHE / f"typing-{plugin}",
         "--no-error-summary", "--hide-error-context", *arguments],
        capture_output=True, text=True, check=False, cwd=folder, env={**os.environ, "MYPYPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = re.findall(r"^(?:.*/)?([\w./]+\.py):(\d+): error", done.stdout, re.MULTILINE)
    return {(Path(file).name, int(line)) for file, line in found}, done.stdout


def pyright(folder, *arguments):
    """As `mypy`."""
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, *arguments],
        capture_output=True, text=True, check=False, cwd=folder,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = json.loads(done.stdout)["generalDiagnostics"]
    errors = [one for one in found if one["severity"] == "error" and 'of module "pyarrow' not in one["message"]]
    lines = {(Path(one["file"]).name, one["range"]["start"]["line"] + 1): one["message"] for one in errors}
    return {*lines}, "\n".join(f"{file}:{line}: {said}" for (file, line), said in sorted(lines.items()))
