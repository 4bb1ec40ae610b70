"""The demo, chapter by chapter: fly, photograph, crash and come back, restore, land, and compare with Spark."""

import os
import random
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from examples.flights.ledger import Totals, busiest_routes, differences, totals_from_csv
from examples.flights.photograph import Photograph
from examples.flights.picture import draw
from examples.flights.screen import console, flying, headline, say, step
from examples.flights.sky import SCHEDULES, Sky, airport_names, ray_cluster
from examples.flights.timetable import busiest_airports, read_flights, read_places, write_flights
from rayshot.runtime.wire.recovery_report import RecoveryReport

PHOTOGRAPHS_AT = (0.15, 0.3, 0.45)
"""Shares of the flights after which a photograph is taken before the crash."""
CRASH_AT, BACK_PHOTOGRAPH_AT = 0.55, 0.65
LAST_PHOTOGRAPH_AT = 0.8
"""In the new cluster."""
POLL_S = 0.25
BACK_S = 60.0
AHEAD = 0.2
"""The flights may be this share ahead of the demo: on a busy machine they would else be over before the crash."""
SECONDS_MIN, SECONDS_MAX, FLIGHTS_PER_S_MAX = 10.0, 90.0, 4_000.0
"""A replay takes as long as the year would at full rate, but at least a while, or there is nothing to photograph."""
MADE_BY_DEMO = "made-by-the-flights-demo"


class Disproved(Exception):
    """What the demo claims is not true."""


@dataclass(frozen=True)
class Plan:
    """What to replay: `rows` of the file (None: all), and how many airports are actors of their own."""

    rows: int | None
    airports: int
    storage: Path
    seed: int


@dataclass(frozen=True)
class Stage:
    """What the chapters share."""

    folder: Path
    flights: Path
    shots: Path
    airports: list[str]
    total: int
    dice: random.Random

    @property
    def actors(self) -> int:
        """How many actors there are."""
        return len(self.airports) + SCHEDULES


def run(plan: Plan) -> None:
    """Run the demo; raises Disproved where a claim fails."""
    began = time.monotonic()
    stage = _prepare(plan)
    photographs = _first_cluster(stage)
    counted = _second_cluster(stage, photographs)
    _compare(stage, counted)
    picture = _picture(stage, photographs)
    _say_what_was_proved(stage, photographs, picture, time.monotonic() - began)


# Chapters -------------------------------------------------------------------------------------------------------


def _prepare(plan: Plan) -> Stage:
    headline("The timetable")
    folder = _own_folder(plan.storage)
    flights = folder / "flights.csv"
    write_flights(flights, plan.rows)
    flown = read_flights(flights)
    airports = airport_names(busiest_airports(flown, plan.airports))
    say(f"{len(flown):,} flights of 2013 that were not cancelled; {len(airports)} airports: {' '.join(airports)}")
    return Stage(folder, flights, folder / "snapshots", airports, len(flown), random.Random(plan.seed))


def _first_cluster(stage: Stage) -> list[Photograph]:
    headline("Take-off")
    photographs: list[Photograph] = []
    with ray_cluster(stage.actors, stage.folder / "ray.log"):
        with step(f"{stage.actors} actors start, each a process"):
            sky = Sky.create(stage.shots, stage.flights, stage.airports, _flights_per_s(stage.total))
        sky.begin()
        for share in PHOTOGRAPHS_AT:
            _fly(stage, sky, share)
            photographs.append(_photograph(sky, len(photographs) + 1))
        _fly(stage, sky, CRASH_AT)
        _crash(stage, sky, photographs)
        _fly(stage, sky, BACK_PHOTOGRAPH_AT)
        photographs.append(_photograph(sky, len(photographs) + 1))
    say("[dim]then the whole cluster ends: no process of it is left[/]")
    return photographs


def _crash(stage: Stage, sky: Sky, photographs: list[Photograph]) -> None:
    headline("The crash")
    last = photographs[-1]
    progress = sky.progress()
    processes = sky.processes()
    victims = stage.dice.sample(stage.airports, len(stage.airports) // 2)
    for name in victims:
        os.kill(processes[name], signal.SIGKILL)
    say(f"SIGKILL to {len(victims)} of {len(stage.airports)} airports: {' '.join(victims)}")
    recovery = _wait_until_back(sky)
    say(
        f"[bold]nobody repairs it[/]: {recovery.seconds:.1f} s later the whole sky flies on from photograph "
        f"{len(photographs)}, with {len(victims)} new processes"
    )
    say(
        f"    undone, and flown once more: {progress.departures - last.departures:,} departures and "
        f"{progress.arrivals - last.arrivals:,} arrivals since then"
    )


def _second_cluster(stage: Stage, photographs: list[Photograph]) -> dict[str, Totals]:
    headline("A new cluster")
    with ray_cluster(stage.actors, stage.folder / "ray.log"):
        with step(f"a new Ray cluster, the {stage.actors} actors from photograph {len(photographs)}"):
            sky = Sky.restore(stage.shots, stage.airports)
        _fly(stage, sky, LAST_PHOTOGRAPH_AT)
        photographs.append(_photograph(sky, len(photographs) + 1))
        _fly(stage, sky, 1.0)
        totals = sky.totals()
        sky.system.shutdown()
    say(f"all {stage.total:,} flights have landed")
    return totals


def _compare(stage: Stage, counted: dict[str, Totals]) -> None:
    from pyspark_rayshot.session import local_session  # noqa: PLC0415 - starts nothing until the actors are done

    headline("Spark reads the CSV, and the snapshots")
    with step("Spark starts, and adds up the CSV"):
        spark = local_session("flights")
        expected = totals_from_csv(spark, stage.flights, stage.airports)
    try:
        _show_totals(stage, expected, counted)
        wrong = differences(expected, counted)
        if wrong:
            raise Disproved("; ".join(wrong))
        with step("Spark opens the snapshots"):
            columns, rows = busiest_routes(spark, stage.shots, 8)
        _show_table("The busiest routes in the air, from the snapshots' messages", columns, rows)
    finally:
        spark.stop()


def _picture(stage: Stage, photographs: list[Photograph]) -> Path:
    clearest = max(photographs, key=lambda photograph: photograph.clarity)
    path = stage.folder / "sky.png"
    caption = (
        f"Photograph {photographs.index(clearest) + 1}: {clearest.departures:,} departures = "
        f"{clearest.arrivals:,} arrivals + {len(clearest.in_the_air):,} messages in flight "
        f"between {len(stage.airports)} Ray actors, which never stopped. Flights of 2013 out of New York."
    )
    draw(clearest, read_places(), path, caption)
    return path


def _say_what_was_proved(stage: Stage, photographs: list[Photograph], picture: Path, seconds: float) -> None:
    headline("Proved")
    in_the_air = ", ".join(f"{len(photograph.in_the_air):,}" for photograph in photographs)
    say(f"{len(photographs)} photographs of a moving sky, with {in_the_air} aircraft in the air, none of them stopped")
    say("in each: departures = arrivals + in the air, exactly, from the snapshot's own verified bytes")
    say(
        f"{len(stage.airports) // 2} of {len(stage.airports)} airports killed, and back by themselves; "
        "a new cluster restored from a photograph"
    )
    say(f"then every total of every airport equals Spark's from the CSV: {stage.total:,} flights, 0 lost, 0 twice")
    say(f"picture: {picture}")
    say(f"[dim]{seconds:.0f} s. To look further: rayshot show {stage.shots}[/]")


# Steps ----------------------------------------------------------------------------------------------------------


def _fly(stage: Stage, sky: Sky, share: float) -> None:
    """Wait until this share of the flights is replayed; 1.0: until all have landed."""
    sky.go_on(share + AHEAD)
    with flying(stage.total) as show:
        while True:
            progress = sky.progress()
            show(progress)
            if progress.arrivals >= stage.total or (share < 1 and progress.replayed >= share * stage.total):
                return
            time.sleep(POLL_S)


def _photograph(sky: Sky, number: int) -> Photograph:
    began = time.monotonic()
    snapshot = sky.system.snapshot()
    seconds = time.monotonic() - began
    photograph = Photograph.of(snapshot)
    wrong = photograph.contradictions()
    if wrong:
        raise Disproved(f"photograph {number}: {'; '.join(wrong)}")
    say(
        f"[bold]photograph {number}[/] [dim]{snapshot.id}, {seconds:.2f} s[/]  "
        f"on the ground {photograph.arrivals:,}, [yellow]in the air {len(photograph.in_the_air):,}[/], "
        f"at the gate {photograph.at_the_gate:,}"
    )
    say(
        f"    {photograph.departures:,} departures = {photograph.arrivals:,} arrivals + "
        f"{len(photograph.in_the_air):,} in the air [green]exactly[/]; verified from its bytes"
    )
    return photograph


def _wait_until_back(sky: Sky) -> RecoveryReport:
    with step("the sky goes back by itself"):
        deadline, status = time.monotonic() + BACK_S, sky.system.status()
        while time.monotonic() < deadline:
            if status.recoveries and status.state == "running":
                return status.recoveries[-1]
            time.sleep(POLL_S)
            status = sky.system.status()
    raise Disproved(
        f"half of the airports are dead, and after {BACK_S:.0f} s the sky is {status.state}: {status.detail}"
    )


def _flights_per_s(total: int) -> float:
    seconds = min(SECONDS_MAX, max(SECONDS_MIN, total / FLIGHTS_PER_S_MAX))
    return total / seconds


def _own_folder(storage: Path) -> Path:
    """A fresh folder; one of that name is wiped only if the demo made it."""
    folder = storage / "flights"
    if folder.exists():
        if not (folder / MADE_BY_DEMO).exists():
            raise SystemExit(f"{folder} exists and was not made by this demo: give another --storage")
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / MADE_BY_DEMO).touch()
    return folder


def _show_totals(stage: Stage, expected: dict[str, Totals], counted: dict[str, Totals]) -> None:
    rows = []
    for name in stage.airports:
        mine, true = counted[name], expected.get(name, Totals(0, 0, 0, 0))
        rows.append(
            (name, *(f"{number:,}" for number in mine), "[green]equal[/]" if mine == true else "[red]differs[/]")
        )
    columns = ["airport", "departures", "arrivals", "min late out", "min late in", "Spark from the CSV"]
    _show_table("What the actors counted", columns, rows)


def _show_table(title: str, columns: list[str], rows: list[tuple[Any, ...]]) -> None:
    table = Table(title=title, title_justify="left", header_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    console.print(table)
