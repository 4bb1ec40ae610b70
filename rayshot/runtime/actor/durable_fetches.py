"""Fetches of outcomes that wait until a durable snapshot holds their calls as handled.

When an actor records a snapshot, its counters say which calls the record holds as handled. So a call is durable when
the coordinator says that such a snapshot is committed and advances: the system never goes back behind it by itself.

A fetch waits on one of DURABLE_AT_ONCE threads, which no other call uses, see `WaitingFetches`. A call of one driver
may be durable, with its fetch in the queue, while the calls of another driver have all threads and wait on. Each
durable snapshot is news of this.
"""

import threading
from collections.abc import Callable, Collection, Mapping
from itertools import takewhile
from typing import NamedTuple

from rayshot.errors import RayshotError
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.actor.waiting_fetches import FetchKey, WaitingFetch, WaitingFetches

DURABLE_AT_ONCE = 4
"""Fetches of durable outcomes that may wait at one actor at a time."""
RECORDED_MAX = 16
"""An actor remembers for so many of its last records what they hold. Forgotten ones only let a fetch wait longer."""


class HandledNumbers(NamedTuple):
    """What a record holds as handled: by sender the numbers of the last message, and of the last answered call.

    The messages that are `owed` are handled, but not answered.
    """

    messages: Mapping[str, int]
    calls: Mapping[str, int]
    owed: frozenset[tuple[str, int]] = frozenset()


class DurableFetches:
    """Which messages of drivers are durable at one actor. Call everything under the process's lock.

    `ask` asks the coordinator to say at once, from now on, which snapshots are committed and advance. It is called when
    the first fetch waits. `unfetched` gives the calls of drivers whose outcomes nobody has fetched. `_recorded` has
    what records hold, by snapshot, in the order of recording. A waiting fetch ends with whether a durable snapshot
    holds its call.
    """

    def __init__(self, ask: Callable[[], None], unfetched: Callable[[], Collection[FetchKey]]) -> None:
        self._ask, self._unfetched = ask, unfetched
        self._is_wanted = False
        self._recorded: dict[SnapshotId, HandledNumbers] = {}
        self._held = HandledNumbers({}, {})
        self._waiting = WaitingFetches[bool](DURABLE_AT_ONCE, self._may_end)

    def go_on_from(self, snapshot: SnapshotId, handled: HandledNumbers, before: "DurableFetches | None") -> None:
        """This life begins at a durable snapshot that holds these messages. `before` is of the life before, if any.

        Fetches that waited in that life come again.
        """
        if before is not None:
            held = before._recorded.get(snapshot, before._held)  # noqa: SLF001 - it may not know that this is committed
            handled = handled._replace(calls=held.calls)
        self._held = handled
        self._waiting.news()

    def holds(self, sender: str, number: int) -> bool:
        """Whether a durable snapshot holds this message as handled, and as answered if it is a call."""
        return number <= self._held.messages.get(sender, 0) and (sender, number) not in self._held.owed

    def enter(self, key: FetchKey, number: int) -> WaitingFetch[bool]:
        """A fetch waits from now on for its call, which is message `number`. Raises FetchRetry if others need it."""
        if not self._is_wanted:
            self._is_wanted = True
            self._ask()
        return self._waiting.enter(key, number)

    def awaits(self, key: FetchKey) -> bool:
        """Whether a fetch of this call waits here."""
        return key in self._waiting

    def await_end(self, fetch: WaitingFetch[bool], lock: threading.Lock) -> bool:
        """Wait until the fetch has ended; returns whether its call is durable, if not it never will be in this life.

        Takes the lock.
        """
        return self._waiting.await_end(fetch, lock)

    def _may_end(self) -> bool:
        """Whether a call may be durable whose fetch is in the queue."""
        calls = self._held.calls
        return any(call_id <= calls.get(sender, 0) for sender, call_id in self._unfetched())

    def recorded(self, snapshot: SnapshotId, handled: HandledNumbers) -> None:
        """The actor records a snapshot."""
        self._recorded[snapshot] = handled
        if len(self._recorded) > RECORDED_MAX:
            del self._recorded[next(iter(self._recorded))]

    def committed(self, snapshot: SnapshotId) -> None:
        """The snapshot is durable and advances. Older records hold no more than this one."""
        handled = self._recorded.get(snapshot)
        if handled is None:
            return
        for older in (*takewhile(lambda one: one != snapshot, tuple(self._recorded)), snapshot):
            del self._recorded[older]
        self._held = handled
        self._waiting.end_those(lambda key, number: self.holds(key[0], number), lambda: True)
        self._waiting.news()

    def aborted(self, snapshot: SnapshotId) -> None:
        """The snapshot will never be durable."""
        self._recorded.pop(snapshot, None)

    def ask_again(self) -> None:
        """Another process coordinates, and does not know that fetches wait here."""
        if self._is_wanted:
            self._ask()

    def forget(self, driver: str) -> None:
        """Nobody waits for the outcomes of this driver's calls."""
        self._waiting.end_those(lambda key, _: key[0] == driver, lambda: False)

    def fail(self, error: RayshotError) -> None:
        """No snapshot can be taken, maybe because of who waits here: the fetches that wait now end with this error."""
        self._waiting.end_those(lambda *_: True, error.anew)

    def shut(self) -> None:
        """This life is over: what is not durable now never will be in it."""
        self._waiting.end_those(lambda *_: True, lambda: False)
