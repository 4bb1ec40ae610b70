"""A walk over msgpack that builds nothing: what is announced is proved to be there before anything is allocated for it.

An array's header is five bytes and may announce two billion elements. A reader that builds takes room for all of them
at once, and for those of each array inside; after the walk it takes no more than a few times the bytes that there are.
"""

from typing import Any

import msgpack

BYTES_MAX = 2**31 - 1
"""msgpack counts no further."""


def count_documents(data: bytes | memoryview, most: int) -> int:
    """How many msgpack documents lie in `data`, one behind the other; it stops counting above `most`.

    Raises ValueError or msgpack.UnpackException where the last one is cut, or one is nested too deep or none at all.
    """
    if len(data) > BYTES_MAX:
        raise ValueError(f"{len(data)} bytes are above the limit of {BYTES_MAX}")
    walker = msgpack.Unpacker(None, max_buffer_size=BYTES_MAX)
    walker.feed(data)
    count = 0
    while walker.tell() < len(data) and count <= most:
        walker.skip()
        count += 1
    return count


class ContainerBudget:
    """A hook of msgpack for lists and maps that lets no more than `most` be built until it is told of the `next`.

    An empty list is one byte that becomes dozens. Where a layout has few, a reader that counts them is not talked into
    millions.
    """

    def __init__(self, most: int) -> None:
        self._most = self._left = most
        self.hooks: dict[str, Any] = {"list_hook": self._take, "object_hook": self._take}
        """For msgpack's readers."""

    @property
    def taken(self) -> int:
        """How many were built since the last `next`."""
        return self._most - self._left

    def next(self) -> None:
        """A document was read; the next one has the whole budget again."""
        self._left = self._most

    def _take(self, container: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"more than {self._most} lists and maps; rayshot writes fewer")
        return container
