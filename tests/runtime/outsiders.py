"""Actors with something outside, for tests: a table that is a file of JSON lines, and a folder of shards."""

import errno
import fcntl
import json
import time
from pathlib import Path

import rayshot
from rayshot.errors import OutsideConflict


def rows(path):
    """What the table at `path` shows."""
    path = Path(path)
    return [row for line in path.read_text().splitlines() for row in json.loads(line)[1]] if path.exists() else []


@rayshot.actor
class Writer:
    """Rows are visible in a table once a snapshot that advances has them. Files beside the table make it do things.

    `refuses` lets functions of `on_commit` fail, `stops` lets them raise a conflict.
    """

    def __init__(self, path):
        self.path, self.open, self.sealed, self.sequence, self.said = path, [], {}, 0, []

    def write(self, row):
        self.open.append(row)

    def on_snapshot(self, cut):
        if self.open:
            self.sequence += 1
            self.sealed[self.sequence], self.open = self.open, []
        return {"sequence": self.sequence}

    def on_commit(self, cut):
        self.said.append(["commit", cut.snapshot])
        batches = {number: rows for number, rows in self.sealed.items() if number <= cut.payload["sequence"]}
        return lambda: self.publish(batches)

    def publish(self, batches):
        if Path(f"{self.path}.refuses").exists():
            raise ConnectionError("the table is away")
        if Path(f"{self.path}.stops").exists():
            raise OutsideConflict("another one has the table")
        with Path(self.path).open("a+") as table:
            fcntl.flock(table, fcntl.LOCK_EX)
            table.seek(0)
            there = {json.loads(line)[0] for line in table}
            table.writelines(f"{json.dumps([number, batches[number]])}\n" for number in sorted(batches.keys() - there))

    def on_restore(self, back):
        if Path(f"{self.path}.conflicts").exists():
            raise OutsideConflict("more is there")
        self.said.append(["back", back.snapshot, back.payload, back.token.life, back.again, back.takeover])

    def read(self):
        return self.said

    def leave(self):
        rayshot.current().exit()


@rayshot.actor
class Trainer:
    """Counts steps; a function beside the handlers writes the count into a file, slowly if the file `slow` is there."""

    def __init__(self, folder):
        self.folder, self.steps = folder, 0

    def step(self):
        self.steps += 1

    def on_snapshot(self, cut):
        steps = self.steps

        def write():
            Path(cut.folder, "shard").write_text(str(steps))
            while Path(self.folder, "slow").exists() and not cut.cancelled.wait(0.01):
                time.sleep(0.01)
            Path(self.folder, "cancelled").write_text(str(cut.cancelled.is_set()))
            return {"steps": steps}

        return write

    def on_restore(self, back):
        back.verify()
        assert int(Path(back.folder, "shard").read_text()) == self.steps == back.payload["steps"]

    def read(self):
        return self.steps


@rayshot.actor
class Full:
    """Its disk is full while the file `full` is there: half of what it writes is written then."""

    def __init__(self, folder):
        self.folder = folder

    def on_snapshot(self, cut):
        def write():
            with Path(cut.folder, "shard").open("w") as file:
                file.write("half")
                if Path(self.folder, "full").exists():
                    raise OSError(errno.ENOSPC, "No space left on device")
                file.write(" and half")

        return write

    def read(self):
        return 0


@rayshot.actor
class Odd:
    """Its `on_snapshot` does what it is told."""

    def __init__(self, to=None):
        self.what, self.to = "nothing", to

    def do(self, what):
        self.what = what

    def on_snapshot(self, cut):
        match self.what:
            case "raise":
                raise ValueError("it does not want to")
            case "raise later":
                return lambda: 1 / 0
            case "tell":
                self.to.write.tell("told by a hook")
                return None
            case "not json":
                return {1, 2}
            case "folder":
                return cut.folder
            case "hang":
                while True:
                    time.sleep(0.1)
        return None

    def read(self):
        return self.what


@rayshot.actor
class Bounded(Writer):
    """Has room for two rows that are durable and not visible, as it is told of what is visible by the next snapshot."""

    def has_room(self):
        return sum(map(len, self.sealed.values())) < 2

    def on_snapshot(self, cut):
        shown = rows(self.path)
        self.sealed = {number: batch for number, batch in self.sealed.items() if batch[-1] not in shown}
        return super().on_snapshot(cut)
