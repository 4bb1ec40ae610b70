"""How the batches of one life come to the resource. It is not part of the state, and runs beside the handlers."""

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from rayshot.errors import SinkAhead
from rayshot.sinks.backend import Backend, Held

if TYPE_CHECKING:
    from rayshot.sinks.backend import Rows


class Publisher:
    """One life's way to the resource.

    An earlier life's publisher in the same process may still run: the resource keeps it out. Each number here has one
    writer, so that hooks read them without waiting for a write to the resource: `rows_durable` has the actor's thread,
    the others have what runs beside it.

    Attributes:
        held: how far the resource was when it was taken or moved back; None before.
        published: the last batch that is known to be visible.
        reset_to: the batch to which the resource must be moved back before anything is published, or None.
    """

    def __init__(self, backend: Backend, run: str, life: int) -> None:
        self.held: Held | None = None
        self.published = 0
        self.reset_to: int | None = None
        self._backend, self._run, self._life = backend, run, life
        self._durable = self._rows_durable = self._rows_published = 0
        self._lock = threading.Lock()

    @property
    def rows_waiting(self) -> int:
        """How many rows are durable and not visible yet."""
        return self._rows_durable - self._rows_published

    def take(self, *, takeover: bool) -> Held:
        """Take the resource for this life; see `Backend.take`."""
        with self._lock:
            self.held = self._backend.take(self._run, self._life, takeover=takeover)
            self.published = self.held.sequence
            return self.held

    def take_anew(self, payload: dict[str, int]) -> dict[str, int]:
        """Take the resource for a new actor; returns the payload. Raises SinkAhead if something is there already."""
        with self._lock:
            there = self.held or self._backend.take(self._run, self._life)
            if self.held is None and there != Held():
                raise SinkAhead(
                    f"{self._backend.name} is new, and {there} is there already: give it another name or another "
                    "place, or remove what is kept of it there",
                    actor=self._backend.sink,
                    there=there.document,
                    here=Held().document,
                )
            self.held = there
        return payload

    def move_back(self, sequence: int) -> None:
        """Count from this batch again, before anything else is published."""
        self.reset_to = self.published = sequence

    def due(self, batches: "dict[int, Rows]") -> Callable[[], None] | None:
        """What is to be done now that these batches are durable: call it, again and again until it returns."""
        counted = max(self._durable, self.published)
        self._rows_durable += sum(len(rows) for sequence, rows in batches.items() if sequence > counted)
        self._durable = max(counted, *batches) if batches else counted
        if self.reset_to is None and all(sequence <= self.published for sequence in batches):
            return None
        return partial(self._publish, batches)

    def _publish(self, batches: "dict[int, Rows]") -> None:
        with self._lock:
            if self.reset_to is not None:
                self._backend.reset(self._run, self._life, self.reset_to)
                self.held, self.reset_to = Held(self.reset_to, self._life), None
            for sequence in sorted(batches):
                if sequence > self.published:
                    self._backend.publish(self._run, self._life, sequence, batches[sequence])
                    self._rows_published += len(batches[sequence])
                    self.published = sequence
