"""What lies beside a message's bytes: the slots that its pickle names by their index.

Ray counts only the references that it sees. So a message's bytes hold none: the references that belong to it lie beside
it, by its number, wherever it lies, and travel beside it. The same holds for arguments that are large by themselves.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

SlotKind = Literal["value", "object", "large", "failed"]
VALUE: SlotKind = "value"
"""An argument that was given as a reference: the handler gets its value."""
OBJECT: SlotKind = "object"
"""A reference inside of an argument, or a result: it stays one."""
LARGE: SlotKind = "large"
"""All arguments of a message that are large by themselves: given by value."""
FAILED: SlotKind = "failed"
"""An argument whose object failed: who handles the message gets its error."""

LARGE_BYTES = 1 << 20
"""Arguments above this travel as a slot; smaller ones in the message's bytes."""


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
    """An encoded message, and what belongs beside it."""

    slots: tuple[Slot, ...]

    @classmethod
    def of(cls, message: bytes, slots: tuple[Slot, ...]) -> "SlottedMessage":
        """The message with these slots."""
        made = cls(message)
        made.slots = slots
        return made
