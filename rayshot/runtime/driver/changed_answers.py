"""How a program hears that answers have changed which it had got, and behind which it has sent something.

One kill may change thousands of answers of one method. So they are gathered, by actor and method, until this life has
given all answers again, but for LATEST_S seconds at most.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from rayshot.format.codec import Frame, method_of_encoded, split_frame
from rayshot.protocol.driver_events import TellOfChange
from rayshot.runtime.channel.peers import Peers
from rayshot.runtime.door import door
from rayshot.runtime.wire.answer_digests import describe
from rayshot.runtime.wire.changed_answer import ChangedAnswer
from rayshot.runtime.wire.host_identity import HostIdentity

log = logging.getLogger("rayshot")
LATEST_S = 5.0
SPLIT_MAX = 16
LINES_MAX = 20
"""So many actors and methods have a line in the log each time."""


class _Life(Protocol):
    identity: HostIdentity
    peers: Peers


class ChangedAnswers:
    """Those of one driver. `driver` is its name, `life` gives the present one, `tell` tells the program of one.

    `frame_with(receiver, number)` gives the batch with a message; None if the driver keeps it no more. Call everything
    under the driver's lock.
    """

    def __init__(
        self,
        driver: str,
        lock: threading.Lock,
        life: Callable[[], _Life],
        frame_with: Callable[[str, int], Frame | None],
        tell: Callable[[ChangedAnswer], None],
    ) -> None:
        self._driver, self._lock, self._life, self._frame_with, self._tell = driver, lock, life, frame_with, tell
        self._found: dict[tuple[str, str], ChangedAnswer] = {}
        self._counts: Counter[str] = Counter()
        self._split: dict[str, tuple[Frame, list[bytes]]] = {}
        """By receiver, the batch that was looked into last, and its messages: to split it for each would take long."""

    def __bool__(self) -> bool:
        """Whether some are gathered."""
        return bool(self._found)

    def note(self, changed: TellOfChange) -> None:
        """An answer has changed. The coordinator hears of the first one at once."""
        assert self._lock.locked(), "changed answers are gathered under the lock"
        method, then = self._method(changed.receiver, changed.number), (changed.first[0], self._method(*changed.first))
        is_first, key = not self._found, (changed.receiver, method)
        before, now = describe(changed.before), describe(changed.now)
        life = self._life().identity.incarnation
        new = ChangedAnswer(life, changed.receiver, method, changed.number, before, now, then)
        known = self._found.get(key)
        self._found[key] = new if known is None else replace(known, count=known.count + 1)
        self._counts[changed.receiver] += 1
        if is_first:
            self._report(new)
            timer = threading.Timer(LATEST_S, self._tell_at_last)
            timer.daemon = True
            timer.start()

    def _method(self, receiver: str, number: int) -> str:
        frame, messages = self._split.get(receiver, (None, []))
        if frame is None or not frame.first <= number <= frame.last:
            if (frame := self._frame_with(receiver, number)) is None:
                return ""
            assert frame.first <= number <= frame.last, f"{number} to {receiver} is not in the batch from {frame.first}"
            messages = split_frame(frame)
            if len(self._split) >= SPLIT_MAX:
                self._split.clear()
            self._split[receiver] = frame, messages
        return method_of_encoded(messages[number - frame.first])

    def _tell_at_last(self) -> None:
        with self._lock:
            self.tell()

    def tell(self) -> None:
        """Tell of all that are gathered."""
        assert self._lock.locked(), "changed answers are told under the lock"
        found, self._found = [*self._found.values()], {}
        self._split.clear()
        if not found:
            return
        self._report(found[0])
        for one in found:
            self._tell(one)
        self._life().peers.submit(lambda: self._log(found))

    def _report(self, first: ChangedAnswer) -> None:
        """Tell the coordinator how many there are in all. It may hear that twice."""
        if door.is_joined():
            identity: Any = self._life().identity
            identity.coordinator.answers_changed.remote(self._driver, dict(self._counts), first)

    def _log(self, found: list[ChangedAnswer]) -> None:
        for one in found[:LINES_MAX]:
            log.warning(
                "%s got an answer that life %d gives otherwise: %s, not %s, to %s. %s answers of this method changed. "
                "What a program decides from answers may be undone: see `rayshot help healing#what-a-program-must-do`",
                *(self._driver, one.life, one.now, one.before, one.what, f"{one.count:,}"),
            )
        if len(found) > LINES_MAX:
            log.warning("%s: so did answers of %d other methods", self._driver, len(found) - LINES_MAX)
