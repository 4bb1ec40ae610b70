"""Objects of libraries whose pickles hold internals that change with the version: readers show only their class.

Their parts would only show how one version of pandas or pyarrow stores a frame, under names that are not public.
"""

from collections.abc import Mapping
from types import MappingProxyType

from rayshot.format.inert_record import Inert

LIBRARIES = frozenset({"pandas", "pyarrow"})
_MADE_BY: Mapping[str, str] = MappingProxyType(
    {
        "_reconstruct_record_batch": "RecordBatch",
        "_reconstruct_table": "Table",
        "_restore_array": "Array",
        "_timedelta_unpickle": "Timedelta",
        "_unpickle_timestamp": "Timestamp",
        "__nat_unpickle": "NaT",
        "chunked_array": "ChunkedArray",
        "scalar": "Scalar",
        "schema": "Schema",
        "type_for_alias": "DataType",
    }
)
"""Function that a pickle calls -> the class of its result."""


def is_opaque(record: Inert) -> bool:
    """Whether the record is of one of LIBRARIES."""
    return record.class_name.partition(".")[0] in LIBRARIES


def public_name(record: Inert) -> str:
    """The name of the record's class; for an opaque class without private modules, as in `pandas.DataFrame`."""
    if not is_opaque(record):
        return record.class_name
    library, _, inner = record.class_name.partition(".")
    name = inner.rpartition(".")[2]
    made = record.args[0] if record.args else None
    if name.startswith("_") and isinstance(made, Inert) and made.args is None and is_opaque(made):
        name = made.class_name.rpartition(".")[2]  # a function of theirs that is told what to make
    return f"{library}.{_MADE_BY.get(name, name)}"
