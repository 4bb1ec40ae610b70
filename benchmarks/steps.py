"""Who calls which function of rayshot, and in which order: every process of a system that `walk` follows notes it.

A function is changed when its module is imported: the first thing that it does is to note a step. Python's own way
(`sys.setprofile`) does not see the threads that Ray makes, and these run the methods of actors. A lambda notes its
steps too; a comprehension and what `dataclass` writes do not, as they belong to a function that does.
"""

import ast
import os
import sys
import threading
import time
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
FOLLOWED = "rayshot"
_HOME = f"{ROOT}{os.sep}"
_INSIDE = f"{_HOME}{FOLLOWED}{os.sep}"
_NOTE = "_note_step"
"""The name that `note` has in each followed module."""


class Step(NamedTuple):
    """A call of a function of rayshot.

    Attributes:
        at_s: When, by the clock that all processes of the machine share.
        caller: The file of rayshot that called, also through other code such as a handler; "" if none did.
        file: Where the function is, from the root of the project.
        function: With the names of its classes.
    """

    at_s: float
    process: int
    thread: int
    caller: str
    file: str
    function: str


def follow(file: str) -> None:
    """From now on, what this process imports of rayshot notes its steps in `file`, where many processes may.

    A process that forks to capture a state is not followed: it closes what is open.
    """
    _notes.append(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))
    os.register_at_fork(after_in_child=_notes.clear)
    sys.meta_path.insert(0, _Finder())


def note() -> None:
    """Note a step of the function that calls this. While a module is imported, nothing is a step."""
    if not _notes or _importing.depth:
        return
    called = sys._getframe(1)  # noqa: SLF001 - as `inspect` does it
    code = called.f_code
    parts = (time.monotonic(), os.getpid(), threading.get_ident(), _file_of_caller(called))
    line = "\t".join(map(str, (*parts, code.co_filename.removeprefix(_HOME), code.co_qualname)))
    os.write(_notes[0], f"{line}\n".encode())


def read_steps(file: Path) -> list[Step]:
    """All steps of all processes, the first one first."""
    found = []
    for line in file.read_text(encoding="utf-8").splitlines():
        at_s, process, thread, *names = line.split("\t")
        found.append(Step(float(at_s), int(process), int(thread), *names))
    return sorted(found)


_notes: list[int] = []
"""The descriptor of the file, if there is one."""


class _Importing(threading.local):
    """How many followed modules this thread is importing, one within the other."""

    depth = 0


_importing = _Importing()


def _file_of_caller(called: FrameType) -> str:
    frame = called.f_back
    while frame is not None and not frame.f_code.co_filename.startswith(_INSIDE):
        frame = frame.f_back
    return "" if frame is None else frame.f_code.co_filename.removeprefix(_HOME)


class _Finder(MetaPathFinder):
    """Finds the followed modules where Python does, and has them loaded by `_Loader`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != FOLLOWED:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    """Loads from source, so that no changed function is written to or read from Python's folders of bytecode."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        tree = _Noting().visit(ast.parse(self.get_data(path), path))
        return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        setattr(module, _NOTE, note)
        _importing.depth += 1
        try:
            super().exec_module(module)
        finally:
            _importing.depth -= 1


class _Noting(ast.NodeTransformer):
    """Lets each function and lambda note its step before all else."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self._note_first(node)
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AsyncFunctionDef:
        self._note_first(node)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        self.generic_visit(node)
        node.body = ast.copy_location(ast.BoolOp(ast.Or(), [_call(node.body), node.body]), node.body)
        return node

    def _note_first(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.generic_visit(node)
        has_docstring = ast.get_docstring(node, clean=False) is not None
        node.body.insert(int(has_docstring), ast.copy_location(ast.Expr(_call(node.body[0])), node.body[0]))


def _call(place: ast.AST) -> ast.Call:
    """A call of `note`; it returns None, so that a lambda goes on behind its `or`."""
    return ast.copy_location(ast.Call(ast.Name(_NOTE, ast.Load()), [], []), place)
