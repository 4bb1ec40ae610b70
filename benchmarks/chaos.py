"""Ten minutes in which something fails every 15 seconds: nothing that was told is lost, doubled or out of order.

A program tells accounts to move money, and tells each of them numbered messages; a plain Ray actor beside it tells
numbers too, and is killed as well. Flights are replayed meanwhile, which no program tells. Whatever dies, the system
goes back to its last snapshot by itself. In the end the money must be what it was, each account must have heard the
numbers of each driver in order, without a gap, and each airport must have counted the flights of the table.
"""

import contextlib
import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray

import rayshot
from benchmarks.cluster import fresh_cluster
from benchmarks.disk import Disk, small_disk
from benchmarks.flown import Flights
from benchmarks.kills import asked, coordinator_pid, living, pid_of
from benchmarks.report import Figure, NotRun, Report, Series, Target
from benchmarks.surroundings import Surroundings, several_nodes
from rayshot import FailureConfig, SnapshotConfig
from rayshot.errors import SystemDown

ACCOUNTS, MONEY = 8, 1_000
TOLD_A_SECOND = 3_000
TOLD, KILLED_AT, CAUGHT_UP = "told in each second", "killed at", "kill to caught up"
CAUGHT_UP_S = 240.0
NONE_LOST = Target("<=", 0)
CAUGHT_P50, CAUGHT_P99 = Target("<=", 4.0), Target("<=", 10.0)


class Account:
    """Moves money, and keeps for each teller how many of its numbers it heard in order, and what was wrong."""

    def __init__(self) -> None:
        self.balance = MONEY
        self.heard: dict[str, int] = {}
        self.wrong: list[tuple[str, int, int]] = []

    def pay(self, to: Any, amount: int) -> None:
        """Give money to another account."""
        self.balance -= amount
        to.take.tell(amount)

    def take(self, amount: int) -> None:
        """Get money."""
        self.balance += amount

    def hear(self, teller: str, number: int) -> None:
        """Hear the next number of a teller."""
        expected = self.heard.get(teller, 0)
        if number != expected:
            self.wrong.append((teller, expected, number))
        self.heard[teller] = number + 1

    def read(self) -> tuple[int, dict[str, int], list[tuple[str, int, int]]]:
        """The money, the numbers heard, and what was wrong."""
        return self.balance, self.heard, self.wrong


class Teller:
    """A plain Ray actor that tells all accounts its numbers, as fast as asked."""

    def __init__(self, name: str, accounts: Sequence[Any]) -> None:
        self._name, self._accounts, self._told = name, accounts, 0

    def tell(self, count: int) -> int:
        """Tell each account the next numbers. Returns how many each was told."""
        for _ in range(count):
            for account in self._accounts:
                account.hear.tell(self._name, self._told)
            self._told += 1
        return self._told


@dataclass
class Chaos:
    """One run. `disk` and `surroundings` are what else can fail, if there is anything."""

    system: rayshot.System
    accounts: Sequence[Any]
    flights: Flights
    rng: random.Random
    disk: Disk | None = None
    surroundings: Surroundings | None = None
    told: int = 0
    caught_s: list[float] = field(default_factory=list)
    killed: list[str] = field(default_factory=list)
    killed_at: list[float] = field(default_factory=list)
    """Seconds from the beginning, as many as `killed`."""
    rollbacks: dict[int, float] = field(default_factory=dict)
    """Life -> the seconds of the rollback that began it, as far as a coordinator lived to say so."""
    _began: float = field(default_factory=time.monotonic)
    _told_in: Counter[int] = field(default_factory=Counter)
    _tellers: int = 0
    _teller: Any = None

    def tell(self, seconds: float) -> None:
        """Tell money and numbers for so long."""
        end = time.monotonic() + seconds
        while (began := time.monotonic()) < end:
            for _ in range(TOLD_A_SECOND // 20 // (2 * ACCOUNTS)):
                for account in self.accounts:
                    account.hear.tell("main", self.told)
                    account.pay.tell(self.rng.choice(self.accounts), self.rng.randint(1, 9))
                self.told += 1
                self._told_in[int(time.monotonic() - self._began)] += 2 * len(self.accounts)
            if self._teller is not None:
                self._teller.tell.remote(5)
            time.sleep(max(0.0, 0.05 - (time.monotonic() - began)))

    @property
    def rate(self) -> tuple[float, ...]:
        """The messages told in each second from the beginning."""
        return tuple(float(self._told_in[second]) for second in range(max(self._told_in, default=0) + 1))

    def await_caught_up(self) -> float:
        """Seconds until every account has handled all that was told until now."""
        began, last = time.monotonic(), self.told
        while time.monotonic() - began < CAUGHT_UP_S:
            with contextlib.suppress(ray.exceptions.ActorDiedError):
                found = ray.get([account.read.remote() for account in self.accounts], timeout=CAUGHT_UP_S)
                if all(heard.get("main", 0) >= last for _, heard, _ in found):
                    return time.monotonic() - began
            time.sleep(0.05)
        raise TimeoutError(f"not caught up after {CAUGHT_UP_S:g} s: {self.system.status()}")

    def begin_teller(self) -> None:
        """A new plain Ray actor tells."""
        self._tellers += 1
        self._teller = ray.remote(num_cpus=0)(Teller).remote(f"teller{self._tellers}", list(self.accounts))

    def fail(self, fault: str) -> None:
        """SIGKILL for the process or processes of that name, or another fault."""
        self.killed.append(fault)
        self.killed_at.append(time.monotonic() - self._began)
        if "storage" in fault:
            assert self.surroundings is not None
            self.surroundings.silence_storage()
        if "disk" in fault:
            assert self.disk is not None
            self.disk.fill()
        match fault:
            case "driver":
                ray.kill(self._teller)
                self.begin_teller()
            case "node" | "node, and calls":
                assert self.surroundings is not None
                self._note_rollbacks()
                self.surroundings.replace_node(loses_calls="calls" in fault)
            case "frozen actor":
                os.kill(self._pids(1)[0], signal.SIGSTOP)
            case "silent storage" | "full disk":
                pass
            case _:
                self._kill(fault)

    def _pids(self, count: int) -> list[int]:
        found = living(self.system)
        return [found[name] for name in self.rng.sample(sorted(found), count)]

    def _kill(self, fault: str) -> None:
        pids = self._pids(2 if "two" in fault else fault.count("actor"))
        if "coordinator" in fault:
            pids.append(coordinator_pid(self.system))
        if fault == "vault":
            coordinator = self.system._identity.coordinator  # noqa: SLF001 - who else knows its vaults
            for vault in asked(lambda: coordinator.__ray_call__.remote(_vaults)):
                with contextlib.suppress(ray.exceptions.ActorDiedError, ray.exceptions.ActorUnschedulableError):
                    pids.append(pid_of(vault))  # unless its node was killed
        self._note_rollbacks()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    def _note_rollbacks(self) -> None:
        """A new coordinator does not know those of the one before."""
        for one in self.system.status().recoveries:
            if one.phases and one.life not in self.rollbacks:
                self.rollbacks[one.life] = one.seconds
                steps = ", ".join(f"{phase} {seconds:.2f}" for phase, seconds in one.phases.items())
                print(f"        life {one.life}: {one.seconds:.2f} s ({steps}); {one.detail}", flush=True)

    def run(self, seconds: float, every_s: float, faults: Sequence[str]) -> None:
        """Tell for so long, and let something fail every so many seconds; each fault once at least."""
        end, k = time.monotonic() + seconds, 0
        self.begin_teller()
        self.tell(every_s / 2)
        while time.monotonic() < end or k < len(set(faults)):
            fault = faults[k % len(faults)]
            self.fail(fault)
            took_s = self.await_caught_up()
            print(f"{self.killed_at[-1]:5.0f} s: {fault}: caught up after {took_s:.1f} s", flush=True)
            if fault in KILLS_OF_ACTORS and not (self.surroundings and self.surroundings.loses_calls):
                self.caught_s.append(took_s)
            self.tell(every_s)
            k += 1
        self.await_caught_up()

    def judge(self) -> dict[str, int]:
        """What is wrong: numbers lost, doubled or out of order; money and flights that are missing or too many."""
        self._teller = None
        self.await_caught_up()
        self._note_rollbacks()
        total = ACCOUNTS * MONEY
        end = time.monotonic() + CAUGHT_UP_S
        while time.monotonic() < end:  # what is on its way between accounts arrives
            found = ray.get([account.read.remote() for account in self.accounts])
            if sum(balance for balance, _, _ in found) == total:
                break
            time.sleep(0.1)
        wrong = [one for _, _, several in found for one in several]
        return {
            "lost": sum(number > expected for _, expected, number in wrong)
            + sum(heard.get("main", 0) < self.told for _, heard, _ in found),
            "doubled or out of order": sum(number < expected for _, expected, number in wrong),
            "money": abs(sum(balance for balance, _, _ in found) - total),
            "flights": self.flights.await_landed(CAUGHT_UP_S),
        }


FAULTS = ("actor", "coordinator", "two actors", "driver", "actor and coordinator", "vault")
KILLS_OF_ACTORS = ("actor", "two actors", "actor and coordinator")
"""What the seconds until all has caught up are given for, while no calls are lost: others wait for Ray, or for the
storage.
"""
IN_SURROUNDINGS = ("node", "silent storage", "actor, silent storage")
OF_DISK = ("full disk", "actor, full disk")


def faults_of(disk: Disk | None, surroundings: Surroundings | None) -> tuple[str, ...]:
    """What can fail here, in turn."""
    again = FAULTS + (OF_DISK if disk else ()) + (IN_SURROUNDINGS if surroundings else ())
    return (*again, "node, and calls", *again, "frozen actor") if surroundings else again


def _vaults(coordinator: Any) -> list[Any]:
    return list(coordinator._life.members._vaults.values())  # noqa: SLF001 - who else knows them


def torment(
    system: rayshot.System,
    seconds: float,
    every_s: float,
    disk: Disk | None = None,
    surroundings: Surroundings | None = None,
    seed: int = 0,
) -> tuple[Chaos, dict[str, int]]:
    """Run the workload on a system that heals itself. Returns the run, and what was wrong in the end."""
    account = rayshot.actor(capture="inline", scheduling_strategy="SPREAD")(Account)
    accounts = [account.options(name=f"account{k}").remote() for k in range(ACCOUNTS)]
    ray.get([one.read.remote() for one in accounts])
    with tempfile.TemporaryDirectory(prefix="rayshot-chaos-") as folder:
        flights = Flights(system, Path(folder), seconds)
        chaos = Chaos(system, accounts, flights, random.Random(seed), disk, surroundings)
        chaos.run(seconds, every_s, faults_of(disk, surroundings))
        return chaos, chaos.judge()


def run(*, short: bool) -> Report:
    """Ten minutes on three nodes with snapshots in S3, or each fault once on one with snapshots in a folder."""
    seconds, every_s = (15.0, 1.0) if short else (600.0, 15.0)
    with contextlib.ExitStack() as stack:
        disk, around, without = None, None, ""
        storage: str | Path
        if short:
            storage = stack.enter_context(fresh_cluster())
            try:
                disk = stack.enter_context(small_disk())
                storage = disk.folder / "shots"
            except NotRun as reason:
                without = str(reason)
        else:
            around = stack.enter_context(several_nodes())
            storage = around.storage
        system = rayshot.init(
            "chaos",
            storage=storage,
            failure=FailureConfig(backoff_s=0.0),
            snapshots=SnapshotConfig(interval_s=1.0, num_to_keep=3, timeout_s=30.0),
        )
        try:
            chaos, wrong = torment(system, seconds, every_s, disk, around)
        finally:
            with contextlib.suppress(SystemDown):
                system.shutdown()
    caught, recoveries = sorted(chaos.caught_s), tuple(chaos.rollbacks.values())
    return Report(
        "chaos",
        f"What is lost if something fails every {every_s:g} s for {seconds:g} s?",
        {"seconds": seconds, "every_s": every_s, "accounts": ACCOUNTS, "killed": chaos.killed, "left out": without},
        (
            Series(TOLD, "1/s", chaos.rate),
            Series(KILLED_AT, "s", tuple(chaos.killed_at)),
            Series(CAUGHT_UP, "s", tuple(chaos.caught_s)),
            Series("rollback", "s", recoveries),
        ),
        (
            *(Figure(name, float(count), "", target=NONE_LOST) for name, count in wrong.items()),
            Figure("messages told to be counted", float(chaos.told * ACCOUNTS), ""),
            Figure.median_of("kill to caught up, p50", caught, "s", CAUGHT_P50),
            Figure("kill to caught up, the longest", caught[-1], "s", target=CAUGHT_P99),
            Figure.median_of("rollback alone, p50", recoveries, "s"),
        ),
    )
