"""What a run of many schedules says about the cases that the protocol must survive.

Each case is known by what was counted when it happened. It failed in a schedule in which it happened and an oracle was
not content: a schedule has many cases at once, and which of them it was its story tells.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.simulate.schedule import Outcome

CASES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "A1": ("random delays on any graph: a cut was judged", ("cuts checked",)),
    "A2": ("a packet or an order came twice", ("packets duplicated", "orders told twice")),
    "A3": ("a packet overtook the one before it", ("batches held back",)),
    "A4": ("a packet or its answer was lost and sent again", ("packets lost", "acknowledgements lost")),
    "A5": ("an actor crashed", ("crashes",)),
    "A6": ("the coordinator crashed, or was thought to", ("coordinators replaced",)),
    "A7": ("two coordinators were alive and raced", ("coordinators racing",)),
    "A8": ("a packet of an old incarnation was dropped", ("batches dropped: stale",)),
    "A9": (
        "an actor joined or left, or a channel opened or closed, in the middle of a snapshot",
        (
            "creations in mid-snapshot",
            "ends in mid-snapshot",
            "channels opened in mid-snapshot",
            "channels closed in mid-snapshot",
        ),
    ),
    "A10": ("a message was in flight across two snapshots that overlapped", ("cuts that share messages in flight",)),
}
"""By the row of the acceptance table: the case, and the counters that know it."""

FAULTS = (
    "crashes",
    "crashes in a restore",
    "rollbacks",
    "coordinators replaced",
    "coordinators racing",
    "commits fenced",
    "drivers died",
    "packets lost",
    "acknowledgements lost",
    "packets duplicated",
    "orders told twice",
    "batches held back",
    "batches dropped: stale",
    "ends of snapshots lost",
    "deadlines passed",
    "alignments timed out",
    "aborts: capture_failed",
    "aborts: store_unavailable",
    "aborts: requested",
)
"""The counters of what was done to the systems, in the order in which they are told."""


@dataclass(slots=True)
class Acceptance:
    """The cases of many schedules.

    `modes` counts the schedules that committed snapshots of a mode, `pairs` those on one topology; `refused` how often
    markers alone were not let begin from where they would not have reached everybody.
    """

    schedules: Counter[str] = field(default_factory=Counter)
    happened: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    modes: Counter[str] = field(default_factory=Counter)
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: int = 0
    commits: int = 0
    replayed: int = 0
    differed: int = 0

    def add(self, outcome: Outcome) -> None:
        """Count one schedule."""
        counts, failed = outcome.counts, outcome.failure is not None
        for row, (_, names) in CASES.items():
            if often := sum(counts[name] for name in names if name in counts):
                self.schedules[row] += 1
                self.happened[row] += often
                self.failed[row] += failed
        modes = [name.removeprefix("commits: ") for name in counts if name.startswith("commits: ")]
        self.modes.update(modes)
        self.pairs.update((mode, outcome.settings.topology) for mode in modes)
        self.refused += counts["initiators refused"]
        self.commits += counts["commits"]
        self.failed["A13"] += failed

    def replay(self, first: Outcome, second: Outcome) -> None:
        """Compare a schedule with its replay: the same choices, counts and verdict."""
        self.replayed += 1
        alike = (first.choices, first.counts, str(first.failure)) == (
            second.choices,
            second.counts,
            str(second.failure),
        )
        self.differed += not alike

    def rows(self, modes: Iterable[str], topologies: Iterable[str]) -> dict[str, dict[str, Any]]:
        """By row: the case, in how many schedules it happened, how often, and how many of these schedules failed."""
        rows: dict[str, dict[str, Any]] = {
            row: {
                "case": case,
                "schedules": self.schedules[row],
                "happened": self.happened[row],
                "failed": self.failed[row],
            }
            for row, (case, _) in CASES.items()
        }
        modes = list(modes)
        wanted = [(mode, topology) for mode in modes for topology in topologies]
        rows["A11"] = {"case": "known wrong versions are seen", "tests": "tests/simulation/test_simulation_mutants.py"}
        rows["A12"] = {
            "case": "a list of choices was run again, and compared to the bit",
            "schedules": self.replayed,
            "failed": self.differed,
        }
        rows["A13"] = {
            "case": "every mode on every topology: a snapshot was committed",
            "happened": self.commits,
            "schedules of modes": {mode: self.modes[mode] for mode in modes},
            "refused, the unreachable named": self.refused,
            "pairs": sum(self.pairs[pair] > 0 for pair in wanted),
            "pairs wanted": len(wanted),
            "fewest schedules of a pair": min((self.pairs[pair] for pair in wanted), default=0),
            "failed": self.failed["A13"],
        }
        return rows
