"""The small examples run and say what is true."""

import re

import pytest

pytestmark = pytest.mark.ray


TWICE = ("the first time", "again, over its own snapshots")


@pytest.mark.slow
@pytest.mark.acceptance("X5")
def test_the_bank_holds_all_its_money_in_the_snapshot_and_after_the_restore(run_program, tmp_path):
    for _ in TWICE:
        *_, photographed, restored = run_program("examples/bank.py", tmp_path)
        assert re.fullmatch(r"\{'alice': \d+, 'bob': \d+\} and \d+ on its way: 200 in all", photographed)
        assert restored == "restored: [100, 100], 200 in all"


@pytest.mark.slow
@pytest.mark.acceptance("X5")
def test_the_averages_of_the_stream_are_the_same_as_without_the_crash(run_program, tmp_path):
    for _ in TWICE:
        lines = run_program("examples/dwell.py", tmp_path)
        (snapshot,) = [line for line in lines if line.startswith("snapshot:")]
        offset, added_up, on_their_way = (int(number.replace(",", "")) for number in re.findall(r"[\d,]+", snapshot))
        assert offset == added_up + on_their_way
        assert sum(line.startswith("user-") for line in lines) == 5
        assert lines[-1] == "the same as without the crash: True, over 30,000 events"
