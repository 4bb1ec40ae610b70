"""What a lake must hold, worked out from the views alone, one snapshot at a time."""

from pathlib import Path
from typing import Any

from pyspark_rayshot.lake.changes import KnownRow, digests_as_of
from pyspark_rayshot.lake.lake_tables import TABLES
from pyspark_rayshot.lake.writing import find_lake
from rayshot.snapshots.catalog import SystemView
from rayshot.snapshots.repository import Repository
from tests.snapshots.snapshot_builder import Bank, Flow, make_snapshot


def grow(repository: Repository, counter: int) -> None:
    flows = {("alice", "bob"): Flow(sent=counter + 2, received=counter), ("driver:main", "alice"): Flow(sent=counter)}
    states = {"alice": {"balance": 100 - counter // 2, "name": "A"}, "bob": {"balance": counter, "token": "x"}}
    make_snapshot(repository, Bank(states=states, flows=flows), counter)


def rows(lake: Path, table: str) -> list[dict[str, Any]]:
    names = [column.name for column in TABLES[table].columns]
    return sorted(find_lake(lake).read(table, names).to_pylist(), key=repr)


def ids(lake: Path) -> list[str]:
    found = sorted(rows(lake, "snapshots"), key=lambda row: row["log_index"])
    return [row["snapshot"] for row in found]


def view(system: SystemView, name: str) -> list[dict[str, Any]]:
    return sorted(system.table(name).to_arrow().to_pylist(), key=repr)


def assert_exact(lake: Path, system: SystemView) -> None:
    """The lake has what the views have of all snapshots that there are, each row once, and tells each state."""
    for name in ("snapshots", "channels", "messages"):
        assert rows(lake, name) == view(system, name), name
    actors = rows(lake, "actors")
    assert sorted([{k: v for k, v in row.items() if k != "gone"} for row in actors], key=repr) == view(system, "actors")
    assert_tells_states(lake, view(system, "state"))
    assert not [path for path in (lake / ".staging").iterdir() if path.is_dir()]


def assert_tells_states(lake: Path, state: list[dict[str, Any]]) -> None:
    """By the rows of `state_changes`, each actor has in each snapshot what the view `state` says."""
    changes = rows(lake, "state_changes")
    keys = [
        (row["life"], row["actor"], row["attribute"], row["clock"], row["snapshot"], row["change"]) for row in changes
    ]
    assert len(set(keys)) == len(keys)
    for moment in rows(lake, "actors"):
        snapshot, actor, life = moment["snapshot"], moment["actor"], moment["life"]
        known = [
            KnownRow(**{name: row[name] for name in KnownRow._fields})
            for row in changes
            if (row["life"], row["actor"]) == (life, actor)
        ]
        told = digests_as_of(known, moment["clock"] + moment["gone"])
        seen = {
            row["attribute"]: row["digest"] for row in state if (row["snapshot"], row["actor"]) == (snapshot, actor)
        }
        assert told == seen, (snapshot, actor)


def told(lake: Path, *names: str) -> list[tuple[Any, ...]]:
    """Those columns of `state_changes`, by actor and clock."""
    found = sorted(rows(lake, "state_changes"), key=lambda row: (row["life"], row["actor"], row["clock"], repr(row)))
    return [tuple(row[name] for name in names) for row in found]
