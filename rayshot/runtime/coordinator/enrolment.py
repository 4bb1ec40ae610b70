"""How a coordinator lets in a program that attaches under a name, and tells it what its earlier processes have told."""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping

from rayshot.errors import NameInUse, NoAnswer, NotReady, SnapshotAborted, SystemRecovering
from rayshot.protocol.cut import Cut
from rayshot.protocol.identity import label_of
from rayshot.runtime.coordinator.clock import TICK_S
from rayshot.runtime.coordinator.driver_watch import KNOWN_S, DriverWatch
from rayshot.runtime.coordinator.life import Life
from rayshot.runtime.coordinator.requests import PendingRequest, SnapshotRequest
from rayshot.runtime.door import door, here, notes
from rayshot.runtime.wire.answers import RECOVERY_WAIT_S
from rayshot.runtime.wire.initiation import some_names
from rayshot.runtime.wire.states import RUNNING

DEATH_S = 60.0
"""The earlier process of a program may wait for a snapshot before it ends, and Ray may be late to see a node gone."""
CLOSE_S = 30.0
"""Seconds for all actors to close the channels of the earlier processes."""
WENT_BACK = "the system went back to a snapshot meanwhile"
Makers = Mapping[str, frozenset[str]]
"""Actor -> the drivers whose first message to it was its creation."""


class Enrolment:
    """See the module. `programs` has the present driver of each label: no other may send.

    `drivers` are those of the system, `life` gives its present life.
    """

    def __init__(self, system: str, drivers: DriverWatch, life: Callable[[], Life]) -> None:
        self._drivers, self._life = drivers, life
        self._current = notes.of_programs(system)
        self.programs = {label: driver.decode() for label, driver in self._current.all().items()}
        self._known_at = drivers.began + (KNOWN_S if here.was_restarted() else 0.0)
        self._turn = threading.Lock()

    def enroll(self, driver: str) -> dict[str, int]:
        """Let a driver be the program of its label, if no other process of that label lives.

        Returns how many tells and calls of earlier processes of that label each actor has for ever. Raises NameInUse;
        NotReady after RECOVERY_WAIT_S seconds; SnapshotAborted or NoAnswer, if this cannot be made durable; SystemDown.
        """
        assert label_of(driver), f"{driver} attaches under no name"
        self._take_turn(driver)
        return self._let_in(driver)

    def _let_in(self, driver: str) -> dict[str, int]:
        deadline = time.monotonic() + RECOVERY_WAIT_S
        while isinstance(told := self._told(self._life(), driver), str):
            if driver not in self._drivers:
                raise NotReady(f"{driver} has died")  # nobody hears this, and another process may take its turn
            if time.monotonic() >= deadline:
                raise NotReady(f"program {label_of(driver)!r} was not let in for {RECOVERY_WAIT_S:g} s: {told}")
            time.sleep(TICK_S)
        return told

    def _take_turn(self, driver: str) -> None:
        """The driver is the present one of its label from now on, as soon as the one before is dead."""
        label, deadline = label_of(driver), time.monotonic() + DEATH_S
        while True:
            now = time.monotonic()
            with self._turn:
                holder = self.programs.get(label, driver)
                free = holder == driver or holder not in self._drivers
                if free and now >= self._known_at and driver in self._drivers:
                    self._current.put(label, driver.encode())
                    self.programs = {**self.programs, label: driver}  # a new one, as others read it without a lock
                    return
            if now >= max(deadline, self._known_at + DEATH_S):
                raise NameInUse(
                    f"a program that lives is attached as {label!r}: end it, or wait until its node is known to be "
                    f"gone; each program needs a name of its own",
                    name=label,
                )
            time.sleep(TICK_S)

    def _told(self, life: Life, driver: str) -> dict[str, int] | str:
        """See `enroll`. A text says why this must be tried again."""
        if life.stopped is not None:
            raise life.stopped.error()
        if life.state != RUNNING:
            return f"the system is {life.state}, and system.status() says what it waits for"
        makers, silent = self._close_earlier(life, driver)
        if silent:
            return f"{some_names(silent)} did not answer for {CLOSE_S:g} s, or died"
        request = PendingRequest(life.runner.config.mode, SnapshotRequest(driver=driver), "request")
        try:
            committed = life.ask(request)
        except (SnapshotAborted, SystemRecovering, NoAnswer):
            if life.rolls_back:
                return WENT_BACK
            raise
        if life.rolls_back or self._life() is not life:
            return WENT_BACK
        if not committed.record.advances:
            return "no snapshot that advances was taken"
        assert request.cut is not None, "who is answered has its cut"
        return _count(request.cut, driver, makers)

    def _close_earlier(self, life: Life, driver: str) -> tuple[Makers, list[str]]:
        """No actor takes anything from earlier processes of this program any more; returns those that say nothing too.

        Actors that join from now on hear it then.
        """
        with life.lock:
            if self.programs.get(label_of(driver)) != driver:
                raise NotReady(f"{driver} has died, and the next process of its program has come")
            hosts = dict(life.members.hosts)
            orders = {name: life.members.order(host, "supersede", driver) for name, host in hosts.items()}
        if orders:
            door.wait([*orders.values()], num_returns=len(orders), timeout=CLOSE_S)
        makers, silent = {}, []
        for name, answer in orders.items():
            found = None
            with contextlib.suppress(door.CallFailed):
                found = door.get(answer, timeout=0)
            if found is not None:
                makers[name] = frozenset(found)
            elif name in life.members.hosts:
                silent.append(name)
        return makers, silent


def _count(cut: Cut, driver: str, makers: Makers) -> dict[str, int]:
    """What the label's other drivers have told the actors in a cut, without creations."""
    told = Counter[str]()
    for channel in cut.channels:
        (sender, receiver), label = channel.channel, label_of(driver)
        if label_of(sender) == label and sender != driver and receiver in cut.records:
            told[receiver] += max(0, channel.sent - (sender in makers.get(receiver, ())))
    return {name: count for name, count in told.items() if count}
