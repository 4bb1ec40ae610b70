"""A sink into SQLite and into PostgreSQL is killed 100 times each: every row is visible once. How soon, and how fast?

Killed with SIGKILL are the sink, its source, the coordinator, or two of them, at moments that a seed chooses, some
while the system still goes back.
"""

import time
from collections import Counter
from pathlib import Path

import ray
import sqlalchemy as sa

import rayshot
from benchmarks.cluster import ONE_LIFE, fresh_cluster, wait_for
from benchmarks.kills import Killing, plan
from benchmarks.report import Figure, Report, Series, Target
from rayshot import FailureConfig, SnapshotConfig
from rayshot.model.outside import FencingToken
from rayshot.sinks import Backend, Sink
from rayshot.sinks.sql import Sql
from tests.sinks.postgres_server import running_postgres

SEED = 2026
ROWS, EVERY_S = 20, 0.02
"""The source tells the sink so many rows at a time, and so often."""
BATCH = 100_000
BACK, SOON, RATE = "kill until it runs again", "commit until rows are visible", "rows a second of one sink"
DATABASES = "SQLite", "PostgreSQL"
TABLE = "visits"
NONE_WRONG, SOON_TARGET = Target("<=", 0), Target("<=", 0.2)
RATE_TARGETS = dict(zip(DATABASES, (Target(">=", 200_000), Target(">=", 500_000)), strict=True))


class Visits(Sink):
    """Rows of numbers."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url

    def connect(self) -> Backend:
        """See Sink."""
        return Sql(self.url, TABLE)


class Source:
    """Counts, until it is told to stop."""

    def __init__(self, to: rayshot.ActorHandle) -> None:
        self.to, self.count, self.runs = to, 0, True

    def count_on(self) -> None:
        """Tell the sink some numbers, and come back soon."""
        if self.runs:
            self.to.write.tell([{"n": n, "person": "anybody"} for n in range(self.count, self.count + ROWS)])
            self.count += ROWS
            rayshot.current().after(EVERY_S, self.count_on)

    def stop(self) -> int:
        """Count no further; returns how many numbers were told."""
        self.runs = False
        return self.count


def make_table(url: str) -> None:
    """An empty one."""
    engine = sa.create_engine(url)
    with engine.begin() as db:
        for name in (TABLE, "rayshot_sinks"):
            db.execute(sa.text(f"DROP TABLE IF EXISTS {name}"))
        db.execute(sa.text(f"CREATE TABLE {TABLE} (n BIGINT, person VARCHAR(20))"))
    engine.dispose()


def visible(url: str) -> list[int]:
    """The numbers that anybody sees, in their order."""
    engine = sa.create_engine(url)
    with engine.connect() as db:
        found = [n for (n,) in db.execute(sa.text(f"SELECT n FROM {TABLE} ORDER BY n"))]
    engine.dispose()
    return found


def torment(url: str, folder: Path, count: int, after_s_max: float) -> tuple[Killing, dict[str, int]]:
    """Let rows flow, and kill meanwhile. Returns what the kills did, and how many rows are wrong in the end."""
    make_table(url)
    often = SnapshotConfig(interval_s=0.5, num_to_keep=3)
    heals = FailureConfig(backoff_s=0.0)
    with rayshot.init("sinks", storage=folder, failure=heals, snapshots=often) as system:
        sink = rayshot.actor(Visits).options(name="sink").remote(url)
        source = rayshot.actor(Source).options(name="source").remote(sink)
        source.count_on.tell()
        system.snapshot()
        killing = Killing(system, lambda: f"{len(visible(url)):,} rows are visible")
        killing.carry_out(plan(SEED, count, ("sink", "source"), after_s_max))
        told = int(ray.get(source.stop.remote()))
        system.stop_with_savepoint("end")
    counts = Counter(visible(url))
    return killing, {
        "lost": len(set(range(told)) - counts.keys()),
        "visible more than once": sum(count - 1 for count in counts.values()),
        "visible that nobody told": len(counts.keys() - set(range(told))),
        "told": told,
    }


def delays(url: str, folder: Path, rounds: int) -> list[float]:
    """For each of so many snapshots, the seconds from its commit until its rows are visible."""
    make_table(url)
    found = []
    with rayshot.init("delays", storage=folder, failure=ONE_LIFE) as system:
        sink = rayshot.actor(Visits).options(name="sink").remote(url)
        for number in range(1, rounds + 1):
            sink.write.tell([{"n": number * ROWS + n, "person": "anybody"} for n in range(ROWS)])
            system.snapshot()
            durable_at = time.monotonic()
            wait_for(lambda n=number: len(visible(url)) == n * ROWS or None, "its rows", poll_s=0.001)  # type: ignore[misc]
            found.append(time.monotonic() - durable_at)
    return found


def rates(url: str, rounds: int) -> list[float]:
    """Rows a second into the table, in batches of BATCH, each of which is a transaction."""
    make_table(url)
    backend, token, found = Sql(url, TABLE), FencingToken("run", 1, "owner"), []
    backend.system, backend.sink = "rates", "sink"
    backend.take(token)
    for sequence in range(1, rounds + 1):
        rows = [{"n": n, "person": "anybody"} for n in range(BATCH)]
        began_at = time.perf_counter()
        backend.publish(token, sequence, "line", rows)
        found.append(BATCH / (time.perf_counter() - began_at))
    return found


def run(*, short: bool) -> Report:
    """The kills, then how soon and how fast, for each database."""
    count, after_s, rounds = (2, 0.5, 3) if short else (100, 2.0, 20)
    series, figures = [], []
    with fresh_cluster() as folder, running_postgres() as server:
        for name, url in zip(DATABASES, (f"sqlite:///{folder / 'visits.db'}", server.url), strict=True):
            killing, wrong = torment(url, folder / name, count, after_s)
            soon, fast = delays(url, folder / f"{name}-delays", rounds), rates(url, rounds)
            told = wrong.pop("told")
            series += [
                Series(f"{BACK}: {name}", "s", tuple(killing.back_s)),
                Series(f"{SOON}: {name}", "s", tuple(soon)),
                Series(f"{RATE}: {name}", "1/s", tuple(fast)),
            ]
            figures += [
                *(Figure(f"rows {what}: {name}", float(n), "", target=NONE_WRONG) for what, n in wrong.items()),
                Figure(f"rows told: {name}", float(told), ""),
                Figure.median_of(f"{SOON}, p50: {name}", soon, "s", SOON_TARGET),
                Figure.median_of(f"{RATE}: {name}", fast, "1/s", RATE_TARGETS[name]),
            ]
    return Report(
        "sinks",
        f"A sink is killed {2 * count} times: is each row visible once, how soon, and how fast?",
        {"kills": count, "seed": SEED, "rounds": rounds, "batch": BATCH},
        tuple(series),
        tuple(figures),
    )
