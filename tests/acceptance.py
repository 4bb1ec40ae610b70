"""Counts the cases of the acceptance table: `make acceptance` prints them by id and fails below their number.

A test says which rows of the table it belongs to with `@pytest.mark.acceptance("D1")`; several ids where one case
proves several rows. Each test is one case; one that loops over many calls `cases.held()` at the end of each. A row
without a test, a skipped test and a failed one are all cases that do not hold.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

GROUPS = {
    "A": "programs whose actors ask",
    "B": "faults survived",
    "D": "faults survived",
    "E": "faults survived",
    "G": "bad inputs refused",
    "C": "runs with 0 lost, 0 doubled, 0 out of order",
    "L": "runs with 0 lost, 0 doubled, 0 out of order",
    "X": "defects that strangers found, mended",
    "O": "ordinary Ray programs",
    "S": "states that come back as they were",
    "P": "deaths, pauses and ends",
    "R": "drills",
    "W": "deaths and failures with something outside",
}
GAPS = {"B11", "G17", "G19", "G21", "G23"}
"""Ids that the table does not use."""

ROWS = [
    row
    for letter, last in (
        ("A", 8),
        ("B", 15),
        ("C", 7),
        ("D", 11),
        ("E", 7),
        ("G", 28),
        ("L", 7),
        ("X", 13),
        ("O", 8),
        ("S", 11),
        ("P", 7),
        ("R", 1),
        ("W", 7),
    )
    for row in (f"{letter}{number}" for number in range(1, last + 1))
    if row not in GAPS
]


@dataclass
class Cases:
    """How many cases inside one test held, where a test loops over them."""

    count: int = 0

    def held(self) -> None:
        """Count one more."""
        self.count += 1


@dataclass
class Score:
    """Of `tried` cases `held` came to what they must."""

    held: int = 0
    tried: int = 0

    def add(self, held: int, tried: int) -> None:
        self.held += held
        self.tried += tried

    @property
    def full(self) -> bool:
        return self.held == self.tried > 0

    def __str__(self) -> str:
        return f"{self.held:,}/{self.tried:,}" if self.tried else "no test"


_cases = pytest.StashKey[Cases]()
COUNTED = "acceptance"
"""The property of a report that says its rows, and how many of its cases held and were tried."""


class AcceptancePlugin:
    """Registered by tests/conftest.py; silent unless the tests are chosen with `-m acceptance`."""

    def __init__(self) -> None:
        self.rows: dict[str, Score] = {row: Score() for row in ROWS}
        self.groups: dict[str, Score] = defaultdict(Score)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for row in rows_of(item):
                assert row in self.rows, f"{item.nodeid}: the acceptance table has no row {row!r}"

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        report = yield
        finished = report.when == "call" or not report.passed  # a set-up or tear-down that fails ends it too
        if finished and (rows := rows_of(item)):
            held = item.stash.get(_cases, Cases()).count
            tried = max(held, 1) if report.passed else held + 1
            report.user_properties.append((COUNTED, (rows, tried if report.passed else held, tried)))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count where the reports of all processes arrive that share the tests."""
        for name, value in report.user_properties:
            if name == COUNTED:
                rows, held, tried = value
                groups = {GROUPS[row[0]] for row in rows}
                for score in (*(self.rows[row] for row in rows), *(self.groups[group] for group in groups)):
                    score.add(held, tried)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if is_acceptance_run(session.config) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = 0 if all(score.full for score in self.rows.values()) else pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        if not is_acceptance_run(config):
            return
        terminalreporter.section("acceptance")
        for row, score in self.rows.items():
            terminalreporter.write_line(f"{row:4} {score!s:>14}{'' if score.full else '   <- not held'}")
        for group in dict.fromkeys(GROUPS.values()):
            terminalreporter.write_line(f"{group} {self.groups[group]}", bold=True)


def rows_of(item: pytest.Item) -> list[str]:
    """The rows of the table that a test belongs to."""
    return list(dict.fromkeys(row for mark in item.iter_markers("acceptance") for row in mark.args))


def is_acceptance_run(config: pytest.Config) -> bool:
    """Whether the cases are to be counted, at their full numbers."""
    return bool(config.getoption("markexpr") == "acceptance")


@pytest.fixture
def cases(request: pytest.FixtureRequest) -> Cases:
    """For a test that holds many cases: `cases.held()` after each."""
    return request.node.stash.setdefault(_cases, Cases())


@pytest.fixture
def in_full(request: pytest.FixtureRequest) -> bool:
    """Whether this is `make acceptance`, where races and loops run at their full numbers."""
    return is_acceptance_run(request.config)
