"""Where several processes share the tests, the longest files go first, by what they took the last time."""

import subprocess
import sys

from tests.durations import longest_first, measured, recorded
from tests.processes import ROOT

REPORT = """<testsuites><testsuite>
<testcase classname="tests.store.test_local.TestLocal" name="test_one" time="0.25"/>
<testcase classname="tests.store.test_local" name="test_two[a.b]" time="1.5"/>
<testcase classname="tests.test_other" name="test_one" time="3"><failure/></testcase>
</testsuite></testsuites>
"""


def test_a_file_takes_as_long_as_its_tests(tmp_path):
    (tmp_path / "report.xml").write_text(REPORT)
    assert measured(tmp_path / "report.xml") == {"tests/store/test_local.py": 1.75, "tests/test_other.py": 3.0}


def test_files_that_share_a_fixture_count_together_and_new_ones_as_average():
    units = {"a.py": "a.py", "b.py": "spark", "new.py": "new.py", "c.py": "c.py", "d.py": "spark"}
    seconds = {"a.py": 5.0, "b.py": 4.0, "c.py": 1.0, "d.py": 2.0}
    assert longest_first(units, seconds) == ["spark", "a.py", "new.py", "c.py"]


def test_the_longest_file_is_collected_first():
    took = {file: took for file, took in recorded().items() if file.startswith("tests/protocol/")}
    files = [file for file in sorted(took, key=took.__getitem__) if (ROOT / file).exists()]
    files = [files[0], files[-1]]
    command = [sys.executable, "-m", "pytest", "--collect-only", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    collected = dict.fromkeys(line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line)
    assert [*collected] == files[::-1]
