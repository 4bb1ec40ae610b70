"""The demo proves what it says, and would notice if it were not true."""

import dataclasses
import re
import sys
from unittest.mock import Mock

import pytest

import rayshot
from examples.flights import __main__ as program
from examples.flights import sky
from examples.flights.demo import Disproved
from examples.flights.ledger import Totals, differences
from examples.flights.photograph import Photograph
from rayshot.errors import Damaged

PNG = b"\x89PNG\r\n"


@pytest.fixture(scope="module")
def demo(run_program, tmp_path_factory):
    """A small run over what a still smaller one has left: what it printed, and its folder."""
    storage = tmp_path_factory.mktemp("demo")
    run_program("-m", "examples.flights", "--rows", 300, "--airports", 1, "--storage", storage)
    lines = run_program("-m", "examples.flights", "--rows", 6_000, "--airports", 4, "--storage", storage)
    return lines, storage / "flights"


@pytest.fixture(scope="module")
def snapshots(demo):
    return rayshot.open(str(demo[1] / "snapshots")).system("sky").snapshots()


@pytest.fixture(scope="module")
def fullest(snapshots):
    return max(snapshots, key=lambda snapshot: len(Photograph.of(snapshot).in_the_air))


class WithoutOneFlight:
    """A snapshot from whose channels one message between airports is missing."""

    def __init__(self, snapshot):
        self._snapshot = snapshot
        self.channels = dict(snapshot.channels)
        busy = next(key for key, channel in self.channels.items() if lands(channel.messages))
        self.channels[busy] = Lighter(snapshot.channels[busy])

    def verify(self):
        self._snapshot.verify()

    def states(self):
        return self._snapshot.states()


class Lighter:
    def __init__(self, channel):
        self.messages = channel.messages
        self.messages.remove(lands(self.messages)[0])


def lands(messages):
    return [message for message in messages if message.method == "land"]


pytestmark = [pytest.mark.ray, pytest.mark.spark]


def test_the_demo_says_at_the_end_what_it_proved(demo):
    lines, folder = demo
    begin = lines.index("Proved")
    photographs, exact, killed, equal, picture, _ = lines[begin + 1 :]
    assert re.fullmatch(
        r"5 photographs of a moving sky, with (\d+, ){4}\d+ aircraft in the air, none of them stopped", photographs
    )
    assert exact == "in each: departures = arrivals + in the air, exactly, from the snapshot's own verified bytes"
    assert killed == "2 of 5 airports killed, and back by themselves; a new cluster restored from a photograph"
    flown = len([line for line in (folder / "flights.csv").read_text().splitlines()[1:] if ",NA," not in line[:20]])
    assert equal == (
        f"then every total of every airport equals Spark's from the CSV: {flown:,} flights, 0 lost, 0 twice"
    )
    assert picture == f"picture: {folder / 'sky.png'}"


def test_the_demo_shows_that_the_killed_airports_come_back_by_themselves(demo, snapshots):
    (line,) = [line for line in demo[0] if line.startswith("nobody repairs it")]
    assert re.fullmatch(
        r"nobody repairs it: \d+\.\d s later the whole sky flies on from photograph 3, with 2 new processes", line
    )
    assert [snapshot.id.incarnation for snapshot in snapshots] == [1, 1, 1, 2, 3]


def test_the_demo_shows_the_busiest_routes_from_spark_and_saves_a_picture(demo):
    lines, folder = demo
    assert any(re.search(r"\b(EWR|JFK|LGA) - [A-Z]{3}\b", line) for line in lines)
    assert (folder / "sky.png").read_bytes().startswith(PNG)


def test_flights_are_in_the_air_in_the_photographs_of_the_first_life(snapshots):
    assert all(len(Photograph.of(snapshot).in_the_air) > 0 for snapshot in snapshots[:3])


def test_photographs_of_a_snapshot_contradict_nothing(snapshots):
    assert len(snapshots) == 5
    assert [Photograph.of(snapshot).contradictions() for snapshot in snapshots] == [[]] * 5


def test_a_flight_dropped_from_the_recorded_channel_is_noticed(fullest):
    (contradiction,) = Photograph.of(WithoutOneFlight(fullest)).contradictions()
    assert re.match(r"[\d,]+ departures are not [\d,]+ arrivals and [\d,]+ in the air", contradiction)


def test_a_flight_photographed_twice_is_noticed(fullest):
    photograph = Photograph.of(fullest)
    twice = dataclasses.replace(photograph, in_the_air=(*photograph.in_the_air, photograph.in_the_air[0]))
    assert len(twice.contradictions()) == 1


def test_a_flight_lost_at_the_gate_is_noticed(fullest):
    photograph = Photograph.of(fullest)
    lost = dataclasses.replace(photograph, at_the_gate=photograph.at_the_gate - 1)
    assert len(lost.contradictions()) == 1


def test_damaged_bytes_make_no_photograph(demo, snapshots):
    snapshot = snapshots[0]
    chunk = demo[1] / "snapshots" / "sky" / snapshot.manifest.chunks[0].key
    whole = chunk.read_bytes()
    chunk.chmod(0o600)
    chunk.write_bytes(whole[:-1])
    try:
        with pytest.raises(Damaged):
            Photograph.of(rayshot.open(str(demo[1] / "snapshots")).system("sky").snapshot(snapshot.id))
    finally:
        chunk.write_bytes(whole)


def test_a_total_that_is_one_off_is_noticed():
    true = {"ATL": Totals(0, 17, 0, 120), "JFK": Totals(17, 0, 80, 0)}
    assert differences(true, dict(true)) == []
    assert differences(true, true | {"ATL": Totals(0, 16, 0, 120)}) == [
        "ATL: the actor counted arrivals 16, the CSV says 17"
    ]
    assert differences(true, {"ATL": true["ATL"]}) == [
        "JFK: the actor counted departures 0, the CSV says 17",
        "JFK: the actor counted departure_delay_min 0, the CSV says 80",
    ]


def test_a_claim_that_fails_ends_the_program_with_an_error(monkeypatch, capsys):
    def disprove(plan):
        raise Disproved("photograph 1: 5 departures are not 4 arrivals and 0 in the air")

    monkeypatch.setattr(program, "run", disprove)
    monkeypatch.setattr(sys, "argv", ["examples.flights", "--rows", "10"])
    assert program.main() == 1
    assert "DISPROVED: photograph 1" in capsys.readouterr().err


def test_ctrl_c_ends_the_program_with_one_line(monkeypatch, capsys):
    def interrupt(plan):
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "run", interrupt)
    monkeypatch.setattr(sys, "argv", ["examples.flights"])
    assert program.main() == 130
    assert capsys.readouterr().err == "interrupted: nothing is proved\n"


@pytest.mark.parametrize("number", ["0", "-1", "many", "1.5"])
def test_a_number_that_cannot_be_is_refused_with_what_is_wanted(monkeypatch, capsys, number):
    monkeypatch.setattr(sys, "argv", ["examples.flights", f"--rows={number}"])
    with pytest.raises(SystemExit) as ended:
        program.main()
    assert ended.value.code == 2
    assert f"argument --rows: {number!r} is not a number from 1 on" in capsys.readouterr().err


def test_an_interrupted_start_ends_the_system_while_its_cluster_is_up(monkeypatch, tmp_path):
    system = Mock()
    monkeypatch.setattr(rayshot, "init", Mock(return_value=system))
    monkeypatch.setattr(sky, "Schedule", Mock(options=Mock(side_effect=KeyboardInterrupt)))
    with pytest.raises(KeyboardInterrupt):
        sky.Sky.create(tmp_path, tmp_path / "flights.csv", ["ATL"], 1.0)
    system.shutdown.assert_called_once_with()
