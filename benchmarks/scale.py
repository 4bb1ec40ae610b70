"""How much a coordinator does in a system of many actors: the real runtime on the fake, its calls counted, not timed.

A call of a function counts that is made in rayshot's code on a thread of the coordinator: one of rayshot, of Python or
of another library. What these do below counts for nothing. Time passes only where nothing else can happen, so what is
done at its pace, as for a heartbeat, hardly counts.
"""

import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, cast

import rayshot
from benchmarks.report import Figure, Report, Series, Target
from rayshot.runtime.door import door
from rayshot.runtime.door.naming import coordinator_name
from rayshot.runtime.wire.states import RUNNING
from tests.fake.door import fake
from tests.fake.system import begin

SIZES = (10, 30, 100, 300, 1_000)
SIZES_SHORT = (10, 20)
ACTORS_ON_A_NODE = 10
SNAPSHOT, RECOVERY, JOIN = "a snapshot", "a recovery", "a join"
COUNTED = coordinator_name("bank")
_RAYSHOT = f"{Path(rayshot.__file__).parent}{os.sep}"

Work = Mapping[str, Sequence[int]]
"""The calls for each deed, one number for each size."""


@rayshot.actor(capture="inline")
class Link:
    """One in a ring: it counts what it was told, and tells the next one."""

    def __init__(self) -> None:
        self.told = 0

    def tell(self, following: Any) -> None:
        """Be told, and tell the next one once."""
        self.told += 1
        if following is not None:
            following.tell.tell(None)

    def count(self) -> int:
        """How often it was told."""
        return self.told


def run(*, short: bool) -> Report:
    """Count for all sizes."""
    sizes = SIZES_SHORT if short else SIZES
    return report_of(count(sizes), sizes)


def count(sizes: Sequence[int]) -> Work:
    """The work for one snapshot, one recovery and one join in systems of these sizes."""
    found: dict[str, list[int]] = {SNAPSHOT: [], RECOVERY: [], JOIN: []}
    for size in sizes:
        for deed, calls in _calls_in(size).items():
            found[deed].append(calls)
    return found


def _calls_in(size: int) -> dict[str, int]:
    counter, found, kind = Counter(), dict[str, int](), cast("Any", Link)
    with fake(nodes=max(1, size // ACTORS_ON_A_NODE)) as cluster, counter.following(cluster):
        system = begin()
        links = [kind.options(name=f"link-{number}").remote() for number in range(size)]
        for link, following in zip(links, [*links[1:], links[0]], strict=True):
            link.tell.tell(following)
        cluster.until(lambda: _told(links) == 2 * size)
        with counter.counting(found, SNAPSHOT):
            system.snapshot()
            cluster.settle()
        victim = cluster.named[f"rayshot/bank/1/actor/link-{size // 2}"]
        with counter.counting(found, RECOVERY):
            cluster.die(victim)
            cluster.until(lambda: _runs_in(cluster, 2))
            cluster.settle()
        assert _told(links) == 2 * size
        with counter.counting(found, JOIN):
            door.get(kind.options(name="one-more").remote().count.remote())
            cluster.settle()
        system.shutdown()
    return found


def _runs_in(cluster: Any, life: int) -> bool:
    present = cluster.named[COUNTED].run.instance._life  # noqa: SLF001 - to ask it would be work
    return bool(present.incarnation == life and present.state == RUNNING)


def _told(links: Sequence[Any]) -> int:
    return sum(door.get([link.count.remote() for link in links]))


class Counter:
    """Counts the calls on the threads of a coordinator while it is told to."""

    def __init__(self) -> None:
        self._calls, self._counts = 0, False
        self._ours: dict[CodeType, bool] = {}
        self._schedule: Any = None

    @contextmanager
    def following(self, cluster: Any) -> Iterator[None]:
        """Follow the threads that the coordinator of this cluster begins."""
        self._schedule = cluster.schedule
        cluster.begins_thread = self._begins
        try:
            yield
        finally:
            sys.setprofile(None)

    def _begins(self, thread: Any) -> None:
        if thread.run.process.name == COUNTED:
            sys.setprofile(self._note)

    @contextmanager
    def counting(self, found: dict[str, int], deed: str) -> Iterator[None]:
        """Count what is called meanwhile."""
        self._calls, self._counts = 0, True
        yield
        self._counts = False
        found[deed] = self._calls

    def _note(self, frame: FrameType, event: str, _arg: object) -> None:
        if not self._counts or event not in ("call", "c_call"):
            return
        caller = frame if event == "c_call" else frame.f_back
        if caller is not None and self._is_ours(caller.f_code) and self._schedule.current.run.process.name == COUNTED:
            self._calls += 1

    def _is_ours(self, code: CodeType) -> bool:
        found = self._ours.get(code)
        if found is None:
            found = self._ours[code] = code.co_filename.startswith(_RAYSHOT)
        return found


def report_of(work: Work, sizes: Sequence[int]) -> Report:
    """What was counted, and whether it is linear."""
    figures = [
        Figure(f"{deed}: steepest slope", max(_slopes(work[deed], sizes)), "", target=Target("<=", 1.05))
        for deed in (SNAPSHOT, RECOVERY)
    ]
    figures.append(
        Figure(f"{JOIN}: most against fewest", max(work[JOIN]) / min(work[JOIN]), "x", target=Target("<=", 1.1))
    )
    if {100, 1_000} <= {*sizes}:
        small, large = (work[SNAPSHOT][sizes.index(size)] for size in (100, 1_000))
        name = f"{SNAPSHOT}: 1,000 actors on 100 nodes against 100 on 10"
        figures.append(Figure(name, large / small, "x", target=Target("<=", 11)))
    return Report(
        "scale",
        "How much does a coordinator do for many actors?",
        {"sizes": list(sizes), "actors_on_a_node": ACTORS_ON_A_NODE},
        (
            Series("actors", "actors", tuple(sizes)),
            *(Series(deed, "calls", tuple(calls)) for deed, calls in work.items()),
        ),
        tuple(figures),
    )


def _slopes(calls: Sequence[int], sizes: Sequence[int]) -> list[float]:
    """The exponents with which work grows from one size to the next; linear is 1."""
    return [
        math.log(more / fewer) / math.log(larger / smaller)
        for (fewer, more), (smaller, larger) in zip(pairwise(calls), pairwise(sizes), strict=True)
    ]


def table_of(work: Work, sizes: Sequence[int]) -> list[str]:
    """The lines of the table in docs/benchmarks/scale.md."""
    lines = ["| actors | nodes | a snapshot | for each actor | a recovery | for each actor | a join |"]
    lines.append("| ---: " * 7 + "|")
    for size, snapshot, recovery, join in zip(sizes, work[SNAPSHOT], work[RECOVERY], work[JOIN], strict=True):
        nodes = max(1, size // ACTORS_ON_A_NODE)
        row = (size, nodes, snapshot, round(snapshot / size), recovery, round(recovery / size), join)
        lines.append(f"| {' | '.join(f'{number:,}' for number in row)} |")
    return lines
