"""A page of the documentation as a program: its blocks in their order, in one namespace and one folder.

    ```python                   is run; if a block of `text` follows, it prints that
    ```console                  its commands (`$ ...`) are run in the page's folder, and print what stands below them
    ```python not run: WHY      is compiled
    ```console not run: WHY     its commands are read: the program, the command and the options exist
    ```text                     behind python, what that prints; elsewhere anything
    ```json, yaml, toml         is read
    ```sh, sql, diff            is only shown; the commands of `sh` are read

In an HTML comment `<!-- run` ... `-->` stands what the reader is not shown: code that makes what a block needs.
A line `...` of what is printed stands for any lines, and a number for any number in a block of `console`.
"""

import re
import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.processes import ROOT

FENCE = "```"
LANGUAGES = {"python", "console", "text", "json", "yaml", "toml", "sh", "sql", "html", "diff"}
HIDDEN = "<!-- run"
READ_ONLY = {"pip", "make", "git", "kubectl", "docker"}
"""Programs that no page may run here."""
NUMBER = re.compile(r"\d[\d.,]*( ?[KMG]?i?B\b)?")
RANDOM = re.compile(r"\b(driver:)?[0-9a-f]{8}\b")
RUN_OF_LINES = re.compile(r"[ ─]+")


@dataclass(frozen=True)
class Block:
    """What stands between two fences of a page, or in a hidden comment.

    Attributes:
        language: The first word of the opening fence; `python` for what is hidden.
        about: What follows this word: nothing, or `not run: WHY`.
        line: The number of the first line behind the opening fence, from 1.
        code: The lines between the fences, each with its end.
    """

    language: str
    about: str
    line: int
    code: str

    @property
    def end(self) -> int:
        """The number of the line with the closing fence."""
        return self.line + self.code.count("\n")

    @property
    def runs(self) -> bool:
        return self.language in {"python", "console"} and not self.about

    @cached_property
    def commands(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Each command of a shell, with the lines that it is said to print."""
        found: list[tuple[str, list[str]]] = []
        for line in self.code.splitlines():
            if self.language == "sh" and line.strip():
                found.append((line, []))
            elif line.startswith("$ "):
                found.append((line[2:], []))
            elif found and found[-1][0].endswith("\\"):
                found[-1] = (found[-1][0][:-1] + line, [])
            elif found:
                found[-1][1].append(line)
        return tuple((command, tuple(printed)) for command, printed in found)


class Page:
    """A page of the documentation; `name` is its path in the project."""

    def __init__(self, file: Path) -> None:
        self.name = file.relative_to(ROOT).as_posix()
        self.text = file.read_text()
        self.blocks = tuple(self._blocks())

    def _blocks(self):
        opened: tuple[str, int] | None = None
        lines = self.text.splitlines(keepends=True)
        for number, line in enumerate(lines, 1):
            if opened is None and line.startswith(FENCE):
                opened = line[len(FENCE) :].strip(), number + 1
            elif opened is None and line.rstrip() == HIDDEN:
                opened = "python", number + 1
            elif opened and line.rstrip() in {FENCE, "-->"}:
                language, _, about = opened[0].partition(" ")
                yield Block(language, about, opened[1], "".join(lines[opened[1] - 1 : number - 1]))
                opened = None
        assert opened is None, f"{self.name}: a fence without an end"

    @property
    def runs(self) -> bool:
        return any(block.runs for block in self.blocks)

    def promised(self, block: Block) -> str | None:
        """What a block of python prints, as the page says; None if it does not say it."""
        place = self.blocks.index(block) + 1
        behind = self.blocks[place] if place < len(self.blocks) else None
        near = behind and not self._between(block, behind).strip()
        return behind.code if near and behind.language == "text" else None

    def _between(self, first: Block, second: Block) -> str:
        return "".join(self.text.splitlines(keepends=True)[first.end : second.line - 2])

    def script(self) -> str:
        """The page as a program, each line of code with the number that it has in the page."""
        lines = [""] * (self.text.count("\n") + 2)
        lines[0] = "from tests.pages import shell as _shell"
        for block in filter(lambda one: one.runs, self.blocks):
            if block.language == "python":
                lines[block.line - 1 : block.end - 1] = block.code.splitlines()
            else:
                lines[block.line - 1] = f"_shell.run({[command for command, _ in block.commands]!r})"
            lines[block.end - 1] = f"_shell.end({block.line})"
        return "\n".join(lines) + "\n"


def fits(promised: str, printed: str, *, exact: bool) -> bool:
    """Whether the printed lines are those of the page, in which `...` stands for any lines."""
    wanted, found = (_lines(text, exact=exact) for text in (promised, printed))
    pattern = "".join("(?:.*\n)*" if line == "..." else re.escape(line) + "\n" for line in wanted)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in found)) is not None


def _lines(text: str, *, exact: bool) -> list[str]:
    lines = [line.rstrip() for line in text.strip().splitlines()]
    return lines if exact else [RUN_OF_LINES.sub(" ", NUMBER.sub("0", RANDOM.sub("0", line))).strip() for line in lines]


def words(command: str) -> list[str]:
    """The words of a command, without comment, variables and where its output goes; the part before a pipe."""
    found = shlex.split(re.split(r" [|<>&]+ ?", command)[0], comments=True)
    while found and re.match(r"\w+=", found[0]):
        del found[0]
    return found


def is_read_only(command: str) -> bool:
    """Whether a command of a block that is run is only read, because it would change this machine or never end."""
    return words(command)[:1] != [] and (words(command)[0] in READ_ONLY or words(command)[:2] == ["rayshot", "ui"])


def pages() -> list[Page]:
    """All pages of the documentation, and README.md."""
    return [Page(file) for file in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))]
