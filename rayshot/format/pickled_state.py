"""A captured state."""

from types import MappingProxyType
from typing import Any, NamedTuple

from rayshot.format.entries import StateCodec
from rayshot.format.shapes import Shapes


class Referenced(NamedTuple):
    """A reference in a state, at `path`. Its value belongs into buffer `position`."""

    position: int
    path: str
    reference: Any


class PickledState(NamedTuple):
    """A captured state: `stream` is a pickle (protocol 5), `buffers` are its out-of-band buffers, in order.

    The buffers of `references` are empty. `comes_apart`: arrays share memory, and come back as copies. `shapes` are
    those of the classes in it. `handles` are those of plain Ray actors in it.
    """

    codec: StateCodec
    stream: bytes
    buffers: tuple[memoryview, ...]
    references: tuple[Referenced, ...] = ()
    comes_apart: bool = False
    shapes: Shapes = MappingProxyType({})
    handles: tuple[object, ...] = ()
