"""Rows into a folder of Parquet files, in any storage of rayshot.

The files are numbered, and each is created only if its number is free: whoever looked before a later life took the
folder finds its number taken, looks again, and is kept out. A file says in its metadata whose it is, and how far the
sink is with it. To take the folder, or to move the numbers back, is a file without rows. So whoever reads all files of
the folder has each row once. Files may be deleted, the oldest first; the newest one must stay.
"""

import json
import re
from itertools import count
from typing import TYPE_CHECKING

from rayshot.errors import AlreadyExists, ConfigError, KeyNotFound, SinkBehind, SinkTaken
from rayshot.model.outside import FencingToken
from rayshot.places.calls import create_once
from rayshot.places.kinds import open_store
from rayshot.sinks.backend import UNFIT, Backend, Claim, Held, refusal

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as error:
    raise ConfigError("a sink into Parquet files needs pyarrow: pip install 'rayshot[tables]'") from error

if TYPE_CHECKING:
    import os

    from rayshot.sinks.backend import Rows

_FILE = re.compile(r"(\d{8})\.parquet")
_ABOUT = b"rayshot"
"""The key in a file's metadata."""


class Parquet(Backend):
    """A folder of Parquet files, which has one sink.

    Args:
        address: a folder or bucket, as a storage is given: `./visits`, `s3://bucket/visits`.
        schema: a `pyarrow.Schema` for all files. A dict may lack a name of it, for null.
    """

    def __init__(self, address: "str | os.PathLike[str]", schema: pa.Schema) -> None:
        self._store = open_store(address)
        self._schema = schema
        self._next = 0
        self._last: Claim | None = None
        """What file `_next - 1` says; None if no file is known."""

    def look(self) -> Held:
        """See Backend.look. Raises SinkTaken if another sink, or another program, writes into the folder."""
        there = self._look()
        return Held() if there is None else there.held

    def take(self, token: FencingToken, *, takeover: bool = False) -> Held:
        """See Backend.take; also as `look`."""
        while True:
            there = self._look()
            mine = (there or Claim(*token)).taken(self.name, token, takeover=takeover)
            if mine == there or self._append(mine, self._schema.empty_table()):
                return mine.held

    def publish(self, token: FencingToken, sequence: int, line: str, rows: "Rows") -> None:
        """See Backend.publish."""
        table = self._table(rows, sequence)
        while (there := self._there()).awaits(self.name, token, sequence):
            if self._append(there.moved(Held(sequence, line)), table):
                return

    def reset(self, token: FencingToken, sequence: int, line: str) -> None:
        """See Backend.reset."""
        while True:
            there = self._there()
            there.admit(self.name, token)
            if there.line == line or self._append(there.moved(Held(sequence, line)), self._schema.empty_table()):
                return

    def _there(self) -> Claim:
        if (there := self._look()) is None:
            raise SinkBehind(f"{self.name}: {self._store.url} has no files any more", sink=self.name)
        return there

    def _look(self) -> Claim | None:
        """What the newest file says; None if there is none."""
        if self._last is None or not self._is_there(self._next - 1):
            numbers = [int(found[1]) for one in self._store.list(shallow=True) if (found := _FILE.fullmatch(one.key))]
            self._next, self._last = max(numbers, default=0), None
        for number in count(self._next):
            try:
                content = self._store.read(_key(number))
            except KeyNotFound:
                return self._last
            self._next, self._last = number + 1, self._claim(number, content)
        raise AssertionError("numbers have no end")

    def _is_there(self, number: int) -> bool:
        try:
            self._store.read_range(_key(number), 0, 1)
        except KeyNotFound:
            return False
        return True

    def _claim(self, number: int, content: bytes) -> Claim:
        about = json.loads((pq.read_metadata(pa.BufferReader(content)).metadata or {}).get(_ABOUT, "{}"))
        whose = f"{about.pop('system', '')}/{about.pop('sink', '')}"
        if whose != self.name:
            raise SinkTaken(
                f"{self._store.url}/{_key(number)} is of {'another program' if whose == '/' else whose}: give "
                f"{self.name} a folder of its own",
                sink=self.name,
                there=whose,
            )
        return Claim(**about)

    def _append(self, claim: Claim, table: pa.Table) -> bool:
        """Write the next file; returns whether this was done, and nobody else has taken its number."""
        about = {"system": self.system, "sink": self.sink, **claim.document}
        out = pa.BufferOutputStream()
        pq.write_table(table.replace_schema_metadata({**(self._schema.metadata or {}), _ABOUT: json.dumps(about)}), out)
        try:
            create_once(self._store, _key(self._next), memoryview(out.getvalue()))
        except AlreadyExists:
            return False
        self._next, self._last = self._next + 1, claim
        return True

    def _table(self, rows: "Rows", sequence: int) -> pa.Table:
        """The rows with the schema of the folder. Raises SinkRefused, with the first row that does not fit."""
        try:
            return self._fitted(rows)
        except UNFIT as error:
            for index, row in enumerate(rows if isinstance(rows, list) else rows.to_pylist()):
                try:
                    self._fitted([row])
                except UNFIT as failure:
                    raise refusal(self.name, sequence, index, str(failure)) from failure
            raise refusal(self.name, sequence, None, str(error)) from error

    def _fitted(self, rows: "Rows") -> pa.Table:
        names = set(self._schema.names)
        if isinstance(rows, list):
            unknown = set() if all(map(names.issuperset, rows)) else set().union(*rows) - names
            table = pa.Table.from_pylist(rows, schema=self._schema)
        elif unknown := names ^ set(rows.column_names):
            table = rows
        else:
            table = rows.select(self._schema.names).cast(self._schema)
        if unknown:
            raise ValueError(f"field {min(unknown)!r} is in the rows or in the schema, and not in both")
        for field in self._schema:
            if not field.nullable and table[field.name].null_count:
                raise ValueError(f"field {field.name!r} may not be null")
        return table


def _key(number: int) -> str:
    return f"{number:08}.parquet"
