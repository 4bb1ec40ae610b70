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

from rayshot.errors import AlreadyExists, ConfigError, KeyNotFound, SinkTaken
from rayshot.places.calls import create_once
from rayshot.places.kinds import open_store
from rayshot.sinks.backend import Claim
from rayshot.sinks.optimistic import Optimistic

try:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from rayshot.sinks.fitting import fitted
except ImportError as error:
    raise ConfigError("a sink into Parquet files needs pyarrow: pip install 'rayshot[tables]'") from error

if TYPE_CHECKING:
    import os

    from rayshot.sinks.backend import Rows

_FILE = re.compile(r"(\d{8})\.parquet")
_ABOUT = b"rayshot"
"""The key in a file's metadata."""


class Parquet(Optimistic):
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

    def _look(self) -> Claim | None:
        """What the newest file says; None if there is none. Raises SinkTaken if others write into the folder."""
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

    def _write(self, claim: Claim, rows: "Rows | None") -> bool:
        """Write the next file, unless somebody else has taken its number."""
        schema = self._schema
        table = schema.empty_table() if rows is None else fitted(self.name, claim.sequence, rows, schema)
        about = {"system": self.system, "sink": self.sink, **claim.document}
        out = pa.BufferOutputStream()
        pq.write_table(table.replace_schema_metadata({**(schema.metadata or {}), _ABOUT: json.dumps(about)}), out)
        try:
            create_once(self._store, _key(self._next), memoryview(out.getvalue()))
        except AlreadyExists:
            return False
        self._next, self._last = self._next + 1, claim
        return True


def _key(number: int) -> str:
    return f"{number:08}.parquet"
