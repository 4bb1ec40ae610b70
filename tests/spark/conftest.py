"""One Spark session for all tests here, and the storages that they read."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyspark_rayshot import local_session
from rayshot.places.local import LocalStore
from rayshot.snapshots.catalog import SystemView
from rayshot.snapshots.repository import Repository
from tests.places.s3_server import CREDENTIALS
from tests.snapshots.snapshot_builder import Bank, Flow, make_snapshot, open_bank
from tests.spark.lake_oracle import grow


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", "")  # the session adds to it; put back afterwards
        patch.setenv("PYSPARK_PYTHON", "")
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)  # Spark's JVM and its workers keep the environment of this moment
        session = local_session("rayshot tests")
    gateway = session.sparkContext._gateway
    yield session
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=30)


@pytest.fixture
def table(spark: Any) -> Callable[..., Any]:
    """Opens a view: `table(storage, "state", actor="alice", schema="value string")`."""

    def read(storage: Path | str, view: str, schema: str | None = None, **options: str) -> Any:
        reader = spark.read.format("rayshot").option("view", view).options(**options)
        return (reader if schema is None else reader.schema(schema)).load(str(storage))

    return read


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """Two snapshots of one bank; the second is a savepoint, has an actor without state, and alice holds odd values."""
    repository = open_bank(LocalStore(tmp_path / "shots"))
    make_snapshot(repository, Bank(), 1)
    make_snapshot(repository, SECOND, 2)
    return tmp_path / "shots"


@pytest.fixture
def bank(tmp_path: Path) -> Repository:
    """Four snapshots of two accounts, of which alice is as in the one before in each second one."""
    repository = open_bank(LocalStore(tmp_path / "shots"))
    for counter in (1, 2, 3, 4):
        grow(repository, counter)
    return repository


@pytest.fixture
def system(bank: Repository) -> SystemView:
    return SystemView(bank.store, "bank")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Where a lake is to be made."""
    return tmp_path / "lake"


FLOWS = {
    ("alice", "bob"): Flow(sent=5, arrived=4, received=2),
    ("bob", "carol"): Flow(sent=1),
    ("driver:main", "alice"): Flow(sent=3, received=3),
}
ODD_STATES = {
    "alice": {
        "wide": 2**70,
        "nan": float("nan"),
        "array": np.arange(50_000, dtype=np.float64),
        "count": np.int64(-4),
        "name": "Zoë",
        "open": True,
        "nothing": None,
        "nested": {"history": [1, (2, 3)]},
    },
    "bob": [1, 2],
}
SECOND = Bank(
    states=ODD_STATES,
    unborn=["carol"],
    label="payday",
    flows=FLOWS,
    calls={1: ("on_balance", None, ())},
    callees={1: "bob"},
    timers=[(2.5, "deposit", (1,))],
    dead_letters=[("bob", "alice", 3, "deposit", "Traceback\nValueError: no", 1)],
    files={"alice": {"shard.pt": b"x"}, "bob": {}},
    payload={"step": 3},
)
