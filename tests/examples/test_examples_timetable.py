"""The flights are read as they are in the package, each of them once."""

from collections import Counter

import pytest

from examples.flights.demo import MADE_BY_DEMO, _own_folder
from examples.flights.timetable import busiest_airports, read_departures, read_flights, read_places, write_flights

ROWS = 2_000


@pytest.fixture(scope="module")
def flights(tmp_path_factory):
    path = tmp_path_factory.mktemp("timetable") / "flights.csv"
    write_flights(path, ROWS)
    return path


def test_the_file_holds_the_header_and_the_rows_asked_for(flights):
    lines = flights.read_text().splitlines()
    assert lines[0].startswith("year,month,day,dep_time")
    assert len(lines) == ROWS + 1


def test_cancelled_flights_are_left_out(flights):
    cancelled = sum(line.split(",")[3] == "NA" for line in flights.read_text().splitlines())
    assert cancelled > 0
    assert len(read_flights(flights)) == ROWS - cancelled


def test_flights_come_in_the_order_in_which_they_should_have_departed(flights):
    times = [(row["month"], row["day"], row["sched_dep_time"]) for row in read_flights(flights).to_pylist()]
    assert times == sorted(times)


def test_the_shares_of_the_schedules_are_the_whole_without_overlap(flights):
    whole = read_departures(str(flights), 0, 1)
    shares = [departure for share in range(3) for departure in read_departures(str(flights), share, 3)]
    assert Counter(shares) == Counter(whole)


def test_delays_that_nobody_wrote_down_are_none_and_every_flight_takes_time(flights):
    departures = read_departures(str(flights), 0, 1)
    assert any(departure.arrival_delay_min is None for departure in departures)
    assert all(departure.minutes > 0 for departure in departures)


def test_every_flight_leaves_from_one_of_the_busiest_airports_and_every_place_is_known(flights):
    departures = read_departures(str(flights), 0, 1)
    busiest = busiest_airports(read_flights(flights), 3)
    assert {departure.origin for departure in departures} == set(busiest) == {"EWR", "JFK", "LGA"}
    assert {departure.destination for departure in departures} <= read_places().keys()


def test_a_folder_that_the_demo_did_not_make_is_left_alone(tmp_path):
    (tmp_path / "flights").mkdir()
    (tmp_path / "flights" / "thesis.txt").write_text("years of work")
    with pytest.raises(SystemExit, match="was not made by this demo"):
        _own_folder(tmp_path)
    assert (tmp_path / "flights" / "thesis.txt").exists()


def test_a_folder_of_an_earlier_run_is_made_anew(tmp_path):
    (_own_folder(tmp_path) / "sky.png").touch()
    again = _own_folder(tmp_path)
    assert [path.name for path in again.iterdir()] == [MADE_BY_DEMO]
