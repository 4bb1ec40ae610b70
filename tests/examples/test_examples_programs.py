"""The small examples run and say what is true."""

import re

import pytest

import rayshot

pytestmark = pytest.mark.ray


TWICE = ("the first time", "again, over its own snapshots")


@pytest.mark.acceptance("X5")
def test_the_bank_holds_all_its_money_in_the_snapshot_and_after_the_restore(run_program, tmp_path):
    for _ in TWICE:
        *_, photographed, restored = run_program("examples/bank.py", tmp_path)
        assert re.fullmatch(r"\{'alice': \d+, 'bob': \d+\} and \d+ on its way: 200 in all", photographed)
        assert restored == "restored: [100, 100], 200 in all"


@pytest.mark.wide("one more program that runs twice")
@pytest.mark.acceptance("X5")
def test_the_averages_of_the_stream_are_the_same_as_without_the_crash(run_program, tmp_path):
    for _ in TWICE:
        lines = run_program("examples/dwell.py", tmp_path)
        (snapshot,) = [line for line in lines if line.startswith("snapshot:")]
        offset, added_up, on_their_way = (int(number.replace(",", "")) for number in re.findall(r"[\d,]+", snapshot))
        assert offset == added_up + on_their_way
        assert sum(line.startswith("user-") for line in lines) == 5
        assert lines[-1] == "the same as without the crash: True, over 30,000 events"


@pytest.mark.wide("three more programs that run twice")
@pytest.mark.parametrize(
    ("name", "files", "end"),
    [
        ("engine", "['engine.json']", r"over \d+ answers"),
        ("trainer", "['rank0.npz', 'rank1.npz']", r"after \d+ steps"),
        ("sandbox", "['tree.bundle']", "after two deaths"),
    ],
)
def test_what_is_outside_is_the_same_as_without_the_deaths(run_program, tmp_path, name, files, end):
    for _ in TWICE:
        lines = run_program(f"examples/holders/{name}.py", tmp_path / "shots")
        assert any(line.startswith("the snapshot has") and line.endswith(f"and {files}") for line in lines)
        assert any(re.search(f": True, {end}", line) for line in lines)


@pytest.mark.wide("one more program, with a JVM of its own")
@pytest.mark.spark
def test_shops_begin_with_the_prices_that_spark_found_in_a_snapshot_and_earn_more(run_program, tmp_path):
    first, *towns = run_program("examples/round_trip.py", tmp_path)
    assert first == "32 prices were tried, says Ray Data"
    told = dict(line.split(": ", 1) for line in towns)
    assert told == {
        "lagos": "12.50 by Spark; a day earns 625.00, the best before 616.00",
        "osaka": "15.00 by Spark; a day earns 675.00, the best before 627.00",
        "paris": "10.00 by Spark; a day earns 600.00, the best before 600.00",
        "quito": "8.00 by Spark; a day earns 320.00, the best before 320.00",
    }
    prices = rayshot.open(tmp_path).system("next-shops").table("state", attribute="price").to_pandas()
    assert dict(zip(prices.actor, prices.value_double, strict=True)) == pytest.approx(
        {"lagos": 12.5, "osaka": 15.0, "paris": 10.0, "quito": 8.0}
    )
