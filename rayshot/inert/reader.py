"""The inert reader: it shows a state or a message, and runs, imports and trusts nothing of it.

`read` gives containers, scalars and the data types of a closed table (see `closed_table`) as they were, and everything
else as records: `Inert` for objects, classes and functions, `HandleRecord` for handles of actors. `jsonable` renders
the result, `alike` compares two of them. All three end, and take memory and time linear in the bytes.
"""

from collections.abc import Sequence
from typing import Any

from rayshot.errors import BadState
from rayshot.inert.kept_class import NotShared
from rayshot.inert.pickle_machine import NONSENSE, PickleMachine


def read(
    stream: bytes | bytearray | memoryview, buffers: Sequence[bytes | memoryview] = (), slots: Sequence[Any] = ()
) -> Any:
    """The value that a pickle of any protocol describes; arrays in it are views on `stream` and `buffers`.

    `slots` fill the places of a message that its pickle names by index; read them before, see `read_slots`.

    Raises BadState for bytes that are not a whole pickle, and LimitExceeded for a pickle that asks for more work than
    a pickle of its size needs.
    """
    data = bytes(stream)
    try:
        try:
            return PickleMachine(data, buffers, slots=slots, keeps=True).run()
        except NotShared:
            return PickleMachine(data, buffers, slots=slots).run()
    except NONSENSE as error:
        raise BadState(f"the bytes are not a pickle: {type(error).__name__}: {error}") from error


def read_slots(pickles: Sequence[tuple[bytes, Sequence[bytes | memoryview]]]) -> list[Any]:
    """The contents of a message's slots, given as (stream, buffers). The last one may hold those before it.

    None lies deeper: what is nested in one reading is bounded, and so what is nested in all.
    """
    contents: list[Any] = []
    for index, (stream, buffers) in enumerate(pickles):
        contents.append(read(stream, buffers, contents if index == len(pickles) - 1 else ()))
    return contents
