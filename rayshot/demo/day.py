"""A day of the bank: it opens, takes snapshots at work, loses a process, goes back to a snapshot, and closes."""

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import rayshot
from rayshot.demo import SYSTEM
from rayshot.demo.bank import ACCOUNTS, INSPECTOR, Accounts, open_accounts, open_shop, order, send_inspector, shop
from rayshot.errors import SnapshotsExist
from rayshot.runtime.door import door
from rayshot.runtime.door.cluster import own_cluster
from rayshot.runtime.wire.recovery_report import RecoveryReport

CPUS = 8
INTERVAL_S, LOOK_S = 0.5, 0.1
MORNING_S, NOON_S, AFTERNOON_S = 1.5, 1.0, 1.0
VICTIM = "carol"
LUNCH, CLOSING = "before lunch", "closing time"


class Money(NamedTuple):
    """Where the money is in one cut."""

    held: int
    moving: int


def live_through(storage: str, tell: Callable[[str], object]) -> None:
    """Run the day, on a Ray cluster of its own, which ends with it.

    Args:
        storage: where the snapshots go. If it holds an earlier day, the bank goes on from there.
        tell: called with a text that says what happens next.
    """
    tell("a Ray cluster of its own starts")
    with own_cluster(CPUS):
        store = open_shop()
        tell("the bank opens: four accounts, an inspector, and two customers who order transfers")
        with _begin(storage) as system:
            accounts = _accounts(system)
            door.get(store.is_open.remote())
            _work(system, accounts, store, tell)
            tell(f"it is back by itself, from snapshot {_recovery(system).snapshot}, with what was in flight")
            _finish(system, accounts, store)
            tell(f"it has closed with a savepoint: {CLOSING!r}")


def money(snapshot: rayshot.Snapshot) -> Money:
    """The sum of the balances, and the money in flight."""
    states = snapshot.states()
    messages = (message for channel in snapshot.channels.values() for message in channel.messages)
    return Money(
        sum(states[name]["balance"] for name in ACCOUNTS if name in states),
        sum(message.args[0] for message in messages if message.method == "deposit"),
    )


def sums(snapshot: rayshot.Snapshot) -> list[int]:
    """The inspector's count in this snapshot."""
    found: list[int] = snapshot.state(INSPECTOR)["sums"]
    return found


def _begin(storage: str) -> rayshot.System:
    """Open the bank, or restore it as it closed on an earlier day."""
    try:
        system = rayshot.init(SYSTEM, storage=storage, snapshots=rayshot.SnapshotConfig(), trace="full")
    except SnapshotsExist:
        return _resume(storage)
    open_accounts(system)
    return system


def _resume(storage: str) -> rayshot.System:
    quiet = rayshot.SnapshotConfig()
    return rayshot.resume(SYSTEM, storage=storage, begin=open_accounts, snapshots=quiet, trace="full")


def _accounts(system: rayshot.System) -> Accounts:
    return {name: system.get_actor(name) for name in ACCOUNTS}


def _work(system: rayshot.System, accounts: Accounts, store: Any, tell: Callable[[str], object]) -> None:
    """Work, and kill a process."""
    tell(f"a snapshot each {INTERVAL_S:g} s, while all of them work")
    system.configure(rayshot.SnapshotConfig(interval_s=INTERVAL_S))
    shopping = store.shop.remote(accounts, MORNING_S + NOON_S + AFTERNOON_S, seed=1)
    shop(accounts, MORNING_S, seed=2)
    send_inspector(system, accounts)
    order(accounts, random.Random(3))  # noqa: S311 - see `open_accounts`
    system.savepoint(LUNCH)
    tell(f"a savepoint: {LUNCH!r}")
    shop(accounts, NOON_S, seed=4)
    pid = system.status().actors[VICTIM].pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    tell(f"the process of {VICTIM} is killed: nobody repairs it")
    with contextlib.suppress(door.Died):  # if a call was at the victim
        door.get(shopping)


def _recovery(system: rayshot.System) -> RecoveryReport:
    while not (found := system.status().recoveries):
        time.sleep(LOOK_S)
    return found[-1]


def _finish(system: rayshot.System, accounts: Accounts, store: Any) -> None:
    """Work until closing time."""
    shopping = store.shop.remote(accounts, AFTERNOON_S, seed=5)
    send_inspector(system, accounts)
    shop(accounts, AFTERNOON_S / 2, seed=6)
    order(accounts, random.Random(7))  # noqa: S311
    system.snapshot()
    door.get(shopping)
    order(accounts, random.Random(8))  # noqa: S311
    system.stop_with_savepoint(CLOSING)
