import json
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import ray

import rayshot
from tests.spark.bookkeeping import Account
from tests.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.ray]


@pytest.fixture
def system(tmp_path: Path) -> Iterator[rayshot.System]:
    """A system of its own, on the Ray that runs or one for this test."""
    own = not ray.is_initialized()
    if own:
        ray.init("local", num_cpus=8, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    with rayshot.init("tabled", storage=tmp_path / "shots", snapshots=rayshot.SnapshotConfig()) as made:
        yield made
    if own:
        ray.shutdown()


def test_a_running_system_is_read_as_tables_with_every_message_in_flight(
    system: rayshot.System, table: Callable[..., Any], tmp_path: Path
) -> None:
    alice = Account.options(name="alice").remote(100)
    bob = Account.options(name="bob").remote(100)
    assert ray.get([alice.read.remote(), bob.read.remote()]) == [100, 100]
    gate = tmp_path / "go on"
    bob.pause_until.tell(str(gate))
    for amount in range(1, 6):
        alice.transfer.tell(bob, amount)
    assert ray.get(alice.read.remote()) == 85
    with ThreadPoolExecutor(1) as aside:
        taking = aside.submit(system.snapshot, label="mid-air")
        eventually(lambda: any("bob" in under_way.handlers for under_way in system.status().snapshots))
        gate.touch()
        snapshot = taking.result()

    storage = tmp_path / "shots"
    (row,) = table(storage, "snapshots").collect()
    assert (row.system, row.snapshot, row.label) == ("tabled", str(snapshot.id), "mid-air")
    assert row.taken_at.timestamp() == pytest.approx(snapshot.taken_at.timestamp(), abs=1e-5)
    balances = {row.actor: row.value_long for row in table(storage, "state").filter("attribute = 'balance'").collect()}
    messages = table(storage, "messages", sender="alice").orderBy("number").collect()
    paid = [json.loads(message.kwargs) for message in messages]
    assert [message.method for message in messages] == ["deposit"] * len(messages)
    assert all(memo == {"memo": f"payment of {json.loads(m.args)[0]}"} for memo, m in zip(paid, messages, strict=True))
    assert len(messages) == snapshot.in_flight == 5
    assert sum(balances.values()) + sum(json.loads(message.args)[0] for message in messages) == 200
    assert table(storage, "actors").filter("class_name LIKE '%.Account'").count() == 2
    channel = table(storage, "channels", sender="alice", receiver="bob").first()
    assert (channel.sent, channel.in_flight) == (5, len(messages))
