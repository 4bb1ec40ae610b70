"""Slots: values outside of a message's bytes, which its pickle names by index.

Ray counts only the references that it sees. So the bytes of a message hold no references. They are stored and sent next
to the message, by its number. The same holds for large arguments.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

SlotKind = Literal["value", "object", "large", "failed"]
VALUE: SlotKind = "value"
"""An argument that was passed as a reference. The handler gets its value."""
OBJECT: SlotKind = "object"
"""A reference inside of an argument, or a result. It stays a reference."""
LARGE: SlotKind = "large"
"""All large arguments of a message, passed by value."""
FAILED: SlotKind = "failed"
"""An argument whose object failed. The handler of the message gets its error."""

LARGE_BYTES = 1 << 20
"""Larger arguments become a slot; smaller ones are in the message's bytes."""


class StoredValue(NamedTuple):
    """A slot's content as a snapshot holds it: the `parts` of its pickle, stream first, or a `reference` to them."""

    parts: Sequence[Any] | None
    reference: Any = None


class Slot:
    """One slot: the `reference` to its content, or the `content` itself.

    That of a "large" one is its parts: a pickle and its buffers, together `size` bytes. That of a "failed" one is the
    pickle of an error. It may be a StoredValue. `where` says in words which part of its message it is.
    """

    __slots__ = ("content", "kind", "reference", "size", "where")

    def __init__(
        self,
        kind: SlotKind,
        reference: Any = None,
        content: Any = None,
        size: int = 0,
        where: str = "what it was given",
    ) -> None:
        self.kind = kind
        self.reference = reference
        self.content = content
        self.size = size
        self.where = where


class Everywhere(Sequence[Slot]):
    """A slot for every index."""

    def __init__(self, at: Callable[[Any], Slot]) -> None:
        self._at = at

    def __getitem__(self, index: Any) -> Any:
        return self._at(index)

    def __len__(self) -> int:
        return 1


class SlottedMessage(bytes):
    """An encoded message and its slots."""

    slots: tuple[Slot, ...]

    @classmethod
    def of(cls, message: bytes, slots: tuple[Slot, ...]) -> "SlottedMessage":
        """The message with these slots."""
        made = cls(message)
        made.slots = slots
        return made
