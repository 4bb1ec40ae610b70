"""What `make test` leaves to `make test-all`: cases beyond the first ones of their kind, and slow tests.

`@pytest.mark.wide("why")` leaves out a test, or all of a module; `@pytest.mark.sampled("why", keeps=2)` leaves out all
cases of a test but the first two. The page tests/README.md is made from these marks.
"""

import zlib
from collections import Counter

import pytest

PART_OF = "--part-of"
"""An option that conftest.py declares: the id of a commit."""
PARTS = 10


@pytest.hookimpl(tryfirst=True)  # before pytest reads `-m`
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seen: Counter[str] = Counter()
    for item in items:
        if (sampled := item.get_closest_marker("sampled")) is not None:
            test = item.nodeid.partition("[")[0]
            seen[test] += 1
            if seen[test] > sampled.kwargs["keeps"]:
                item.add_marker(pytest.mark.wide(*sampled.args))
    if (commit := config.getoption(PART_OF, None)) is not None:
        items[:] = [item for item in items if is_in_part(item.nodeid, commit)]


def is_in_part(nodeid: str, commit: str) -> bool:
    """Whether a test is in the tenth that a commit chooses; the eight digits at its start count."""
    return zlib.crc32(nodeid.encode()) % PARTS == int(commit[:8], 16) % PARTS
