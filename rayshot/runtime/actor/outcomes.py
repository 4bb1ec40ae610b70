"""Outcomes of drivers' calls, at the actor that handles them.

The message of a call has a number and comes with all others. A separate Ray call fetches the outcome; the driver has
the reference to its result. The two come in any order. A fetch waits on one of CALLS_AT_ONCE threads or more, see
`WaitingFetches`.

After a rollback a driver asks for answers again that it has had: it may send its next message only when it has got the
one before. So these fetches have threads of their own. Otherwise each would wait behind calls that the driver has made
and cannot send yet.

A fetch may ask for an outcome that is durable. It waits in `DurableFetches` first, on other threads, and then takes the
outcome like any other: until then nobody gets it.
"""

import logging
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import takewhile
from math import inf
from types import MappingProxyType
from typing import Any, NamedTuple

from rayshot.errors import ActorExited, NoAnswer, RayshotError, SystemDown
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.actor.durable_fetches import DurableFetches, HandledNumbers
from rayshot.runtime.actor.waiting_fetches import FetchKey, WaitingFetches
from rayshot.runtime.door import door
from rayshot.runtime.wire.actor_errors import as_rays
from rayshot.runtime.wire.host_identity import CALLS_AT_ONCE

log = logging.getLogger("rayshot")
AGAIN_AT_ONCE = 2
"""Fetches of answers that are given again, which may wait at one actor at a time. Their messages have been sent."""
FETCHED_S = 30.0
"""A connection may break while it carries an outcome, and then Ray fetches again. So a fetched outcome stays for so
many seconds, and at most twice as many, unless its driver says before that it has it."""
OWED_AGAIN_S = 10.0
"""A call that was answered in an earlier life, and is owed in this one, expires after so many seconds."""
STAY_BYTES_MAX = 1 << 20
"""A value with more bytes does not stay: it would need memory in addition to its copy in the object store."""

GONE = (
    "this program counts as dead in its system, as Ray had lost sight of it, and nothing more is taken from it: "
    "start it anew"
)


class Outcome(NamedTuple):
    """The outcome of a call: a value, or a RayTaskError that `ray.get` raises; and the tags for the driver.

    `error`: raised instead of returning the value. `size` of the value in bytes. `is_late`: later calls were handled
    before it came.
    """

    value: Any
    tags: tuple[SnapshotId, ...] = ()
    error: RayshotError | None = None
    size: int = 0
    is_late: bool = False

    def checked(self) -> "Outcome":
        """This outcome, if it has no error; otherwise raises that."""
        if self.error is not None:
            raise self.error.anew()
        return self


_Fetched = dict[str, dict[int, Outcome]]


class _Earlier:
    """Outcomes of calls that the restored snapshot holds as handled, from the lives before. Use it under the lock.

    Those that nobody fetched stay until then, or until the call is handled again. Those that were given stay for twice
    FETCHED_S, as in the life in which they were given; `until` says how long, by time.monotonic.
    """

    def __init__(self) -> None:
        self._unfetched: dict[FetchKey, Outcome] = {}
        self._given: dict[FetchKey, tuple[float, Outcome]] = {}

    def add(self, before: "_Earlier", kept: Mapping[FetchKey, Outcome], fetched: Iterable[_Fetched]) -> None:
        """A life is over that had these, and went on from `before`."""
        self._unfetched = {**before._unfetched, **kept}  # noqa: SLF001 - of its own class
        self._given = dict(before._given)  # noqa: SLF001
        for of_drivers in fetched:
            for driver, calls in of_drivers.items():
                for call_id, outcome in calls.items():
                    self._note((driver, call_id), outcome)

    def _note(self, key: FetchKey, outcome: Outcome) -> None:
        self._given[key] = time.monotonic() + 2 * FETCHED_S, outcome

    @property
    def unfetched(self) -> Collection[FetchKey]:
        """The calls whose outcomes nobody fetched."""
        return self._unfetched.keys()

    def take(self, key: FetchKey) -> Outcome | None:
        """The outcome of a call, if it is known."""
        outcome = self._unfetched.pop(key, None)
        if outcome is None:
            _, outcome = self._given.get(key, (0.0, None))
        elif outcome.size <= STAY_BYTES_MAX:
            self._note(key, outcome)
        return outcome

    def age(self) -> bool:
        """Forget what was given long ago. Returns whether anything is left that can be forgotten later."""
        now = time.monotonic()
        self._given = {key: (until, outcome) for key, (until, outcome) in self._given.items() if until > now}
        return bool(self._given)

    def handled_again(self, key: FetchKey) -> None:
        """This life has an outcome of its own for that call."""
        self._unfetched.pop(key, None)
        self._given.pop(key, None)

    def forget(self, driver: str) -> None:
        """The driver is gone."""
        self._unfetched = {key: outcome for key, outcome in self._unfetched.items() if key[0] != driver}
        self._given = {key: given for key, given in self._given.items() if key[0] != driver}


class Outcomes:
    """The outcomes of the actor `name`. `lock` is the process's lock. Call all methods except `fetch` under it.

    `ask` is for `DurableFetches`. `owed` has the calls that were handled and have no outcome yet, with the numbers of
    their messages; the cell keeps it up to date. `expire` answers such a call, for nobody. `calls_at_once` fetches may
    wait at a time.

    `_settled` has the last answered call of each driver: those before it are answered too, but not those that are owed.
    `_waiting` are the fetches that wait, `_again` those of answers that are given again. `_withheld` are outcomes that
    each wait until all snapshots beside them are released. `_fetched` are outcomes that were given, by driver and call;
    those in `_fetched_before` were given some time ago.
    """

    def __init__(
        self,
        lock: threading.Lock,
        name: str = "",
        ask: Callable[[], None] = lambda: None,
        owed: Mapping[FetchKey, int] = MappingProxyType({}),
        expire: Callable[[FetchKey], None] = lambda _: None,
        *,
        calls_at_once: int = CALLS_AT_ONCE,
    ) -> None:
        self._lock = lock
        self._name = name
        self._owed, self._expire = owed, expire
        self.durable = DurableFetches(ask, lambda: (*self._kept, *self._earlier.unfetched))
        self._kept: dict[FetchKey, Outcome] = {}
        self._waiting = WaitingFetches[Outcome](calls_at_once, self._may_end)
        self._again = WaitingFetches[Outcome](AGAIN_AT_ONCE, self._may_end)
        self._settled: dict[str, int] = {}
        self._gone: set[str] = set()
        self._down: Outcome | None = None
        self._withheld: list[tuple[FetchKey, Outcome, set[SnapshotId]]] = []
        self._fetched: _Fetched = {}
        self._fetched_before: _Fetched = {}
        self._is_ageing = False
        self._received: Mapping[str, int] = {}
        self._owed_then: frozenset[FetchKey] = frozenset()
        """The calls that the restored snapshot holds as handled, and that this life answers."""
        self._owed_again: dict[FetchKey, float] = {}
        """Since when calls are owed that an earlier life has answered, by time.monotonic."""
        self._expires: set[str] = set()
        """The drivers of which such a call has expired, and none got an answer since."""
        self._earlier = _Earlier()

    def go_on_from(self, snapshot: SnapshotId, received: Mapping[str, int], before: "Outcomes | None") -> None:
        """The actor was loaded from this snapshot, which holds the messages `received` as processed, by driver.

        These calls do not come again. `before` has the outcomes that this process gave in the life before. The calls
        that are owed now are answered in this life.
        """
        self._received = received
        self._owed_then = frozenset(key for key, number in self._owed.items() if number)
        self._tell_news()
        handled = HandledNumbers(received, {}, self._owed_numbers)
        self.durable.go_on_from(snapshot, handled, None if before is None else before.durable)
        if before is not None:
            self._earlier.add(before._earlier, before._kept, (before._fetched_before, before._fetched))  # noqa: SLF001
            self._go_on_ageing()

    def __bool__(self) -> bool:
        """Whether some outcomes have not been fetched."""
        return bool(self._kept or self._withheld)

    def settle(self, sender: str, call_id: int, outcome: Outcome, until: Collection[SnapshotId] = ()) -> None:
        """A call was handled: once all `until` are released, give its outcome to the waiting fetch, or keep it."""
        if sender in self._gone or self._down is not None:
            return
        key = sender, call_id
        if until:
            self._withheld.append((key, outcome, set(until)))
            return
        self._settled[sender] = max(call_id, self._settled.get(sender, 0))
        if self._owed_again.pop(key, 0.0) < inf:
            self._expires.discard(sender)
        self._earlier.handled_again(key)
        if self._waiting.end(key, outcome) | self._again.end(key, outcome):  # both may wait
            self._stay(sender, call_id, outcome)
        else:
            self._kept[key] = outcome
            if not self.durable.awaits(key):
                self._tell_news()

    def _may_end(self) -> bool:
        """Whether a fetch may end at once: its outcome is kept, or a restored snapshot holds its call as handled."""
        return bool(self._kept or self._received)

    def _tell_news(self) -> None:
        for fetches in (self._waiting, self._again):
            fetches.news()

    def _stay(self, sender: str, call_id: int, outcome: Outcome) -> None:
        if outcome.size > STAY_BYTES_MAX:
            return
        self._fetched.setdefault(sender, {})[call_id] = outcome
        self._go_on_ageing()

    def _go_on_ageing(self) -> None:
        if not self._is_ageing:
            self._is_ageing = True
            timer = threading.Timer(FETCHED_S, self._age)
            timer.daemon = True
            timer.start()

    def _age(self) -> None:
        with self._lock:
            self._fetched_before, self._fetched = self._fetched, {}
            self._is_ageing = False
            if self._earlier.age() or self._fetched_before:
                self._go_on_ageing()

    def recorded(self, snapshot: SnapshotId, received: Mapping[str, int]) -> None:
        """The actor records a snapshot, which holds these messages as handled, by sender."""
        self.durable.recorded(snapshot, HandledNumbers(received, dict(self._settled), self._owed_numbers))

    @property
    def _owed_numbers(self) -> frozenset[tuple[str, int]]:
        return frozenset((sender, number) for (sender, _), number in tuple(self._owed.items()) if number)

    def is_gone(self, driver: str) -> bool:
        """Whether this driver gets no outcomes any more."""
        return driver in self._gone

    def release(self, snapshot: SnapshotId) -> None:
        """Every actor has recorded this snapshot, or it is over: its news can reach no actor that has not."""
        withheld, self._withheld = self._withheld, []
        for (sender, call_id), outcome, until in withheld:
            self.settle(sender, call_id, outcome, until - {snapshot})

    def fetch(
        self,
        sender: str,
        call_id: int,
        has_all_before: int = 0,
        number: int = 0,
        *,
        durable: bool = False,
        again: bool = False,
    ) -> Outcome:
        """Wait for the outcome of a call; with `durable` until a durable snapshot holds the call. Takes the lock.

        `again`: the driver's program has an outcome of an earlier life, and its message has been sent in this one.
        The driver already has the outcomes of all its calls before the number `has_all_before`. `number` is that of the
        call's message, 0 if the driver does not say it. Raises FetchRetry if other fetches need the thread; SystemDown;
        NoAnswer if the outcome was fetched long ago, was lost when the system went back to a snapshot, can never be
        durable as the actor has ended, or the driver counts as dead.
        """
        key = sender, call_id
        if durable and not self._await_durable(key, number):
            return self._never_durable(key)
        with self._lock:
            if 0 < number <= self._received.get(sender, 0) and key not in self._owed_then:
                return self._given_before(key)
            if (outcome := self._find(sender, call_id, has_all_before)) is not None:
                return outcome
            self._check_to_come(key)
            if self._down is not None:
                return self._down.checked()
            fetches = self._again if again else self._waiting
            fetch = fetches.enter(key, number)
        look = (lambda: self._look_at_owed(key)) if again else None
        return fetches.await_end(fetch, self._lock, look).checked()

    def _look_at_owed(self, key: FetchKey) -> None:
        """An answer is to be given again. If it is owed for long, let the call expire. Takes the lock.

        What it waits for may be a message of the same driver, which waits for this answer. Behind one that expired the
        others of this driver do not wait: they come one after the other.
        """
        driver, call_id = key
        with self._lock:
            if not self._owed.get(key):
                return
            now = time.monotonic()
            since = self._owed_again.setdefault(key, now)
            if since == inf:
                return  # it is told
            if now < since + OWED_AGAIN_S and driver not in self._expires:
                return
            self._owed_again[key] = inf
            self._expires.add(driver)
        log.warning(
            "%s: call %d of %s may have been answered before the system went back, and waits in vain now: its program "
            "goes on",
            *(self._name, call_id, driver),
        )
        self._expire(key)

    def _await_durable(self, key: FetchKey, number: int) -> bool:
        """Wait until a durable snapshot holds this call as handled. Returns False if that cannot be in this life."""
        sender, call_id = key
        assert number > 0, f"call {call_id} of {sender} does not say the number of its message"
        with self._lock:
            if self.durable.holds(sender, number):
                return True
            if self._down is not None or sender in self._gone:
                return False
            fetch = self.durable.enter(key, number)
        return self.durable.await_end(fetch, self._lock)

    def _never_durable(self, key: FetchKey) -> Outcome:
        sender, call_id = key
        with self._lock:
            if sender in self._gone:
                raise NoAnswer(GONE)
            assert self._down is not None, f"{key} may still get durable"
            has_ended = isinstance(self._down.error or self._down.value, ActorExited)
            if has_ended and call_id <= self._settled.get(sender, 0):
                self._kept.pop(key, None)
                raise NoAnswer(
                    "the call was handled, and its actor ended before a durable snapshot held that: its result is not "
                    "given, as it was asked for with durable=True"
                )
            return self._down.checked()

    def _find(self, sender: str, call_id: int, has_all_before: int) -> Outcome | None:
        outcome = self._kept.pop((sender, call_id), None)
        if outcome is not None:
            self._stay(sender, call_id, outcome)
        for fetched in (calls for of in (self._fetched, self._fetched_before) if (calls := of.get(sender))):
            for confirmed in tuple(takewhile(lambda number: number < has_all_before, fetched)):
                del fetched[confirmed]
            outcome = outcome or fetched.get(call_id)
        return outcome

    def _given_before(self, key: FetchKey) -> Outcome:
        """The outcome of a call that the snapshot holds as handled, which an earlier life gave."""
        if (outcome := self._earlier.take(key)) is None:
            raise NoAnswer(
                "the call was handled before the snapshot to which the system went back, and its result was lost with "
                "the actor's process: ask the actor what it did before you call it again"
            )
        self._go_on_ageing()
        return outcome._replace(tags=())

    def _check_to_come(self, key: FetchKey) -> None:
        """Raise NoAnswer if this life never gives the outcome of that call."""
        sender, call_id = key
        if sender in self._gone:  # Ray also runs calls of dead drivers
            raise NoAnswer(GONE)
        is_to_come = bool(self._owed.get(key)) or any(key == withheld[0] for withheld in self._withheld)
        if call_id <= self._settled.get(sender, 0) and not is_to_come:
            raise NoAnswer(
                "the call was handled, and its result was lost with the connection on which it came back: "
                "ask the actor what it did before you call it again"
            )

    def forget(self, driver: str) -> None:
        """Forget the outcomes of this driver's calls: the driver is gone, or belongs to an earlier life."""
        self._gone.add(driver)
        self._expires.discard(driver)
        self._owed_again = {key: since for key, since in self._owed_again.items() if key[0] != driver}
        self.durable.forget(driver)
        self._earlier.forget(driver)
        for of_driver in (self._settled, self._fetched, self._fetched_before):
            of_driver.pop(driver, None)
        self._withheld = [withheld for withheld in self._withheld if withheld[0][0] != driver]
        for key in [key for key in self._kept if key[0] == driver]:
            del self._kept[key]
        for fetches in (self._waiting, self._again):
            fetches.end_those(lambda key, _: key[0] == driver, lambda: NoAnswer(GONE))

    def shut(self, error: SystemDown | ActorExited) -> None:
        """Nothing is handled any more: all fetches get `error`. A Ray error is given as a value: Ray raises it."""
        self._down = down = Outcome(error) if isinstance(error, door.CallFailed) else Outcome(None, error=error)
        for fetches in (self._waiting, self._again):
            fetches.end_those(lambda *_: True, lambda: down)
        self._withheld.clear()
        self.durable.shut()


def failure(error: Exception, actor: str) -> door.CallFailed:
    """The error of a handler in the form in which Ray raises it for the result: also as an instance of its class.

    It is a new object, so that nothing must be attached to the error, which may be frozen. An error that says that the
    actor ended is already a Ray error, and is raised as it is.
    """
    if isinstance(error, ActorExited):
        return as_rays(error)
    report = "".join(traceback.format_exception(error))
    if isinstance(error, door.Raised):  # it comes from a task whose result the handler got
        error = error.cause
    return door.Raised("", report, error, proctitle=f"ray::{actor}")
