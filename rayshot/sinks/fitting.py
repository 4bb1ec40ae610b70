"""Rows as an Arrow table of the schema that a resource has."""

from typing import TYPE_CHECKING, Any

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
        table = pa.Table.from_arrays([_column(rows, field) for field in schema], schema=schema)
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


def _column(rows: "list[dict[str, Any]]", field: pa.Field) -> pa.Array:
    """The values of one name. Arrow would cut a real number to an integer of its column."""
    values = [row.get(field.name) for row in rows]
    if pa.types.is_integer(field.type):
        values = [_whole(value) if isinstance(value, float) else value for value in values]
    return pa.array(values, field.type)


def _whole(value: float) -> int:
    if not value.is_integer():
        raise ValueError(f"{value!r} is not a whole number")
    return int(value)
