import uuid
from contextlib import nullcontext
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest

from rayshot.errors import SinkBehind, SinkRefused, SinkTaken, StoreFull, StoreUnavailable
from rayshot.places.kinds import open_store
from rayshot.sinks import Backend, Held
from rayshot.sinks.parquet import Parquet
from tests.places.s3_server import S3Server
from tests.sinks.conformance import A, B, BackendConformance, made
from tests.sinks.tables import numbers, token

SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("person", pa.string())])


ONE = pa.schema([("n", pa.int64())])


class Folder:
    """An empty folder for files of Parquet."""

    def __init__(self, address: str, schema: pa.Schema = ONE) -> None:
        self.address, self.schema = address, schema

    def backend(self) -> Backend:
        return Parquet(self.address, self.schema)

    def seen(self) -> list[int]:
        store = open_store(self.address)
        files = [pa.BufferReader(store.read(one.key)) for one in store.list()]
        return [n for file in files for n in pa.parquet.read_table(file)["n"].to_pylist()]


class TestLocalFolder(BackendConformance):
    @pytest.fixture
    def place(self, tmp_path: Any) -> Folder:
        return Folder(str(tmp_path / "visits"))


class TestMemory(BackendConformance):
    @pytest.fixture
    def place(self) -> Folder:
        return Folder(f"memory://{uuid.uuid4().hex}")


class TestS3OnSeaweedFS(BackendConformance):
    rounds = 50

    @pytest.fixture
    def place(self, s3: S3Server) -> Folder:
        return Folder(s3.address(f"visits/{uuid.uuid4().hex}"))


@pytest.fixture
def folder(tmp_path: Any) -> Folder:
    return Folder(str(tmp_path / "visits"), SCHEMA)


def taken(folder: Folder) -> Parquet:
    backend = made(folder)
    backend.take(token(1))
    assert isinstance(backend, Parquet)
    return backend


def test_whoever_reads_all_files_has_each_row_once(folder: Folder) -> None:
    for life in (1, 2, 3):
        backend = made(folder)
        backend.take(token(life))
        backend.publish(token(life), life, A, [{"n": life, "person": "ann"}])
    backend.publish(token(life), 4, A, [{"n": 4}])
    rows = [{"n": 1, "person": "ann"}, {"n": 2, "person": "ann"}, {"n": 3, "person": "ann"}, {"n": 4, "person": None}]
    assert pa.dataset.dataset(folder.address, format="parquet").to_table().to_pylist() == rows
    assert pl.read_parquet(f"{folder.address}/*.parquet").to_dicts() == rows
    assert duckdb.sql(f"SELECT n FROM '{folder.address}/*.parquet' ORDER BY n").fetchall() == [(1,), (2,), (3,), (4,)]


def test_a_life_that_takes_the_folder_twice_writes_one_file(folder: Folder) -> None:
    for _ in range(2):
        taken(folder)
    assert [one.key for one in open_store(folder.address).list()] == ["00000000.parquet"]


def test_old_files_may_go_and_the_newest_may_not(folder: Folder) -> None:
    backend = taken(folder)
    for sequence in (1, 2):
        backend.publish(token(1), sequence, A, numbers(1, sequence))
    store = open_store(folder.address)
    for number in (0, 1):
        store.delete(f"{number:08}.parquet")
    assert made(folder).take(token(1)) == Held(2, A)
    backend.publish(token(1), 3, A, numbers(1, 3))
    assert folder.seen() == [2, 3]


def test_a_folder_that_was_emptied_or_came_back_from_a_backup_is_noticed_at_the_next_batch(folder: Folder) -> None:
    backend = taken(folder)
    for sequence in (1, 2):
        backend.publish(token(1), sequence, A, numbers(1, sequence))
    store = open_store(folder.address)
    store.delete("00000002.parquet")
    with pytest.raises(SinkBehind, match="has batches up to 1, so batch 3 would leave a gap"):
        backend.publish(token(1), 3, A, numbers(1, 3))
    for number in (0, 1):
        store.delete(f"{number:08}.parquet")
    with pytest.raises(SinkBehind, match="what was kept of shop/sink is not there any more"):
        backend.publish(token(1), 3, A, numbers(1, 3))


def test_a_folder_has_one_sink(folder: Folder) -> None:
    taken(folder)
    with pytest.raises(SinkTaken, match=r"00000000.parquet is of shop/sink: give shop/other a folder of its own"):
        made(folder, "other").take(token(1), takeover=True)


def test_a_numbered_file_of_another_program_is_not_taken_for_ours(folder: Folder) -> None:
    pl.DataFrame({"n": [1]}).write_parquet(f"{folder.address}/00000007.parquet", mkdir=True)
    with pytest.raises(SinkTaken, match="is of another program: give shop/sink a folder of its own"):
        taken(folder)


@pytest.mark.parametrize(
    ("rows", "row", "why"),
    [
        ([{"n": 1}, {"n": "x"}], 1, "x"),
        ([{"n": 1}, {"n": 2**63}], 1, "too large|overflow|int"),
        ([{"n": 1}, {"n": 1.5}], 1, "1.5 is not a whole number"),
        ([{"n": 1}, {"person": "ann"}], 1, "field 'n' may not be null"),
        ([{"n": 1}, {"n": 2, "more": 3}], 1, "field 'more' is in the rows or in the schema"),
        (pa.table({"n": [1, None], "person": ["a", "b"]}), 1, "field 'n' may not be null"),
        (pa.table({"n": ["1", "x"], "person": ["a", "b"]}), 0, "1"),
        (pa.table({"n": [{"a": 1}], "person": ["a"]}), 0, "(?i)cast|struct|int"),
        (pa.table({"n": [1]}), None, "field 'person' is in the rows or in the schema"),
    ],
)
def test_a_row_that_never_fits_is_named_and_nothing_is_written(folder: Folder, rows: Any, row: Any, why: str) -> None:
    backend = taken(folder)
    with pytest.raises(SinkRefused, match=why) as caught:
        backend.publish(token(1), 1, A, rows)
    assert caught.value.evidence == {"sink": "shop/sink", "sequence": 1, "row": row}
    assert made(folder).take(token(1)) == Held()


def test_the_order_of_fields_and_smaller_types_do_not_matter(folder: Folder) -> None:
    backend = taken(folder)
    backend.publish(token(1), 1, A, pa.table({"person": ["ann"], "n": pa.array([1], pa.int8())}))
    assert folder.seen() == [1]


@pytest.mark.parametrize("written", [True, False])
def test_an_answer_that_is_lost_is_told_from_a_file_that_was_not_written(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, *, written: bool
) -> None:
    """The storage fails as often as a creation tries; what it had written is found the next time."""
    backend = made(folder)
    store = type(open_store(folder.address))
    create = store.create

    def lost(self: Any, key: str, data: Any) -> None:
        if written:
            create(self, key, data)
        raise StoreUnavailable("the answer is lost")

    for step in (
        lambda: backend.take(token(1)),
        lambda: backend.publish(token(1), 1, A, numbers(2)),
        lambda: backend.publish(token(1), 2, A, numbers(2, 2)),
        lambda: backend.reset(token(1), 1, B),
        lambda: backend.publish(token(1), 2, A, numbers(2, 2)),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(store, "create", lost)
            with nullcontext() if written else pytest.raises(StoreUnavailable):
                step()  # where it was written, the taken number has the same bytes: it is ours
        step()
    assert sorted(folder.seen()) == [0, 1, 2, 2, 3, 3]
    assert made(folder).take(token(1)) == Held(2, A)


def test_a_storage_that_was_full_gets_each_batch_once(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = taken(folder)
    store = type(open_store(folder.address))
    with monkeypatch.context() as patch:
        patch.setattr(store, "create", lambda *_: (_ for _ in ()).throw(StoreFull("no room")))
        for _ in range(2):
            with pytest.raises(StoreFull):
                backend.publish(token(1), 1, A, numbers(2))
    backend.publish(token(1), 1, A, numbers(2))
    assert folder.seen() == [0, 1]
