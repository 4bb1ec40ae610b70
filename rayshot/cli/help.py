"""`rayshot help PAGE`: the pages of the documentation, as errors name them, in the terminal.

The wheel has them in `rayshot/pages`; in a clone they are in docs/. A page's id is its path there without `.md`, and
`porting#asking` is a place in it: a heading, or an `<a id="...">` in a row of a table or a paragraph.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

import rayshot
from rayshot.cli.grid import console
from rayshot.errors import RayshotError, UsageError
from rayshot.format.suggestion import did_you_mean

_PACKAGE = Path(rayshot.__file__).parent
_INSTALLED = _PACKAGE / "pages"
_HIDDEN = re.compile(r"(?ms)^<!--.*?-->\n*|^<picture>.*?</picture>\n*")
_REFERENCE = re.compile(r"(?m)^::: (\S+)(?:\n {4}.*)*$")
_LINK = re.compile(r"\]\((?!https?:)([^)]*?)\.md(#[^)]*)?\)")
_PICTURE = re.compile(r"!\[([^\]]*)\]\([^)]*\)")
_PLACE = re.compile(r'<a id="([^"]+)"></a>')
_HEADING = re.compile(r"(#+) (.*)")
_FENCE = "```"


@dataclass(frozen=True)
class _Page:
    """A page; `name` is its id, `section` the part of the navigation in which it is."""

    name: str
    section: str
    file: Path

    @property
    def text(self) -> str:
        return _HIDDEN.sub("", self.file.read_text(encoding="utf-8"))

    @property
    def title(self) -> str:
        return self.text.lstrip("# ").partition("\n")[0]


@click.command("help")
@click.argument("name", metavar="[PAGE]", default="")
@click.option("--plain", is_flag=True, help="Print the page's text as it is written, without a pager.")
def help_(name: str, *, plain: bool) -> None:
    """Show a PAGE of the documentation, or a place in it: porting#asking.

    PAGE may also be a command without a page of its name, or an error: its class or its kind. Without PAGE: the list of
    pages.
    """
    context = click.get_current_context()
    assert context.parent is not None
    program = context.parent.command
    assert isinstance(program, click.Group)
    if name not in pages() and (command := program.get_command(context.parent, name)):
        click.echo(command.get_help(click.Context(command, context.parent, name)))
        return
    text = page_text(name) if name else _contents()
    if plain or not sys.stdout.isatty():
        click.echo(text)
        return
    from rich.markdown import Markdown  # noqa: PLC0415 - it loads a parser, which other commands need not wait for

    screen = console()
    with screen.pager(styles=True):
        screen.print(Markdown(text, hyperlinks=False))


def page_text(name: str) -> str:
    """The Markdown of a page, or of a place in it, as a terminal shows it. Raises UsageError if there is none."""
    page_id, _, place = _of_error(name).partition("#")
    found = pages()
    if page_id not in found:
        raise UsageError(f"there is no page {page_id!r}{did_you_mean(page_id, found)}; `rayshot help` lists all")
    text = found[page_id].text
    if place:
        known = places(text)
        if place not in known:
            raise UsageError(f"page {page_id!r} has no place {place!r}{did_you_mean(place, known)}")
        text = known[place]
    return _for_terminals(text)


def pages() -> dict[str, _Page]:
    """All pages by their ids, in the order of the navigation."""
    installed = _INSTALLED.is_dir()
    folder = _INSTALLED if installed else _PACKAGE.parent / "docs"
    navigation = (folder if installed else _PACKAGE.parent) / "zensical.toml"
    sections = tomllib.loads(navigation.read_text(encoding="utf-8"))["project"]["nav"]
    return {
        _id(file): _Page(_id(file), section, folder / file)
        for one in sections
        for section, files in one.items()
        for file in files
    }


def places(text: str) -> dict[str, str]:
    """Each place of a page by its name, with what stands there: a section, a row under its head, or a paragraph."""
    found: dict[str, str] = {}
    lines = text.splitlines()
    for number, heading, level in _headings(lines):
        behind = (later for later, _, depth in _headings(lines) if later > number and depth <= level)
        found[_slug(heading)] = "\n".join(lines[number : next(behind, len(lines))])
    for number, line in enumerate(lines):
        for place in _PLACE.findall(line):
            found.setdefault(place, "\n".join(_around(lines, number)))
    return found


def _headings(lines: list[str]) -> Iterator[tuple[int, str, int]]:
    """The number, the text and the level of each heading; what looks like one in a block of code is none."""
    in_code = False
    for number, line in enumerate(lines):
        in_code ^= line.startswith(_FENCE)
        if not in_code and (heading := _HEADING.fullmatch(line)):
            yield number, _PLACE.sub("", heading[2]), len(heading[1])


def _around(lines: list[str], number: int) -> list[str]:
    """The paragraph with this line, or the section of a heading; of a table only its head and this row."""
    if _HEADING.fullmatch(lines[number]):
        level = len(lines[number]) - len(lines[number].lstrip("#"))
        behind = (later for later, _, depth in _headings(lines) if later > number and depth <= level)
        return lines[number : next(behind, len(lines))]
    first, last = number, number + 1
    while first and lines[first - 1].strip():
        first -= 1
    while last < len(lines) and lines[last].strip():
        last += 1
    row = lines[number].startswith("|")
    return [*lines[first : first + 2], lines[number]] if row and number > first + 1 else lines[first:last]


def _slug(heading: str) -> str:
    """The name of the place of a heading, as on the site."""
    return re.sub(r"[ -]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def _id(file: str) -> str:
    return file.removesuffix(".md").removesuffix("/README")


def _of_error(name: str) -> str:
    """The place of an error's page, for its class or its kind; any other name as it is."""
    kinds = {alias: kind.page for kind in _errors(RayshotError) for alias in (kind.__name__, kind.kind)}
    return kinds.get(name, name)


def _errors(root: type[RayshotError]) -> Iterator[type[RayshotError]]:
    yield root
    for kind in root.__subclasses__():
        yield from _errors(kind)


def _for_terminals(text: str) -> str:
    text = _REFERENCE.sub(r"`python -m pydoc \1`", _PLACE.sub("", text))
    text = _PICTURE.sub(r"(\1)", text)
    text = _LINK.sub(lambda link: f"]({_id(link[1].removeprefix('../'))}{link[2] or ''})", text)
    return re.sub(rf"(?m)^{_FENCE}(\w*) .*$", rf"{_FENCE}\1", text)


def _contents() -> str:
    """The list of pages, without those of the design and the benchmarks, which have lists of their own."""
    shown = [page for page in pages().values() if "/" not in page.name]
    width = max(len(page.name) for page in shown)
    lines = ["Show a page with `rayshot help PAGE`, a place in it with `rayshot help PAGE#PLACE`."]
    for section in dict.fromkeys(page.section for page in shown):
        rows = (f"    {page.name:{width}}  {page.title}" for page in shown if page.section == section)
        lines += ["", f"{section}:", "", *rows]
    return "\n".join(lines)
