"""Reports as tables for a terminal."""

from rich import box
from rich.table import Table
from rich.text import Text

from benchmarks.report import Figure, Report


def figures_table(report: Report) -> Table:
    """One report's figures with their intervals and targets. Its title is printed above, not in it."""
    table = Table(box=box.SIMPLE_HEAD, header_style="dim")
    table.add_column("figure")
    for column in ("median", "95 % interval", "target"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("")
    for figure in report.figures:
        table.add_row(figure.name, *_cells(figure), _verdict(figure))
    return table


def _cells(figure: Figure) -> tuple[str, str, str]:
    interval = "" if figure.interval is None else " .. ".join(map(number, figure.interval))
    target = "" if figure.target is None else f"{figure.target.relation} {number(figure.target.bound)}"
    return f"{number(figure.value)} {figure.unit}", interval, target


def _verdict(figure: Figure) -> Text:
    match figure.met:
        case None:
            return Text("")
        case True:
            return Text("met", style="green")
        case False:
            return Text("missed", style="bold red")


def number(value: float) -> str:
    """Three digits that count, thousands apart."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
