"""`python -m benchmarks [NAME ...] [--json FILE] [--plots FOLDER] [--short]`."""

import json
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from benchmarks import (
    backlog,
    calls,
    capture,
    chaos,
    commands,
    concluding,
    durable,
    growth,
    healing,
    incremental,
    interval,
    lake,
    latency,
    log,
    messages,
    metrics,
    proving,
    references,
    restore,
    rollouts,
    scale,
    sinks,
    snapshot,
    tables,
    walk,
)
from benchmarks.cluster import fresh_cluster
from benchmarks.machine import machine_facts
from benchmarks.peers import comparison
from benchmarks.report import NotRun, Report
from benchmarks.table import figures_table

BENCHMARKS = {
    "messages": messages.run,
    "latency": latency.run,
    "calls": calls.run,
    "concluding": concluding.run,
    "references": references.run,
    "snapshot": snapshot.run,
    "capture": capture.run,
    "proving": proving.run,
    "growth": growth.run,
    "scale": scale.run,
    "interval": interval.run,
    "backlog": backlog.run,
    "durable": durable.run,
    "incremental": incremental.run,
    "restore": restore.run,
    "healing": healing.run,
    "chaos": chaos.run,
    "rollouts": rollouts.run,
    "sinks": sinks.run,
    "log": log.run,
    "tables": tables.run,
    "lake": lake.run,
    "commands": commands.run,
    "metrics": metrics.run,
    "walk": walk.run,
    "peers": comparison.run,
}


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(BENCHMARKS)))
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write facts, samples and figures here.")
@click.option("--plots", "folder", type=click.Path(path_type=Path, file_okay=False), help="Draw pictures into here.")
@click.option("--short", is_flag=True, help="Seconds only: shows that all runs; its figures mean nothing.")
def main(names: tuple[str, ...], json_file: Path | None, folder: Path | None, *, short: bool) -> None:
    """Measure rayshot and what it is compared with in turn, in one run. Without NAMES: all."""
    console = Console()
    facts = machine_facts()
    console.print(_headline(facts, short=short))
    with fresh_cluster() if short and len(names) != 1 else nullcontext():
        _run(names or tuple(BENCHMARKS), console, facts, json_file, folder, short=short)


def _run(
    names: Sequence[str],
    console: Console,
    facts: dict[str, Any],
    json_file: Path | None,
    folder: Path | None,
    *,
    short: bool,
) -> None:
    reports, not_run = [], {}
    for name in names:
        began_at = time.monotonic()
        console.print(f"[dim]{name} ...[/dim]")
        try:
            report = BENCHMARKS[name](short=short)
        except NotRun as reason:
            not_run[name] = str(reason)
            console.print(f"[yellow]{name} was not run: {reason}[/yellow]")
        else:
            reports.append(report)
            console.print(f"[bold]{name}[/bold]: {report.question}", figures_table(report))
            console.print(f"[dim]{name} took {time.monotonic() - began_at:.0f} s[/dim]")
            if folder is not None:
                _draw(report, folder, _headline(facts, short=short))
        if json_file is not None:  # after each one: a long run that is ended early has measured something
            _write(json_file, facts, reports, not_run, short=short)


def _write(file: Path, facts: dict[str, Any], reports: list[Report], not_run: dict[str, str], *, short: bool) -> None:
    found = {
        "machine": facts,
        "short": short,
        "benchmarks": {report.name: report.as_json() for report in reports},
        "not_run": not_run,
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _draw(report: Report, folder: Path, footnote: str) -> None:
    from benchmarks.plots import draw  # noqa: PLC0415 - measuring needs no matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    draw(report, folder, footnote)


def _headline(facts: dict[str, Any], *, short: bool) -> str:
    text = (
        f"{facts['cores']} cores ({facts['processor']}), {facts['memory_bytes'] / 2**30:.0f} GB, "
        f"Python {facts['python']}, Ray {facts['ray']}, rayshot {facts['rayshot']} "
        f"({facts['commit'] or 'no commit'}{', modified' if facts['modified'] else ''})"
    )
    return text + (" - SHORT: these figures mean nothing" if short else "")


if __name__ == "__main__":
    main()
