import shutil
import threading
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from rayshot.errors import ConfigError, SinkBehind, SinkFenced, SinkRefused
from rayshot.sinks import Backend, Held, delta
from rayshot.sinks.backend import Claim
from rayshot.sinks.delta import Delta
from tests.places.s3_server import BUCKET, CREDENTIALS, S3Server
from tests.sinks.conformance import A, B, BackendConformance, made
from tests.sinks.tables import numbers, token

ONE = pa.schema([("n", pa.int64())])


class Lake:
    """An empty table of Delta Lake."""

    def __init__(self, address: str, schema: pa.Schema = ONE, options: Any = None, **more: Any) -> None:
        self.address, self.options = address, options
        DeltaTable.create(address, schema, storage_options=options, **more)

    def backend(self) -> Backend:
        return Delta(self.address, storage_options=self.options)

    def table(self) -> DeltaTable:
        return DeltaTable(self.address, storage_options=self.options)

    def append(self, *values: int, **more: Any) -> None:
        """As another program does."""
        write_deltalake(self.table(), pa.table({"n": [*values]}), mode="append", **more)

    def seen(self) -> list[int]:
        return list(self.table().to_pyarrow_table()["n"].to_pylist())


class TestLocalFolder(BackendConformance):
    rounds_quick = 40

    @pytest.fixture
    def place(self, tmp_path: Any) -> Lake:
        return Lake(str(tmp_path / "visits"))


class TestS3OnSeaweedFS(BackendConformance):
    rounds, rounds_quick = 40, 10

    @pytest.fixture
    def place(self, s3: S3Server) -> Lake:
        where = {"AWS_ENDPOINT_URL": s3.endpoint, "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true"}
        return Lake(f"s3://{BUCKET}/visits/{uuid.uuid4().hex}", options={**where, **CREDENTIALS})


@pytest.fixture
def lake(tmp_path: Any) -> Lake:
    return Lake(str(tmp_path / "visits"))


def taken(lake: Lake, life: int = 1) -> Delta:
    backend = made(lake)
    backend.take(token(life))
    assert isinstance(backend, Delta)
    return backend


def test_who_looked_before_a_later_life_took_it_writes_nothing(lake: Lake) -> None:
    zombie = taken(lake)
    there = zombie._look()
    assert there is not None
    late = taken(lake, 2)
    for rows in (numbers(1, 9), None):
        assert not zombie._write(there.moved(Held(1, A)), rows)
    late.publish(token(2), 1, A, numbers(1))
    with pytest.raises(SinkFenced):
        zombie.publish(token(1), 1, A, numbers(1, 9))
    assert lake.seen() == [0]


def test_other_writers_do_not_stop_a_sink_and_it_does_not_stop_them(lake: Lake) -> None:
    backend = taken(lake)
    there = backend._look()
    assert there is not None
    lake.append(100)
    assert backend._write(there.moved(Held(1, A)), numbers(1))  # no conflict, though it looked before
    other = threading.Thread(target=lambda: [lake.append(101 + one) for one in range(20)])
    other.start()
    for sequence in range(2, 12):
        backend.publish(token(1), sequence, A, numbers(1, sequence))
    other.join()
    assert sorted(lake.seen()) == [0, *range(2, 12), *range(100, 121)]


def test_checkpoints_compaction_vacuum_and_a_log_that_was_cleaned_up_leave_it_as_it_is(lake: Lake) -> None:
    backend = taken(lake)
    for sequence in range(1, 4):
        backend.publish(token(1), sequence, A, numbers(1, sequence))
        lake.table().create_checkpoint()
        assert lake.table().optimize.compact()["numFilesAdded"] <= 1
        lake.table().vacuum(0, dry_run=False, enforce_retention_duration=False)
        lake.table().create_checkpoint()
        log = Path(lake.address, "_delta_log")
        for old in sorted(log.glob("*.json"))[:-1]:
            old.unlink()
    assert made(lake).look() == Held(3, A)
    assert taken(lake, 2).take(token(2)) == Held(3, A)
    with pytest.raises(SinkFenced):
        backend.publish(token(1), 4, A, numbers(1))
    assert sorted(lake.seen()) == [1, 2, 3]


def test_a_table_that_came_back_from_a_backup_is_noticed_at_the_next_batch(lake: Lake) -> None:
    backend = taken(lake)
    backend.publish(token(1), 1, A, numbers(1))
    shutil.copytree(lake.address, f"{lake.address}.backup")
    backend.publish(token(1), 2, A, numbers(1, 1))
    shutil.rmtree(lake.address)
    shutil.copytree(f"{lake.address}.backup", lake.address)
    with pytest.raises(SinkBehind, match="has batches up to 1, so batch 3 would leave a gap"):
        backend.publish(token(1), 3, A, numbers(1, 2))
    shutil.rmtree(lake.address)
    with pytest.raises(ConfigError, match="visits has no Delta table: create it"):
        backend.publish(token(1), 3, A, numbers(1, 2))
    Lake(lake.address)
    with pytest.raises(SinkBehind, match="what was kept of shop/sink is not there any more"):
        backend.publish(token(1), 3, A, numbers(1, 2))


def test_a_table_has_room_for_several_sinks(lake: Lake) -> None:
    backends = {sink: made(lake, sink) for sink in ("a", "b", "a/0")}
    for sink, backend in backends.items():
        backend.take(token(1, f"run of {sink}"))
        backend.publish(token(1, f"run of {sink}"), 1, f"line of {sink}", numbers(1))
    assert {sink: made(lake, sink).look() for sink in backends} == {
        sink: Held(1, f"line of {sink}") for sink in backends
    }
    assert lake.seen() == [0, 0, 0]


@pytest.mark.parametrize(
    "lengths", [(0, 700, 1), (3, 4, 5, 6, 7, 8, 9, 10, 11, 12), (700, 699, 0)], ids=lambda found: f"{found}"
)
def test_what_is_kept_may_be_of_any_length(lake: Lake, lengths: tuple[int, ...]) -> None:
    backend = taken(lake)
    for length in lengths:
        line = "".join(chr(300 + 7 * one % 500) for one in range(length)) + f"-{length}"
        backend.reset(token(1), 2**62, line)
        assert made(lake).look() == Held(2**62, line)


def test_a_claim_of_which_a_part_was_lost_is_not_taken_for_one(lake: Lake) -> None:
    taken(lake)
    lake.append(1, commit_properties=CommitProperties(app_transactions=[Transaction("rayshot/shop/sink/2", 5)]))
    with pytest.raises(SinkBehind, match="visits keeps of shop/sink is not whole"):
        made(lake).look()


def test_the_history_says_in_words_whose_a_commit_is(lake: Lake) -> None:
    taken(lake).publish(token(1), 1, A, numbers(1))
    assert lake.table().history(1)[0]["rayshot"] == {
        "system": "shop",
        "sink": "sink",
        **Claim(*token(1), sequence=1, line=A).document,
    }


WIDE = pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("person", pa.string())])


@pytest.mark.parametrize(
    ("rows", "row", "why"),
    [
        ([{"n": 1}, {"n": "x"}], 1, "x"),
        ([{"n": 1}, {"person": "ann"}], 1, "field 'n' may not be null"),
        ([{"n": 1}, {"n": 2, "more": 3}], 1, "field 'more' is in the rows or in the schema"),
        ([{"n": 1}, {"n": 1000}], None, "Invalid data found: 1 rows failed validation"),
        (pa.table({"n": [1]}), None, "field 'person' is in the rows or in the schema"),
    ],
)
def test_a_row_that_never_fits_is_refused_and_nothing_of_its_batch_is_there(
    tmp_path: Any, rows: Any, row: Any, why: str
) -> None:
    lake = Lake(str(tmp_path / "visits"), WIDE, partition_by=["person"])
    lake.table().alter.add_constraint({"small": "n < 1000"})
    backend = taken(lake)
    backend.publish(token(1), 1, A, pa.table({"person": ["ann"], "n": pa.array([1], pa.int8())}))
    with pytest.raises(SinkRefused, match=why) as caught:
        backend.publish(token(1), 2, A, rows)
    assert caught.value.evidence == {"sink": "shop/sink", "sequence": 2, "row": row}
    assert made(lake).look() == Held(1, A)
    backend.publish(token(1), 2, A, [{"n": 2, "person": None}])
    assert sorted(lake.seen()) == [1, 2]


def test_an_answer_that_is_lost_is_told_from_a_step_that_failed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    places = (delta, "write_deltalake"), (DeltaTable, "create_write_transaction")
    steps = [
        lambda backend: backend.take(token(1)),
        lambda backend: backend.publish(token(1), 1, A, numbers(2)),
        lambda backend: backend.publish(token(1), 2, A, numbers(2, 2)),
        lambda backend: backend.reset(token(1), 1, B),
        lambda backend: backend.publish(token(1), 2, A, numbers(2, 2)),
    ]

    for before in (True, False):
        backend = made(lake, f"sink {before}")

        def losing(commit: Any, before: bool = before) -> Any:
            def lost(*args: Any, **more: Any) -> None:
                if not before:
                    commit(*args, **more)
                raise ConnectionError("the answer is lost")

            return lost

        for step in steps:
            with monkeypatch.context() as patch:
                for where, name in places:
                    patch.setattr(where, name, losing(getattr(where, name)))
                with pytest.raises(ConnectionError):
                    step(backend)
            step(backend)
        assert backend.take(token(1)) == Held(2, A)
    assert sorted(lake.seen()) == sorted(2 * [0, 1, 2, 2, 3, 3])
