"""How long each file of tests takes: where several processes share the tests, the longest files go first.

`make durations` writes the table anew, from the report of the last `make test`.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from xml.etree import ElementTree as ET

TABLE = Path(__file__).with_suffix(".json")
"""Seconds by file, which is named as in the id of a test."""


def longest_first(units: Mapping[str, str], seconds: Mapping[str, float]) -> list[str]:
    """The units, the longest first. `units` has the unit of each file, and `seconds` what the files take.

    A file that nobody has measured counts as an average one.
    """
    average = fmean(seconds.values())
    total: dict[str, float] = defaultdict(float)
    for file, unit in units.items():
        total[unit] += seconds.get(file, average)
    return sorted(total, key=lambda unit: -total[unit])


def recorded() -> dict[str, float]:
    """The table."""
    found = json.loads(TABLE.read_text())
    assert isinstance(found, dict)
    return found


def measured(report: Path) -> dict[str, float]:
    """Seconds by file in a report of pytest: for tests, and for what is set up and taken down around them."""
    seconds: dict[str, float] = defaultdict(float)
    for case in ET.parse(report).iter("testcase"):
        seconds[file_of(case.get("classname", ""))] += float(case.get("time", 0.0))
    return seconds


def file_of(module: str) -> str:
    """The file of a module; pytest names a class of the module behind it."""
    parts = module.split(".")
    last = next(place for place, part in enumerate(parts) if part.startswith("test_"))
    return f"{'/'.join(parts[: last + 1])}.py"


if __name__ == "__main__":
    table = {file: round(seconds, 1) for file, seconds in sorted(measured(Path(sys.argv[1])).items())}
    TABLE.write_text(f"{json.dumps(table, indent=1)}\n")
