"""Rows into a table of Delta Lake, through `deltalake`.

What the table keeps of a sink is in application transactions (`txn`) of Delta's log, in the commit that has the rows.
Checkpoints carry them on for ever; compaction, vacuum and a clean-up of the log leave them alone. Two commits at once
with an application transaction of the same name conflict: so whoever looked before a later life took the sink fails,
looks again, and is kept out. Commits of other programs do not conflict.

An application transaction is a name and a number of 63 bits. So a claim is cut into numbers of seven bytes: `.../0` is
a digest of all, the others are its text, compressed, behind its length of two bytes. For people, the metadata of each
commit says the same.
"""

import json
import zlib
from itertools import count
from typing import TYPE_CHECKING

import blake3

from rayshot.errors import ConfigError, SinkBehind
from rayshot.sinks.backend import Claim, refusal
from rayshot.sinks.optimistic import Optimistic

try:
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
    from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

    from rayshot.sinks.fitting import fitted
except ImportError as error:
    raise ConfigError("a sink into a table of Delta Lake needs deltalake: pip install 'rayshot[lakes]'") from error

if TYPE_CHECKING:
    from rayshot.sinks.backend import Rows

_BYTES = 7
"""Of a claim's text in one number, which thus is never negative."""
_UNFIT = "Invalid data found"
"""How deltalake says that rows break a constraint of the table."""


class Delta(Optimistic):
    """A table of Delta Lake, which may have other sinks and other writers too. Rows must fit its schema.

    The table must exist, and its store must refuse to write a file twice, as a local disk and S3 with conditional
    writes do. A `RESTORE` of the table takes rows away, as a DELETE does, and does not move the sink back. The table
    must not forget application transactions: leave `delta.setTransactionRetentionDuration` unset.

    Args:
        address: what `deltalake.DeltaTable` takes: a path, `s3://bucket/visits`.
        storage_options: the same. Read keys from the environment.
    """

    def __init__(self, address: str, *, storage_options: dict[str, str] | None = None) -> None:
        self._address, self._options = address, storage_options
        self._table: DeltaTable | None = None
        """As the last `_look` found it: its version is what a commit is compared with."""
        self._last: tuple[int, Claim] | None = None
        """A claim that was there, and its digest, which says whether it still is."""

    def _look(self) -> Claim | None:
        try:
            self._table = DeltaTable(self._address, storage_options=self._options)
        except TableNotFoundError as error:
            raise ConfigError(f"{self._address} has no Delta table: create it", address=self._address) from error
        if (digest := self._table.transaction_version(f"{self._application}/0")) is None:
            return None
        if self._last is None or self._last[0] != digest:
            self._last = digest, self._claim(self._table, digest)
        return self._last[1]

    def _write(self, claim: Claim, rows: "Rows | None") -> bool:
        table = self._table
        assert table is not None, "a write follows a look"
        numbers = _numbers(claim)
        kept = [Transaction(f"{self._application}/{index}", number) for index, number in enumerate(numbers)]
        about = {"rayshot": {"system": self.system, "sink": self.sink, **claim.document}}
        properties = CommitProperties(custom_metadata=about, app_transactions=kept)
        try:
            if rows is None:
                parts = table.metadata().partition_columns
                table.create_write_transaction([], "append", table.schema(), parts, commit_properties=properties)
            else:
                fitting = fitted(self.name, claim.sequence, rows, pa.schema(table.schema().to_arrow()))
                write_deltalake(table, fitting, mode="append", commit_properties=properties)
        except CommitFailedError:
            return False
        except DeltaError as error:
            if _UNFIT in str(error):
                raise refusal(self.name, claim.sequence, None, str(error)) from error
            raise
        self._last = numbers[0], claim
        return True

    @property
    def _application(self) -> str:
        return f"rayshot/{self.system}/{self.sink}"

    def _claim(self, table: DeltaTable, digest: int) -> Claim:
        """The claim of the table's numbers."""
        numbers = (table.transaction_version(f"{self._application}/{index}") or 0 for index in count(1))
        packed = next(numbers).to_bytes(_BYTES)
        size = int.from_bytes(packed[:2])
        while len(packed) < 2 + size:
            packed += next(numbers).to_bytes(_BYTES)
        packed = packed[2 : 2 + size]
        if _digest(packed) != digest:
            raise SinkBehind(f"what {self._address} keeps of {self.name} is not whole: a part was lost", sink=self.name)
        return Claim(*json.loads(zlib.decompress(packed)))


def _numbers(claim: Claim) -> list[int]:
    """The digest and the text of a claim, as numbers."""
    packed = zlib.compress(json.dumps([*claim.document.values()], ensure_ascii=False).encode(), 9)
    text = len(packed).to_bytes(2) + packed
    text += bytes(-len(text) % _BYTES)
    return [_digest(packed), *(int.from_bytes(text[at : at + _BYTES]) for at in range(0, len(text), _BYTES))]


def _digest(packed: bytes) -> int:
    return int.from_bytes(blake3.blake3(packed).digest(_BYTES))
