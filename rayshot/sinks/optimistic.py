"""Backends whose resource refuses a write if this sink has changed there since it was looked at."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from rayshot.errors import NotReady, SinkBehind
from rayshot.model.outside import FencingToken
from rayshot.sinks.backend import Backend, Claim, Held

if TYPE_CHECKING:
    from rayshot.sinks.backend import Rows

TRIES_MAX = 30
"""How often a step looks again because others wrote at the same moment, before its caller has to pause."""


class Optimistic(Backend, ABC):
    """The three steps over two: look at the claim; write the next one with the rows, unless it changed meanwhile."""

    @abstractmethod
    def _look(self) -> Claim | None:
        """What the resource keeps of the sink now; None if it does not know it. Changes nothing."""

    @abstractmethod
    def _write(self, claim: Claim, rows: "Rows | None") -> bool:
        """Write the claim, and rows if there are any, in one step; returns whether this was done.

        False, and nothing was written, if the sink may have changed since the last `_look`. Raises SinkRefused.
        """

    def look(self) -> Held:
        """See Backend.look."""
        there = self._look()
        return Held() if there is None else there.held

    def take(self, token: FencingToken, *, takeover: bool = False) -> Held:
        """See Backend.take."""
        return self._move(lambda there: (there or Claim(*token)).taken(self.name, token, takeover=takeover)).held

    def publish(self, token: FencingToken, sequence: int, line: str, rows: "Rows") -> None:
        """See Backend.publish."""

        def published(there: Claim | None) -> Claim:
            known = self._known(there)
            return known.moved(Held(sequence, line)) if known.awaits(self.name, token, sequence) else known

        self._move(published, rows)

    def reset(self, token: FencingToken, sequence: int, line: str) -> None:
        """See Backend.reset."""

        def counted_again(there: Claim | None) -> Claim:
            known = self._known(there)
            known.admit(self.name, token)
            return known if known.line == line else known.moved(Held(sequence, line))

        self._move(counted_again)

    def _move(self, step: Callable[[Claim | None], Claim], rows: "Rows | None" = None) -> Claim:
        for _ in range(TRIES_MAX):
            there = self._look()
            if (claim := step(there)) == there or self._write(claim, rows):
                return claim
        raise NotReady(f"{self.name}: others wrote at the same moment, {TRIES_MAX} times in turn: try again")

    def _known(self, there: Claim | None) -> Claim:
        if there is None:
            raise SinkBehind(f"what was kept of {self.name} is not there any more: it was emptied", sink=self.name)
        return there
