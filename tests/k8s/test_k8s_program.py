"""The program of the pods on a real Ray: it goes on from the latest snapshot whatever dies, and the sum stays."""

import re
import secrets

import pytest

from tests.k8s.bank import SUM, await_line, latest, money
from tests.pods import Pod, kill_children, name_spaces_can_be_made
from tests.processes import ROOT

pytestmark = [
    pytest.mark.ray,
    pytest.mark.skipif(not name_spaces_can_be_made(), reason="this user may make no name space of processes"),
]
PROGRAM = ROOT / "k8s" / "base" / "main.py"
STRANGER = ROOT / "tests" / "k8s" / "stranger.py"
PATIENCE_S = 150.0


@pytest.fixture
def pod(tmp_path):
    made = Pod(secrets.token_hex(16), variables={"RAYSHOT_STORAGE": str(tmp_path / "shots")})
    try:
        yield made.wait()
    finally:
        made.end()


@pytest.fixture
def new_driver(pod, tmp_path):
    drivers = []

    def make():
        log = tmp_path / f"driver-{len(drivers)}.log"
        drivers.append(pod.start("python", PROGRAM, log=log))
        return drivers[-1], log

    yield make
    for driver in drivers:
        kill_children(driver)


def test_the_bank_goes_on_when_the_driver_an_account_or_all_processes_are_killed(pod, new_driver):
    driver, of_first = new_driver()
    await_line(of_first, r"life 1 runs")
    await_line(of_first, rf"snapshot 1-coordinator-\d+: .* {SUM} in all")

    kill_children(driver)
    _, log = new_driver()
    await_line(log, r"life 1 runs")

    for life, death in ((2, ["kill", "account-1"]), (3, ["lose"])):  # `lose`: as with the node of all of them
        code, said = pod.execute("python", STRANGER, *death)
        assert code == 0, said
        await_line(log, rf"life {life} runs")
        await_line(log, rf"snapshot {life}-coordinator-\d+: .* {SUM} in all")
    assert {*re.findall(r"(\d+) in all", of_first.read_text() + log.read_text())} == {str(SUM)}


@pytest.mark.wide("slow")
def test_the_program_is_done_when_somebody_stops_the_bank_with_a_savepoint(pod, new_driver, tmp_path):
    driver, log = new_driver()
    await_line(log, r"life 1 runs")
    code, said = pod.execute("python", STRANGER, "stop", "before the upgrade")
    assert code == 0, said
    assert driver.wait(PATIENCE_S) == 0, log.read_text()
    assert "stopped with a savepoint: this program is done" in log.read_text()
    savepoint = latest(tmp_path / "shots")
    assert savepoint.label == "before the upgrade"
    assert sum(money(savepoint)) == SUM
