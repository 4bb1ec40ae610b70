"""Rows into a table of a database, through SQLAlchemy 2.

Beside the user's table is `rayshot_sinks`, with a row for each sink. One transaction moves the number there and writes
the rows. The conditional update comes first: it locks the row and decides. So whoever waited for the lock behind a
later life then finds that it may not write.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from rayshot.errors import ConfigError, NotReady, SinkBehind
from rayshot.model.outside import FencingToken
from rayshot.sinks.backend import UNFIT, Backend, Claim, Held, refusal

try:
    import sqlalchemy as sa
except ImportError as error:
    raise ConfigError("a sink into a database needs SQLAlchemy: pip install 'rayshot[sql]'") from error

if TYPE_CHECKING:
    from rayshot.sinks.backend import Rows

CLAIMS = sa.Table(
    "rayshot_sinks",
    sa.MetaData(),
    sa.Column("system", sa.String(255), primary_key=True),
    sa.Column("sink", sa.String(255), primary_key=True),
    sa.Column("run", sa.String(255), nullable=False),
    sa.Column("life", sa.BigInteger, nullable=False),
    sa.Column("owner", sa.String(255), nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("line", sa.String(600), nullable=False),
)


class Sql(Backend):
    """A table of a database. Keys of rows, or fields of Arrow tables, are names of its columns.

    PostgreSQL gets the rows by COPY if its driver is psycopg, each other database by INSERT. The database must have
    transactions, as SQLite and PostgreSQL do.

    Args:
        url: what `sqlalchemy.create_engine` takes. Read a password from the environment.
        table: the name of the table, which must exist: a sink does not create it.
    """

    def __init__(self, url: str, table: str) -> None:
        self._engine = _engine(url)
        self._name = table
        self._table: sa.Table | None = None

    def look(self) -> Held:
        """See Backend.look. Creates `rayshot_sinks` if it is not there. Raises ConfigError without the user's table."""
        self._look()
        _create_claims(self._engine)
        with self._engine.begin() as db:
            return claim.held if (claim := self._claim(db)) else Held()

    def take(self, token: FencingToken, *, takeover: bool = False) -> Held:
        """See Backend.take; also as `look`."""
        self._look()
        _create_claims(self._engine)
        try:
            return self._take(token, takeover=takeover)
        except sa.exc.IntegrityError:  # another life made the row at the same moment: now it is there
            return self._take(token, takeover=takeover)

    def _take(self, token: FencingToken, *, takeover: bool) -> Held:
        earlier = (CLAIMS.c.run == token.run) & (CLAIMS.c.life < token.life)
        with self._engine.begin() as db:
            taken = self._update(db, sa.true() if takeover else earlier | _is_of(token), **token._asdict())
            there = self._claim(db)
            if there is None:
                new = Claim(*token).document
                db.execute(CLAIMS.insert().values(system=self.system, sink=self.sink, **new))
                return Held()
            if not taken:
                there.taken(self.name, token, takeover=takeover)
                raise _changed(self.name)
            return there.held

    def publish(self, token: FencingToken, sequence: int, line: str, rows: "Rows") -> None:
        """See Backend.publish."""
        table = self._table_for(rows, sequence)
        is_next = _is_of(token) & (CLAIMS.c.sequence == sequence - 1)
        try:
            with self._engine.begin() as db:
                if self._update(db, is_next, sequence=sequence, line=line):
                    _insert(db, table, rows)
                elif self._there(db).awaits(self.name, token, sequence):
                    raise _changed(self.name)
        except (sa.exc.StatementError, self._driver.Error, *UNFIT) as error:
            if not self._never_fits(error):
                raise
            raise refusal(self.name, sequence, *self._first_unfit(table, rows, error)) from error

    def reset(self, token: FencingToken, sequence: int, line: str) -> None:
        """See Backend.reset."""
        with self._engine.begin() as db:
            if not self._update(db, _is_of(token) & (CLAIMS.c.line != line), sequence=sequence, line=line):
                self._there(db).admit(self.name, token)

    @property
    def _driver(self) -> Any:
        return self._engine.dialect.dbapi

    def _update(self, db: sa.Connection, condition: "sa.ColumnElement[bool]", **values: Any) -> bool:
        """Change this sink's row where it meets the condition; returns whether it did."""
        return bool(db.execute(CLAIMS.update().where(self._is_this & condition).values(**values)).rowcount)

    @property
    def _is_this(self) -> "sa.ColumnElement[bool]":
        return (CLAIMS.c.system == self.system) & (CLAIMS.c.sink == self.sink)

    def _claim(self, db: sa.Connection) -> Claim | None:
        row = db.execute(CLAIMS.select().where(self._is_this)).first()
        return row and Claim(row.run, row.life, row.owner, row.sequence, row.line)

    def _there(self, db: sa.Connection) -> Claim:
        if (claim := self._claim(db)) is None:
            raise SinkBehind(f"{self.name} has no row in {CLAIMS.name} any more", sink=self.name)
        return claim

    def _look(self) -> sa.Table:
        """The user's table, as it is now."""
        try:
            self._table = sa.Table(self._name, sa.MetaData(), autoload_with=self._engine)
        except sa.exc.NoSuchTableError as error:
            place = self._engine.url.render_as_string(hide_password=True)
            raise ConfigError(f"{place} has no table {self._name!r}: create it", table=self._name) from error
        return self._table

    def _table_for(self, rows: "Rows", sequence: int) -> sa.Table:
        """The user's table with a column for each name in the rows. Raises SinkRefused where it has none."""
        table = self._table
        if table is None or any(name not in table.c for name in _names(rows)):
            table = self._look()
        for name in _names(rows):
            if name not in table.c:
                raise refusal(self.name, sequence, 0, f"table {self._name!r} has no column {name!r}")
        if isinstance(rows, list) and not all(map(rows[0].keys().__eq__, map(dict.keys, rows))):
            row = next(index for index, one in enumerate(rows) if one.keys() != rows[0].keys())
            raise refusal(self.name, sequence, row, f"its keys are {[*rows[row]]}, those of row 0 {[*rows[0]]}")
        return table

    def _never_fits(self, error: Exception) -> bool:
        """Whether the rows are at fault, and not the network or the database."""
        cause = getattr(error, "orig", error)
        if isinstance(cause, self._driver.ProgrammingError):  # the database's own words have a code: a right is missing
            return getattr(cause, "sqlstate", None) is None
        return isinstance(cause, (self._driver.IntegrityError, self._driver.DataError, *UNFIT))

    def _first_unfit(self, table: sa.Table, rows: "Rows", error: Exception) -> tuple[int | None, str]:
        """The row at fault, and why; None if only all of them together are. Writes them one by one, and undoes it."""
        with self._engine.connect() as db:
            for index, row in enumerate(_dicts(rows)):
                try:
                    _insert(db, table, [row])
                except (sa.exc.StatementError, self._driver.Error, *UNFIT) as failure:
                    if not self._never_fits(failure):
                        raise
                    return index, str(getattr(failure, "orig", failure))
        return None, str(getattr(error, "orig", error))


@cache
def _engine(url: str) -> sa.Engine:
    """One pool of connections for each address and process: it outlives a life."""
    return sa.create_engine(url, pool_pre_ping=True)


def _is_of(token: FencingToken) -> "sa.ColumnElement[bool]":
    """The condition that this very life has taken the row."""
    return (CLAIMS.c.run == token.run) & (CLAIMS.c.life == token.life) & (CLAIMS.c.owner == token.owner)


def _create_claims(engine: sa.Engine) -> None:
    try:
        CLAIMS.create(engine, checkfirst=True)
    except sa.exc.DBAPIError:  # another sink may have created it at the same moment
        if not sa.inspect(engine).has_table(CLAIMS.name):
            raise


def _insert(db: sa.Connection, table: sa.Table, rows: "Rows") -> None:
    if db.dialect.name == "postgresql" and db.dialect.driver == "psycopg":
        _copy(db, table, rows)
    elif db.dialect.paramstyle == "qmark":  # SQLite: four times as fast as by SQLAlchemy's way from row to row
        names = _names(rows)
        statement = table.insert().compile(dialect=db.dialect, column_keys=names)
        db.exec_driver_sql(str(statement), list(_tuples(db, table, statement.positiontup, rows)))
    else:
        db.execute(table.insert(), _dicts(rows))


def _copy(db: sa.Connection, table: sa.Table, rows: "Rows") -> None:
    from psycopg.sql import SQL, Identifier  # noqa: PLC0415 - only for users of this driver

    names = _names(rows)
    into = Identifier(table.name), SQL(", ").join(map(Identifier, names))
    with db.connection.cursor() as cursor, cursor.copy(SQL("COPY {} ({}) FROM STDIN").format(*into)) as copy:
        for row in _tuples(db, table, names, rows):
            copy.write_row(row)


def _tuples(db: sa.Connection, table: sa.Table, names: list[str], rows: "Rows") -> Iterator[tuple[Any, ...]]:
    """The values of each row as the driver takes them, in the order of the names."""
    types = (table.c[name].type.dialect_impl(db.dialect) for name in names)
    converters = [one.bind_processor(db.dialect) for one in types]
    if isinstance(rows, list) and len(names) > 1 and not any(converters):
        return map(itemgetter(*names), rows)  # a third faster than by column
    columns: list[Iterable[Any]] = []
    for name, convert in zip(names, converters, strict=True):
        values = [row[name] for row in rows] if isinstance(rows, list) else rows[name].to_pylist()
        columns.append(values if convert is None else map(convert, values))
    return zip(*columns, strict=True)


def _names(rows: "Rows") -> list[str]:
    """The names of the columns, as the first row or the table has them."""
    return [*rows[0]] if isinstance(rows, list) else list(rows.column_names)


def _dicts(rows: "Rows") -> list[dict[str, Any]]:
    return rows if isinstance(rows, list) else list(rows.to_pylist())


def _changed(name: str) -> NotReady:
    return NotReady(f"what the database keeps of {name} changed at this moment: try again")
