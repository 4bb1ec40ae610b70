"""Rows as an Arrow table of the schema that a resource has."""

from typing import TYPE_CHECKING

import pyarrow as pa

from rayshot.sinks.backend import UNFIT, refusal

if TYPE_CHECKING:
    from rayshot.sinks.backend import Rows

_UNFIT = (*UNFIT, NotImplementedError)
"""Arrow raises the last one for a cast that it does not have."""


def fitted(sink: str, sequence: int, rows: "Rows", schema: pa.Schema) -> pa.Table:
    """The rows with this schema. A dict may lack a name of it, for null; a table has all of its names, in any order.

    Raises SinkRefused, with the first row that does not fit.
    """
    try:
        return _fitted(rows, schema)
    except _UNFIT as error:
        for index, row in enumerate(rows if isinstance(rows, list) else rows.to_pylist()):
            try:
                _fitted([row], schema)
            except _UNFIT as failure:
                raise refusal(sink, sequence, index, str(failure)) from failure
        raise refusal(sink, sequence, None, str(error)) from error


def _fitted(rows: "Rows", schema: pa.Schema) -> pa.Table:
    names = set(schema.names)
    if isinstance(rows, list):
        unknown = set() if all(map(names.issuperset, rows)) else set().union(*rows) - names
        table = pa.Table.from_pylist(rows, schema=schema)
    elif unknown := names ^ set(rows.column_names):
        table = rows
    else:
        table = rows.select(schema.names).cast(schema)
    if unknown:
        raise ValueError(f"field {min(unknown)!r} is in the rows or in the schema, and not in both")
    for field in schema:
        if not field.nullable and table[field.name].null_count:
            raise ValueError(f"field {field.name!r} may not be null")
    return table
