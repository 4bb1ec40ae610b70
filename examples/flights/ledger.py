"""The totals that must come out, as Spark computes them from the CSV, compared with what the actors counted."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from examples.flights.airport import ELSEWHERE


class Totals(NamedTuple):
    """What an airport counts; delays in minutes."""

    departures: int
    arrivals: int
    departure_delay_min: int
    arrival_delay_min: int


def totals_from_csv(spark: Any, flights: Path, airports: Iterable[str]) -> dict[str, Totals]:
    """Let Spark read the flights themselves and add up by airport, all but `airports` under one name."""
    table = spark.read.csv(str(flights), header=True, nullValue="NA")
    table.createOrReplaceTempView("flights")
    names = ", ".join(f"'{name}'" for name in airports if name != ELSEWHERE)
    rows = spark.sql(
        f"""
        WITH flown AS (SELECT * FROM flights WHERE dep_time IS NOT NULL),
             moves AS (
                SELECT origin AS code, 1 AS departure, 0 AS arrival, dep_delay AS delay_out, 0 AS delay_in FROM flown
                UNION ALL
                SELECT dest, 0, 1, 0, arr_delay FROM flown)
        SELECT if(code IN ({names}), code, '{ELSEWHERE}') AS airport,
               sum(departure) AS departures,
               sum(arrival) AS arrivals,
               sum(coalesce(cast(delay_out AS BIGINT), 0)) AS departure_delay_min,
               sum(coalesce(cast(delay_in AS BIGINT), 0)) AS arrival_delay_min
        FROM moves GROUP BY airport
        """
    ).collect()
    return {row.airport: Totals(*row[1:]) for row in rows}


def differences(expected: Mapping[str, Totals], counted: Mapping[str, Totals]) -> list[str]:
    """Where actors and CSV disagree, in sentences: none when nothing was lost and nothing came twice."""
    nothing = Totals(0, 0, 0, 0)
    return [
        f"{name}: the actor counted {field} {mine:,}, the CSV says {true:,}"
        for name in sorted(expected.keys() | counted.keys())
        for field, mine, true in zip(
            Totals._fields, counted.get(name, nothing), expected.get(name, nothing), strict=True
        )
        if mine != true
    ]


def busiest_routes(spark: Any, storage: Path, count: int) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Ask the snapshots in Spark which routes had the most aircraft in the air.

    Returns the column names and the rows: the route, then for each snapshot how many were in the air on it.
    """
    messages = spark.read.format("rayshot").option("view", "messages").load(str(storage))
    messages.createOrReplaceTempView("messages")
    counted = spark.sql(
        """
        SELECT concat(fields[2], ' - ', fields[3]) AS route, position, count(*) AS aircraft
        FROM (SELECT from_json(args, 'ARRAY<STRING>') AS fields, position FROM messages WHERE method = 'land')
        GROUP BY route, position
        """
    ).collect()
    aircraft = {(row.route, row.position): row.aircraft for row in counted}
    positions = sorted({row.position for row in counted})
    rows = [
        (route, *(aircraft.get((route, position), 0) for position in positions)) for route in {r for r, _ in aircraft}
    ]
    rows.sort(key=lambda row: (-sum(row[1:]), row[0]))
    return ["route", *(f"photograph {number}" for number in range(1, len(positions) + 1))], rows[:count]
