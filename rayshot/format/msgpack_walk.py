"""A walk over msgpack that builds nothing. It proves that all announced elements exist before a reader allocates.

The header of an array is five bytes and may announce two billion elements. A reader that builds allocates all of them
at once, and again for each array inside. After the walk it takes only a few times the bytes of the document.
"""

from typing import Any

import msgpack

BYTES_MAX = 2**31 - 1
"""The largest number of bytes that msgpack can count."""


def count_documents(data: bytes | memoryview, most: int) -> int:
    """How many msgpack documents `data` holds, one behind the other. It stops counting above `most`.

    Raises ValueError or msgpack.UnpackException if a document is cut, nested too deep or not msgpack.
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
    """Hooks of msgpack that allow at most `most` lists and maps in a document; call `next` before the next one.

    An empty list is one byte, but takes dozens of bytes of memory. Most layouts have few lists, so a reader that counts
    them never builds millions.
    """

    def __init__(self, most: int) -> None:
        self._most = self._left = most
        self.hooks: dict[str, Any] = {"list_hook": self._take, "object_hook": self._take}
        """The hooks, as arguments of msgpack's readers."""

    @property
    def taken(self) -> int:
        """How many lists and maps were built since the last `next`."""
        return self._most - self._left

    def next(self) -> None:
        """Give the next document the whole budget."""
        self._left = self._most

    def _take(self, container: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"more than {self._most} lists and maps; rayshot writes fewer")
        return container
