"""What a mistake is: an edit of the product as a careful programmer could make it, and who should notice it."""

import ast
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MARK = "mark_of_mistake"
"""The module that a marked line imports."""


class DoesNotFit(Exception):
    """The code is another one than that for which the edit was written: write the edit anew, with the same mistake."""


@dataclass(frozen=True)
class Mistake:
    """`says` is the wrong behaviour, in words that outlive a refactoring. In `file` the text `new` stands for `old`.

    `tests` are the files that should notice, the quickest first.
    """

    room: str
    says: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def edit(self, text: str, new: str) -> str:
        """The text of the file with `new` in the place of the old lines, and a mark before the statement that changes.

        The statement is the innermost one of the first line that the mistake changes. Raises DoesNotFit.
        """
        if (count := text.count(self.old)) != 1:
            raise DoesNotFit(f"{self.file} has the old lines {count} times")
        before, _, after = text.partition(self.old)
        changed = next(
            number
            for number, (one, other) in enumerate(zip(_lines(self.old), _lines(self.new), strict=False))
            if one != other
        )
        at, indentation = _statement(text, before.count("\n") + changed + 1)
        lines = f"{before}{new}{after}".splitlines(keepends=True)
        lines.insert(at - 1, f"{' ' * indentation}import {MARK}\n")
        edited = "".join(lines)
        try:
            ast.parse(edited)
        except SyntaxError as error:
            raise DoesNotFit(f"Python cannot read {self.file} with the new lines: {error}") from error
        return edited


def _lines(text: str) -> list[str]:
    return [*text.splitlines(), ""]


def _statement(text: str, line: int) -> tuple[int, int]:
    """Before which line, and with which indentation, a statement runs whenever the statement of this line does."""
    around = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt) and node.lineno <= line]
    inside = [node for node in around if line <= (node.end_lineno or node.lineno)]
    branches = {id(node.orelse[0]) for node in inside if isinstance(node, ast.If) and len(node.orelse) == 1}
    starts = text.splitlines()
    for node in sorted(inside, key=lambda node: (node.lineno, -(node.end_lineno or 0)), reverse=True):
        is_elif = id(node) in branches and starts[node.lineno - 1].lstrip().startswith("elif")
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.lineno <= line < node.body[0].lineno:
            first = node.body[1 if ast.get_docstring(node) is not None and len(node.body) > 1 else 0]
            return first.lineno, first.col_offset
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            break
        if not is_elif:
            return node.lineno, node.col_offset
    raise DoesNotFit(f"line {line} is in no statement that runs")


def read_mistakes(folder: Path = HERE) -> tuple[Mistake, ...]:
    """All mistakes, room by room."""
    return tuple(
        Mistake(room=file.stem, **{**one, "tests": tuple(one["tests"])})
        for file in sorted(folder.glob("*.toml"))
        for one in _tables(file)
    )


def _tables(file: Path) -> list[dict[str, Any]]:
    tables: list[dict[str, Any]] = tomllib.loads(file.read_text())["mistake"]
    return tables
