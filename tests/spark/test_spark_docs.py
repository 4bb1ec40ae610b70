"""The tables of docs/spark.md and docs/views.md are those of the code."""

import re
from pathlib import Path

import rayshot
from pyspark_rayshot.options import PLACE_OPTIONS, STREAM_OPTIONS
from rayshot.analysis.query import COMMON_OPTIONS, DEFAULT_VIEW, PAIR_OPTIONS
from rayshot.analysis.selection import SELECTION_OPTIONS
from rayshot.analysis.view import ENTRY_OPTIONS, ROW_OPTIONS
from rayshot.analysis.views import VIEWS

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
COLUMNS = PAGE.with_name("views.md")
EVERY = 6
"""Columns that all views begin with."""


def tables() -> dict[str, str]:
    return dict(re.findall(r"<!-- (views|options)\b.*?-->\n(.*?)\n<!-- end -->", PAGE.read_text(), re.DOTALL))


def view_table() -> str:
    rows = [f"| `{view.name}` | {view.about} |" for view in VIEWS.values()]
    return "\n".join(["| view | |", "| --- | --- |", *rows])


def column_tables() -> str:
    every = next(iter(VIEWS.values())).columns[:EVERY]
    parts = [("Every view", "", every), *((view.name, view.about, view.columns[EVERY:]) for view in VIEWS.values())]
    return "\n\n".join(
        "\n".join(
            [
                f"## `{name}`" if about else f"## {name}",
                *(["", f"{about[0].upper()}{about[1:]}."] if about else []),
                "",
                "| column | type | |",
                "| --- | --- | --- |",
                *(f"| `{column.name}` | {column.type} | {column.about} |" for column in columns),
            ]
        )
        for name, about, columns in parts
    )


def option_table() -> str:
    common = [f"| `{name}` | {about} | all |" for name, about in {**PLACE_OPTIONS, **COMMON_OPTIONS}.items()]
    but = ", ".join(view.name for view in VIEWS.values() if not view.of_snapshots)
    chosen = [f"| `{name}` | {about} | all but {but} |" for name, about in SELECTION_OPTIONS.items()]
    pairs = ", ".join(view.name for view in VIEWS.values() if view.of_pairs)
    compared = [f"| `{name}` | {about} | {pairs} |" for name, about in PAIR_OPTIONS.items()]
    users = {name: [view.name for view in VIEWS.values() if name in view.options] for name in ENTRY_OPTIONS}
    own = [f"| `{name}` | {option.about} | {', '.join(users[name])} |" for name, option in ENTRY_OPTIONS.items()]
    within = [
        f"| `{name}` | {about} | {', '.join(view.name for view in VIEWS.values() if name in view.row_options)} |"
        for name, about in ROW_OPTIONS.items()
    ]
    stream = [f"| `{name}` | {about} | streams |" for name, about in STREAM_OPTIONS.items()]
    return "\n".join(
        ["| option | | views |", "| --- | --- | --- |", *common, *chosen, *compared, *own, *within, *stream]
    )


def test_the_tables_of_views_and_options_are_those_of_the_code() -> None:
    assert tables() == {"views": view_table(), "options": option_table()}
    assert DEFAULT_VIEW in VIEWS
    starts = {tuple((c.name, c.type, c.about) for c in view.columns[:EVERY]) for view in VIEWS.values()}
    assert len(starts) == 1
    for name, kind, _ in starts.pop():
        assert f"`{name} {kind}`" in PAGE.read_text()


def test_the_page_of_columns_is_that_of_the_code() -> None:
    _, _, columns = COLUMNS.read_text().partition("\n\n## ")
    assert f"## {columns}" == column_tables() + "\n"


def test_the_storage_for_learners_is_small_and_has_all_that_the_page_asks_for() -> None:
    files = [path for path in (PAGE.parent / "learners").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 300_000
    assert len(rayshot.open(PAGE.parent / "learners").system("bank").snapshots()) == 4
