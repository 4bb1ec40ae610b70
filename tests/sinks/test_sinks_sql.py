import datetime as dt
import threading
from collections import Counter
from functools import partial, partialmethod
from typing import Any

import psycopg
import pyarrow as pa
import pytest
import sqlalchemy as sa

from rayshot.errors import ConfigError, SinkFenced, SinkRefused, SinkTaken
from rayshot.sinks import Backend, Held
from rayshot.sinks.sql import Sql
from tests.sinks.conformance import A, B, BackendConformance, at_once, made
from tests.sinks.postgres_server import PostgresServer
from tests.sinks.tables import numbers, token
from tests.waiting import eventually

VISITS = "CREATE TABLE visits (n BIGINT)"


class Database:
    """An empty table `visits` in a database."""

    def __init__(self, url: str, table: str = VISITS) -> None:
        self.url = url
        self.do("DROP TABLE IF EXISTS visits", "DROP TABLE IF EXISTS rayshot_sinks", table)

    def backend(self) -> Backend:
        return Sql(self.url, "visits")

    def do(self, *statements: str) -> None:
        engine = sa.create_engine(self.url)
        with engine.begin() as db:
            for statement in statements:
                db.execute(sa.text(statement))
        engine.dispose()

    def ask(self, statement: str) -> list[Any]:
        engine = sa.create_engine(self.url)
        with engine.connect() as db:
            answer = [tuple(row) for row in db.execute(sa.text(statement))]
        engine.dispose()
        return answer

    def seen(self) -> list[int]:
        return [n for (n,) in self.ask("SELECT n FROM visits")]


class TestSqlite(BackendConformance):
    @pytest.fixture
    def place(self, tmp_path: Any) -> Database:
        return Database(f"sqlite:///{tmp_path}/visits.db")


class TestPostgres(BackendConformance):
    @pytest.fixture
    def place(self, postgres: PostgresServer) -> Database:
        return Database(postgres.url)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Any) -> str:
    """An address of each kind of database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/visits.db"
    return str(request.getfixturevalue("postgres").url)


def test_sinks_that_begin_at_once_create_what_they_need_and_each_counts_for_itself(url: str) -> None:
    place = Database(url)
    sinks = {(sink, run): made(place, sink) for sink in ("a", "b", "c", "d") for run in ("one", "two")}
    outcomes = at_once({f"{key}": partial(backend.take, token(1, key[1])) for key, backend in sinks.items()})
    assert Counter(map(type, outcomes.values())) == {Held: 4, SinkTaken: 4}, outcomes
    for (sink, run), backend in sinks.items():
        if isinstance(outcomes[f"{(sink, run)}"], Held):
            backend.publish(token(1, run), 1, A, numbers(1))
    assert place.seen() == [0, 0, 0, 0]
    columns = "sink, system, life, sequence, line"
    there = place.ask(f"SELECT {columns} FROM rayshot_sinks ORDER BY sink")
    assert there == [(sink, "shop", 1, 1, A) for sink in ("a", "b", "c", "d")]


def test_without_the_table_it_is_said_which_one_lacks_and_no_password(url: str, postgres: PostgresServer) -> None:
    place = Database(url)
    place.do("DROP TABLE visits")
    with pytest.raises(ConfigError, match=r"has no table 'visits': create it"):
        made(place).take(token(1))
    secret = f"postgresql+psycopg://postgres:hush@127.0.0.1:{postgres.port}/postgres"
    with pytest.raises(ConfigError, match=r"postgres:\*\*\*@127") as caught:
        Sql(secret, "nothing").take(token(1))
    assert "hush" not in str(caught.value)


def test_a_column_that_comes_while_the_system_runs_is_seen(url: str) -> None:
    place = Database(url)
    backend = made(place)
    backend.take(token(1))
    backend.publish(token(1), 1, A, numbers(1))
    place.do("ALTER TABLE visits ADD COLUMN person VARCHAR(20)")
    backend.publish(token(1), 2, A, [{"n": 1, "person": "ann"}])
    assert sorted(place.ask("SELECT n, person FROM visits ORDER BY n")) == [(0, None), (1, "ann")]


WIDE = (
    "CREATE TABLE visits (n INTEGER PRIMARY KEY CHECK (n < 100), person VARCHAR(5) NOT NULL, at TIMESTAMP, about JSON)"
)


@pytest.mark.parametrize(
    ("bad", "row", "why"),
    [
        ({"n": 3, "person": "ann"}, 5, "(?i)unique"),
        ({"n": 100, "person": "ann"}, 5, "(?i)check constraint"),
        ({"n": 50, "person": None}, 5, "(?i)not.null"),
        ({"n": 10**30, "person": "ann"}, 5, "too large|out of range"),
        ({"n": 50, "person": object()}, 5, "object"),
        ({"n": 50}, 5, r"its keys are \['n'\], those of row 0 \['n', 'person'\]"),
        ({"n": 50, "person": "ann", "more": 1}, 5, "its keys are"),
    ],
)
def test_a_row_that_never_fits_is_named_and_nothing_of_its_batch_is_there(
    url: str, bad: Any, row: int, why: str
) -> None:
    place = Database(url, WIDE)
    backend = made(place)
    backend.take(token(1))
    rows = [{"n": n, "person": "bob"} for n in range(8)]
    rows[5] = bad
    with pytest.raises(SinkRefused, match=why) as caught:
        backend.publish(token(1), 1, A, rows)
    assert caught.value.evidence == {"sink": "shop/sink", "sequence": 1, "row": row}
    assert f"shop/sink: row {row} of batch 1 will never be taken: " in str(caught.value)
    assert place.seen() == []
    assert backend.take(token(1)) == Held()


def test_a_name_that_is_no_column_is_refused(url: str) -> None:
    place = Database(url)
    backend = made(place)
    backend.take(token(1))
    for rows in ([{"n": 1, "m": 2}], pa.table({"n": [1], "m": [2]})):
        with pytest.raises(SinkRefused, match="row 0 of batch 1 will never be taken: table 'visits' has no column 'm'"):
            backend.publish(token(1), 1, A, rows)


def test_rows_that_do_not_fit_together_are_refused_at_the_end_of_the_transaction(postgres: PostgresServer) -> None:
    place = Database(postgres.url, "CREATE TABLE visits (n BIGINT UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    backend = made(place)
    backend.take(token(1))
    with pytest.raises(SinkRefused, match="the rows of batch 1 will never be taken") as caught:
        backend.publish(token(1), 1, A, [{"n": 1}, {"n": 1}])
    assert caught.value.evidence["row"] is None


def test_a_right_that_lacks_is_no_fault_of_a_row(postgres: PostgresServer) -> None:
    place = Database(postgres.url)
    place.do("DROP ROLE IF EXISTS writer", "CREATE ROLE writer LOGIN")
    made(place).take(token(1))
    place.do("GRANT ALL ON rayshot_sinks TO writer", "GRANT SELECT ON visits TO writer")
    backend = Sql(postgres.url.replace("postgres@", "writer@"), "visits")
    backend.system, backend.sink = "shop", "sink"
    backend.take(token(1))
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        backend.publish(token(1), 1, A, numbers(1))
    place.do("GRANT INSERT ON visits TO writer")
    backend.publish(token(1), 1, A, numbers(1))
    place.do("DROP OWNED BY writer", "DROP ROLE writer")
    assert place.seen() == [0]


def test_values_come_as_an_insert_would_bring_them(url: str) -> None:
    place = Database(url, WIDE)
    backend = made(place)
    backend.take(token(1))
    at = dt.datetime.fromisoformat("2026-11-30 18:52:01.000250")
    odd = 'a\t"b\\\n,'[:5]
    rows = [
        {"n": 1, "person": odd, "at": at, "about": {"a": [1, None]}},
        {"n": 2, "person": "", "at": None, "about": None},
    ]
    backend.publish(token(1), 1, A, rows)
    table = sa.Table("visits", sa.MetaData(), autoload_with=(engine := sa.create_engine(url)))
    with engine.connect() as db:
        found = [dict(row._mapping) for row in db.execute(table.select().order_by(table.c.n))]
    engine.dispose()
    assert found == rows


def test_names_that_must_be_quoted_are(url: str) -> None:
    place = Database(url, 'CREATE TABLE visits (n BIGINT, "Order" BIGINT, "per cent %" BIGINT)')
    backend = made(place)
    backend.take(token(1))
    backend.publish(token(1), 1, A, pa.table({"n": [1], "Order": [2], "per cent %": [3]}))
    assert place.ask("SELECT * FROM visits") == [(1, 2, 3)]


def test_an_answer_that_is_lost_is_told_from_a_step_that_failed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Database(url)
    backend = made(place)
    dialect = type(backend._engine.dialect)
    commit = dialect.do_commit

    def lost(self: Any, connection: Any, *, before: bool) -> None:
        if not before:
            commit(self, connection)
        monkeypatch.setattr(dialect, "do_commit", commit)
        connection.close()
        raise ConnectionError("the answer to COMMIT is lost")

    steps = [
        lambda: backend.take(token(1)),
        lambda: backend.publish(token(1), 1, A, numbers(2)),
        lambda: backend.publish(token(1), 2, A, numbers(2, 2)),
        lambda: backend.reset(token(1), 1, B),
        lambda: backend.publish(token(1), 2, A, numbers(2, 2)),
    ]
    for before in (True, False):
        Database(url)
        for step in steps:
            monkeypatch.setattr(dialect, "do_commit", partialmethod(lost, before=before))
            with pytest.raises(ConnectionError):
                step()
            step()
        assert sorted(place.seen()) == [0, 1, 2, 2, 3, 3]
        assert backend.take(token(1)) == Held(2, A)


def test_a_server_that_was_away_gets_each_batch_once(postgres: PostgresServer) -> None:
    place = Database(postgres.url)
    backend = made(place)
    backend.take(token(1))
    backend.publish(token(1), 1, A, numbers(2))
    postgres.stop()
    try:
        for _ in range(2):
            with pytest.raises(sa.exc.OperationalError):
                backend.publish(token(1), 2, A, numbers(2, 2))
    finally:
        postgres.start()
    backend.publish(token(1), 2, A, numbers(2, 2))
    assert place.seen() == [0, 1, 2, 3]


def test_one_that_waited_for_the_lock_behind_a_later_life_writes_nothing(postgres: PostgresServer) -> None:
    """The update comes first: a zombie that waits for the row's lock looks again when it has it."""
    place = Database(postgres.url)
    zombie = made(place)
    zombie.take(token(1))
    zombie.publish(token(1), 1, A, numbers(1))
    engine = sa.create_engine(place.url)
    with engine.connect() as later:
        later.execute(sa.text("UPDATE rayshot_sinks SET life = 2"))
        outcome = []
        thread = threading.Thread(
            target=lambda: outcome.append(at_once({"z": lambda: zombie.publish(token(1), 2, A, numbers(1, 9))}))
        )
        thread.start()
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        eventually(lambda: place.ask(waiting) == [(1,)])
        later.commit()
        thread.join()
    engine.dispose()
    assert isinstance(outcome[0]["z"], SinkFenced)
    assert place.seen() == [0]
