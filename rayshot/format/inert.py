"""The inert reader: a state or a message shown without running, importing or believing anything in it.

`read` gives containers, scalars and the data types of a closed table (see `inert_types`) as they were, and everything
else as records: `Inert` for objects, classes and functions, `HandleRecord` for handles of actors. `jsonable` renders
the result, `alike` compares two of them. All three end, and take memory and time linear in the bytes.
"""

import struct
from collections.abc import Sequence
from typing import Any

from rayshot.errors import BadState
from rayshot.format.alike import alike
from rayshot.format.inert_record import HandleRecord, Inert, is_inert, short_repr
from rayshot.format.jsonable import jsonable
from rayshot.format.pickle_machine import PickleMachine

__all__ = ["HandleRecord", "Inert", "alike", "is_inert", "jsonable", "read", "short_repr"]

_NONSENSE = (LookupError, TypeError, ValueError, ArithmeticError, struct.error)


def read(stream: bytes | bytearray | memoryview, buffers: Sequence[bytes | memoryview] = ()) -> Any:
    """The value that a pickle of any protocol describes; arrays in it are views on `stream` and `buffers`.

    Raises BadState for bytes that are no whole pickle, and LimitExceeded for a pickle that asks for more work than its
    size can be worth.
    """
    machine = PickleMachine(bytes(stream), buffers)
    try:
        return machine.run()
    except _NONSENSE as error:
        raise BadState(f"the bytes are no pickle: {type(error).__name__}: {error}") from error
