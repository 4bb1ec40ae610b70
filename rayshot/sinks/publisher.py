"""How the batches of one life come to the resource. It is not part of the state, and runs beside the handlers."""

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from rayshot.errors import SinkAhead
from rayshot.model.outside import FencingToken
from rayshot.sinks.backend import Backend, Held

if TYPE_CHECKING:
    from rayshot.sinks.backend import Rows

    Batches = dict[int, tuple[str, Rows]]
    """The line and the rows of each batch, by number."""


class Publisher:
    """One life's way to the resource.

    An earlier life's publisher in the same process may still run: the resource keeps it out. Each number here has one
    writer, so that hooks read them without waiting for a write to the resource: `_rows_durable` has the actor's thread,
    the others have what runs beside it.

    Attributes:
        is_taken: whether the resource was taken for this life.
        published: the last batch that is known to be visible.
        reset_to: where the resource must be moved back before anything else happens there, or None.
    """

    def __init__(self, backend: Backend, token: FencingToken) -> None:
        self.is_taken = False
        self.published = 0
        self.reset_to: Held | None = None
        self._backend, self._token = backend, token
        self._durable = self._rows_durable = self._rows_published = 0
        self._lock = threading.Lock()

    @property
    def rows_waiting(self) -> int:
        """How many rows are durable and not visible yet."""
        return self._rows_durable - self._rows_published

    def look(self) -> Held:
        """How far the resource is; see `Backend.look`."""
        return self._backend.look()

    def take(self, *, takeover: bool) -> Held:
        """Take the resource for this life; see `Backend.take`."""
        with self._lock:
            there = self._backend.take(self._token, takeover=takeover)
            self.is_taken, self.published = True, there.sequence
            return there

    def move_back(self, to: Held) -> None:
        """Count from there on again, before anything else is published."""
        self.reset_to, self.published = to, to.sequence

    def prepare(self, payload: dict[str, Any], start: Held, *, again: bool) -> dict[str, Any]:
        """Make the resource fit a snapshot that is not durable yet; returns the payload. For a function of a hook.

        A new actor takes the resource, and begins at `start`, whose number is 0. Raises SinkAhead if something is
        visible there already, unless this is allowed: `again`.
        """
        with self._lock:
            if not self.is_taken:
                there = self._backend.take(self._token)
                if there.sequence and not again:
                    raise SinkAhead(
                        f"{self._backend.name} is new, and {there} is there already: give it another name or another "
                        "place, or remove what is kept of it there",
                        actor=self._backend.sink,
                        there=there.document,
                        here=Held().document,
                    )
                self.reset_to = None if there == Held() else start
            self._reset()
            self.is_taken = True
        return payload

    def due(self, batches: "Batches") -> Callable[[], None] | None:
        """What is to be done now that these batches are durable: call it, again and again until it returns."""
        counted = max(self._durable, self.published)
        self._rows_durable += sum(len(rows) for sequence, (_, rows) in batches.items() if sequence > counted)
        self._durable = max(counted, *batches) if batches else counted
        if self.reset_to is None and all(sequence <= self.published for sequence in batches):
            return None
        return partial(self._publish, batches)

    def _publish(self, batches: "Batches") -> None:
        with self._lock:
            self._reset()
            for sequence in sorted(batches):
                if sequence > self.published:
                    line, rows = batches[sequence]
                    self._backend.publish(self._token, sequence, line, rows)
                    self._rows_published += len(rows)
                    self.published = sequence

    def _reset(self) -> None:
        if self.reset_to is not None:
            self._backend.reset(self._token, self.reset_to.sequence, self.reset_to.line)
            self.reset_to = None
