"""A state as it is captured."""

from typing import Any, NamedTuple

from rayshot.format.entries import StateCodec


class Referenced(NamedTuple):
    """A reference in a state: its value belongs into the buffer number `position`; `path` leads to it."""

    position: int
    path: str
    reference: Any


class PickledState(NamedTuple):
    """A captured state: `stream` is a pickle (protocol 5), `buffers` what it keeps out of band, in order.

    The buffers of `references` are empty places.
    """

    codec: StateCodec
    stream: bytes
    buffers: tuple[memoryview, ...]
    references: tuple[Referenced, ...] = ()
