"""How long do people stay? A file that is read by its offset, into a table of a database: `python examples/visits.py`.

The reader's state is the byte up to which it has read, that of the next actor is who is inside and for how long people
stayed. Each visit that ends is a row. The rows become visible behind a snapshot that holds all three: so each row is in
the table once, whatever dies. Run it twice: the second run finds all rows there.
"""

import logging
import os
import random
import signal
import sqlite3
import sys
import time
from contextlib import closing
from itertools import islice
from pathlib import Path

import ray

import rayshot
from rayshot.sinks import Backend, Sink
from rayshot.sinks.sql import Sql

LINES, PEOPLE, BURST = 10_000, 40, 50
TABLE = "CREATE TABLE IF NOT EXISTS visits (visit BIGINT, person VARCHAR(20), seconds BIGINT, average_s FLOAT)"
Row = tuple[object, ...]
"""Visit, person, seconds, and the average of the person until then."""


def write_log(path: Path, lines: int = LINES) -> None:
    """Write who comes in and goes out: a second, a person, and which of both."""
    dice, inside, second = random.Random(1), set(), 0
    with path.open("w") as file:
        for _ in range(lines):
            second += dice.randrange(1, 9)
            person = f"person-{dice.randrange(PEOPLE)}"
            file.write(f"{second},{person},{'out' if person in inside else 'in'}\n")
            inside ^= {person}


@rayshot.actor
class Reader:
    """Sends a file on, some lines at a time."""

    def __init__(self, path: str, to: rayshot.ActorHandle, pause_s: float) -> None:
        self.path, self.to, self.pause_s, self.offset = path, to, pause_s, 0

    def read(self) -> None:
        """Send what comes behind the offset, and come back soon."""
        with Path(self.path).open("rb") as file:
            file.seek(self.offset)
            lines = list(islice(file, BURST))
        if lines:
            self.offset += sum(map(len, lines))
            self.to.take.tell(b"".join(lines).decode())
            rayshot.current().after(self.pause_s, self.read)


@rayshot.actor
class Dwell:
    """Makes a row of each visit, with the average of the person so far."""

    def __init__(self, table: rayshot.ActorHandle | None) -> None:
        self.table, self.visits = table, 0
        self.since: dict[str, int] = {}
        self.stayed: dict[str, list[int]] = {}

    def take(self, lines: str) -> None:
        """Take some lines in, and send the visits that end with them."""
        if rows := [row for line in lines.splitlines() if (row := self.ended(*line.split(",")))]:
            assert self.table is not None, "only a plain object has none"
            self.table.write.tell(rows)

    def ended(self, second: str, person: str, what: str) -> dict[str, object] | None:
        """The visit that ends here, as a row."""
        if what == "in":
            self.since[person] = int(second)
            return None
        seconds, (visits, before_s) = int(second) - self.since.pop(person), self.stayed.get(person, [0, 0])
        self.stayed[person] = [visits + 1, before_s + seconds]
        self.visits += 1
        average_s = (before_s + seconds) / (visits + 1)
        return {"visit": self.visits, "person": person, "seconds": seconds, "average_s": average_s}


@rayshot.actor
class Table(Sink):
    """Its rows become visible when a snapshot holds them; `write` is the sink's."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url

    def connect(self) -> Backend:
        """Where the rows go."""
        return Sql(self.url, "visits")


def stream(folder: Path, pause_s: float = 0.01) -> rayshot.System:
    """Begin the stream, or go on from its last snapshot."""

    def begin(_system: rayshot.System) -> None:
        table = Table.options(name="table").remote(f"sqlite:///{folder / 'visits.db'}")
        dwell = Dwell.options(name="dwell").remote(table)
        Reader.options(name="reader").remote(str(folder / "log.csv"), dwell, pause_s).read.tell()

    with closing(sqlite3.connect(folder / "visits.db")) as db:
        db.execute(TABLE)
    often = rayshot.SnapshotConfig(interval_s=0.5, num_to_keep=3)
    return rayshot.resume("visits", storage=str(folder / "shots"), begin=begin, snapshots=often)


def visible(folder: Path) -> list[Row]:
    """The rows that anybody sees."""
    with closing(sqlite3.connect(folder / "visits.db")) as db:
        return db.execute("SELECT visit, person, seconds, average_s FROM visits ORDER BY visit").fetchall()


def expected(folder: Path) -> list[Row]:
    """The rows of a run to which nothing happens: a decorated class still makes plain objects."""
    undisturbed = Dwell(None)
    ended = (undisturbed.ended(*line.split(",")) for line in (folder / "log.csv").read_text().splitlines())
    return [tuple(row.values()) for row in ended if row]


def main(where: str = "./visits") -> None:
    """Stream, kill the sink, and compare the table with the file."""
    ray.init("local", num_cpus=4, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    folder = Path(where).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    write_log(folder / "log.csv")
    rows = expected(folder)
    system = stream(folder)
    while len(visible(folder)) < len(rows) // 3:
        time.sleep(0.02)
    os.kill(system.status().actors["table"].pid or 0, signal.SIGKILL)
    while len(seen := visible(folder)) < len(rows):
        time.sleep(0.02)
    system.shutdown()
    ray.shutdown()
    print(f"{len(seen):,} visits, {seen[-1][1]} stays {seen[-1][3]:.2f} s on average")
    print(f"the table is what the file says: {seen == rows}")
    sys.exit(0 if seen == rows else 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
