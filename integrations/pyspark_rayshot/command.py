"""The pipeline's command line."""

import logging
import signal
import sys
import threading
import time
from typing import Any, Never

import click
from rich.console import Console

from pyspark_rayshot.running import INTERVAL_S, SNAPSHOTS_MAX, Progress, check, pipeline
from pyspark_rayshot.session import local_session
from rayshot.errors import RayshotError

FAILED = 1


@click.command()
@click.argument("source", metavar="SRC")
@click.argument("destination", metavar="DST")
@click.option("--format", "form", default="parquet", show_default=True, help="What DST is: parquet, delta or iceberg.")
@click.option("--once", is_flag=True, help="Write what there is, and end.")
@click.option("--system", help="Whose snapshots, where SRC holds several systems.")
@click.option("--encryption-key-file", help="A file with the keys of encrypted snapshots; else the environment.")
@click.option("--interval", "interval_s", default=INTERVAL_S, show_default=True, help="Seconds between two batches.")
@click.option("--max-snapshots", default=SNAPSHOTS_MAX, show_default=True, help="In one batch, at most.")
def main(
    source: str, destination: str, form: str, *, once: bool, interval_s: float, max_snapshots: int, **given: Any
) -> None:
    """Keep the lake in the folder DST up to date with the snapshots in the storage SRC, until Ctrl-C.

    Each snapshot is written once, however often this is killed and started again. See `rayshot help pipeline`.
    """
    console = Console(stderr=not sys.stdout.isatty())
    stop = threading.Event()
    began_at = time.monotonic()

    def show(one: Progress) -> None:
        gaps = f", [yellow]{one.gaps:,} deleted before they were read[/yellow]" if one.gaps else ""
        console.print(
            f"[dim]{time.monotonic() - began_at:7.1f} s[/dim]  {one.snapshots:,} snapshots{gaps}, {one.rows:,} rows, "
            f"up to [bold]{one.newest}[/bold]",
            soft_wrap=True,
        )

    options = {name: value for name, value in given.items() if value is not None}
    settings: dict[str, Any] = {"format": form, "interval_s": interval_s, "snapshots_max": max_snapshots}
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # if Spark is gone it prints each call that fails
    try:
        check(source, destination, **settings, options=options)  # Spark needs some time to start
        spark = local_session("rayshot pipeline")
        _end_between_batches(stop)
        total = pipeline(spark, source, destination, once=once, progress=show, stop=stop, **settings, **options)
    except RayshotError as error:
        _fail(error)
    ending = "stopped" if stop.is_set() else "done"
    console.print(
        f"{ending}: {total.snapshots:,} snapshots, {total.gaps:,} gaps, {total.rows:,} rows in {destination}",
        soft_wrap=True,
    )


def _end_between_batches(stop: threading.Event) -> None:
    """The first Ctrl-C lets the current batch end; the second one has its usual effect."""

    def ask(number: int, _: Any) -> None:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask)


def _fail(error: RayshotError) -> Never:
    click.echo(f"error: {error.kind}: {error.message}", err=True)
    raise SystemExit(FAILED) from error
