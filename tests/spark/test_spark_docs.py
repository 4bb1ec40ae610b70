"""The tables of docs/spark.md and docs/views.md are those of the code."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import rayshot
from pyspark_rayshot.options import PLACE_OPTIONS, STREAM_OPTIONS
from rayshot.analysis.query import COMMON_OPTIONS, DEFAULT_VIEW, PAIR_OPTIONS
from rayshot.analysis.selection import SELECTION_OPTIONS
from rayshot.analysis.view import ENTRY_OPTIONS, ROW_OPTIONS
from rayshot.analysis.views import VIEWS
from tests.written import check_written

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
COLUMNS = PAGE.with_name("views.md")
EVERY = 6
"""Columns that all views begin with."""


def tables() -> dict[str, str]:
    return dict(re.findall(r"<!-- (views|options)\b.*?-->\n(.*?)\n<!-- end -->", PAGE.read_text(), re.DOTALL))


def view_table() -> str:
    rows = [f"| `{view.name}` | {view.about.removeprefix('one row for each ')} |" for view in VIEWS.values()]
    return "\n".join(["| view | one row for each |", "| --- | --- |", *rows])


def column_tables() -> str:
    said = {view.name: [(one.name, shown(one.type), one.about) for one in view.columns] for view in VIEWS.values()}
    every = next(iter(said.values()))[:EVERY]
    own = {name: columns[EVERY:] for name, columns in said.items()}
    uses = Counter(in_common(column) for columns in own.values() for column in columns)
    shared = [column for column, count in uses.items() if count > 1]
    parts = [listed("Every view", every), listed("Several views", shared)]
    for name, columns in own.items():
        also = ", ".join(f"`{column[0]}`" for column in columns if in_common(column) in shared)
        more = f"\n\n[Also](#several-views) {also}." if also else ""
        parts.append(listed(f"`{name}`", [column for column in columns if in_common(column) not in shared]) + more)
    return "\n\n".join(parts)


def shown(column_type: str) -> str:
    """A page would take what stands in angle brackets for a tag."""
    return f"`{column_type}`" if "<" in column_type else column_type


def in_common(column: tuple[str, str, str]) -> tuple[str, str, str]:
    """The column as that of several views: `old_long` is what `value_long` is."""
    name, kind, about = column
    return re.sub(r"^(old|new)_", "value_", name), kind, about


def listed(heading: str, columns: Sequence[tuple[str, str, str]]) -> str:
    return "\n".join([f"## {heading}", "", *(f"- `{name}` {kind}: {about}" for name, kind, about in columns)])


def option_lists() -> str:
    but = ", ".join(f"`{view.name}`" for view in VIEWS.values() if not view.of_snapshots)
    pairs = ", ".join(f"`{view.name}`" for view in VIEWS.values() if view.of_pairs)
    entries = {name: option.about for name, option in ENTRY_OPTIONS.items()}
    groups = {
        "All views": {**PLACE_OPTIONS, **COMMON_OPTIONS},
        f"All views but {but}": SELECTION_OPTIONS,
        pairs: PAIR_OPTIONS,
        "Some views": {name: f"{about} ({users(name)})" for name, about in {**entries, **ROW_OPTIONS}.items()},
        "[Streams](#a-stream)": STREAM_OPTIONS,
    }
    return "\n\n".join(
        "\n".join([f"{group}:", "", *(f"- `{name}`: {about}" for name, about in options.items())])
        for group, options in groups.items()
    )


def users(option: str) -> str:
    """The views that take an option of entries or of rows."""
    return ", ".join(f"`{view.name}`" for view in VIEWS.values() if option in (*view.options, *view.row_options))


def test_the_tables_of_views_and_options_are_those_of_the_code() -> None:
    assert tables() == {"views": view_table(), "options": option_lists()}
    assert all(view.about.startswith("one row for each ") for view in VIEWS.values())
    assert DEFAULT_VIEW in VIEWS
    assert len({tuple((c.name, c.type, c.about) for c in view.columns[:EVERY]) for view in VIEWS.values()}) == 1


def test_the_page_of_columns_is_that_of_the_code() -> None:
    lead, _, _ = COLUMNS.read_text().partition("\n\n## ")
    check_written(COLUMNS, f"{lead}\n\n{column_tables()}\n")


def test_the_storage_for_learners_is_small_and_has_all_that_the_page_asks_for() -> None:
    files = [path for path in (PAGE.parent / "learners").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 300_000
    assert len(rayshot.open(PAGE.parent / "learners").system("bank").snapshots()) == 4
