"""The program of the pods on a real Ray: it goes on from the latest snapshot whatever dies, and the sum stays."""

import re
import time

import pytest

import rayshot
from tests.k8s.pod import Pod, kill_children, name_spaces_can_be_made
from tests.processes import ROOT

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.skipif(not name_spaces_can_be_made(), reason="this user may make no name space of processes"),
]
PROGRAM = ROOT / "k8s" / "base" / "main.py"
STRANGER = ROOT / "tests" / "k8s" / "stranger.py"
PATIENCE_S = 150.0
"""A killed life counts as living for 60 s, and the machine is shared."""
TRIES = 4
"""A busy machine may not start a head in the 30 s that Ray gives it: then there is another one, as KubeRay does."""
SUM = "6000 in all"


def wait_for(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, what()
        time.sleep(0.5)
    return found


@pytest.fixture
def new_pod(tmp_path):
    pods = []

    def make():
        for _ in range(TRIES):
            pods.append(Pod({"RAYSHOT_STORAGE": str(tmp_path / "shots")}))
            if pods[-1].wait():
                return pods[-1]
        raise AssertionError(pods[-1].log)

    yield make
    for pod in pods:
        pod.end()


@pytest.fixture
def new_driver(tmp_path):
    drivers = []

    def make(pod):
        log = tmp_path / f"driver-{len(drivers)}.log"
        drivers.append(pod.start("python", PROGRAM, log=log))
        drivers[-1].log = log
        return drivers[-1]

    yield make
    for driver in drivers:
        if driver.poll() is None:
            kill_children(driver)


def lines(driver, pattern):
    """What it said that matches: read from the file that it writes."""
    return re.findall(pattern, driver.log.read_text())


def say(driver, pattern):
    return wait_for(lambda: lines(driver, pattern), driver.log.read_text)


def committed(storage):
    return {str(snapshot.id) for snapshot in rayshot.open(storage).system("bank").snapshots()}


def test_the_bank_goes_on_when_an_account_the_driver_or_the_whole_cluster_is_killed(new_pod, new_driver, tmp_path):
    storage = tmp_path / "shots"
    first = new_pod()
    driver = new_driver(first)
    say(driver, r"life 1 runs")
    say(driver, rf"snapshot 1-coordinator-2: .* {SUM}")

    kill_children(driver)
    attached = new_driver(first)
    say(attached, r"life 1 runs")

    assert first.run("python", STRANGER, "kill", "account-1", log=tmp_path / "kill.log")[0] == 0
    say(attached, r"life 2 runs")
    say(attached, rf"snapshot 2-coordinator-1: .* {SUM}")

    assert first.run("python", STRANGER, "lose", log=tmp_path / "lose.log")[0] == 0  # as with the node of all of them
    say(attached, r"life 3 runs")
    say(attached, rf"snapshot 3-coordinator-1: .* {SUM}")

    before = committed(storage)
    first.kill()
    attached.wait()
    restored = new_driver(new_pod())
    say(restored, r"life 4 runs")
    say(restored, rf"snapshot 4-coordinator-1: .* {SUM}")
    assert before <= committed(storage)
    assert set(re.findall(r"(\d+) in all", "".join(one.log.read_text() for one in (driver, attached, restored)))) == {
        "6000"
    }


def test_the_program_is_done_when_somebody_stops_the_bank_with_a_savepoint(new_pod, new_driver, tmp_path):
    pod = new_pod()
    driver = new_driver(pod)
    say(driver, r"life 1 runs")
    code, said = pod.run("python", STRANGER, "stop", "before the upgrade", log=tmp_path / "stop.log")
    assert code == 0, said
    assert driver.wait(PATIENCE_S) == 0, driver.log.read_text()
    assert lines(driver, r"stopped with a savepoint: this program is done")
    latest = rayshot.open(tmp_path / "shots").system("bank").latest()
    assert latest.label == "before the upgrade"
    held = sum(state["balance"] for state in latest.states().values())
    moving = sum(m.args[0] for c in latest.channels.values() for m in c.messages if m.method == "deposit")
    assert held + moving == 6000
