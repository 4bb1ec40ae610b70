"""`rayshot demo`, as somebody types it who has nothing yet."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

import rayshot
from rayshot.demo import SYSTEM
from rayshot.places.local import LocalStore
from tests.pods import free_port
from tests.processes import marked, own_environment
from tests.snapshots.snapshot_builder import make_snapshot, open_bank

PROGRAM = Path(sys.executable).with_name("rayshot")


@pytest.fixture
def environment(tmp_path):
    """That of a newcomer, with a mark by which every process is found that is started from it."""
    mark = f"mark-{uuid.uuid4().hex}"
    folders = set(Path("/tmp").glob("rayshot-own-*"))
    yield {**own_environment(), "XDG_CONFIG_HOME": str(tmp_path / "config"), "MARK": mark, "COLUMNS": "80"}
    assert set(Path("/tmp").glob("rayshot-own-*")) <= folders
    assert marked(mark) == {}


def run(environment, folder, *arguments):
    command = [str(PROGRAM), *map(str, arguments)]
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.wide("slow")
@pytest.mark.ray
def test_from_nothing_to_snapshots_worth_looking_at_and_on_from_there(environment, tmp_path):
    """The cluster at RAY_ADDRESS is left alone, though it is not even there."""
    elsewhere = {**environment, "RAY_ADDRESS": f"127.0.0.1:{free_port()}"}
    done = run(elsewhere, tmp_path, "demo")
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert all(line[5:8] == " s " for line in lines), done.stderr  # not a line of Ray's
    assert "closing time" in lines[-1]

    view = rayshot.open(tmp_path / "shots").system(SYSTEM)
    snapshots = view.snapshots()
    assert {one.id.incarnation for one in snapshots} == {1, 2}
    assert [one.label for one in snapshots if one.label] == ["before lunch", "closing time"]
    assert {one.id.incarnation for one in snapshots if one.in_flight} == {1, 2}
    methods = {message.method for one in snapshots for channel in one.channels.values() for message in channel.messages}
    assert methods >= {"transfer", "deposit"}
    senders = {sender for one in snapshots for sender, _ in one.channels if sender.startswith("driver:")}
    assert len(senders) >= 2  # this program and a plain actor
    for one in snapshots:
        (row,) = (line.split() for line in done.stdout.splitlines() if line.split()[:1] == [str(one.id)])
        assert row[-1] == "4,000"
    for command in re.findall(r"(?m)^ rayshot (.*?)  ", done.stdout):  # what to type next
        if not command.startswith("ui"):  # which stays
            assert run(environment, tmp_path, *shlex.split(command)).returncode == 0
    proved = json.loads(run(environment, tmp_path, "verify", "shots", "--replay", "--json").stdout)
    assert (proved["sound"], proved["trusted"]) == (True, True)
    assert {"replay", "theorem 1"} <= {finding["name"] for finding in proved["audit"] if finding["holds"]}

    again = run(environment, tmp_path, "demo", "./shots")
    assert again.returncode == 0, again.stderr
    assert {one.id.incarnation for one in view.snapshots()} == {1, 2, 3, 4}


@pytest.mark.wide("slow")
@pytest.mark.ray
@pytest.mark.parametrize("when", ["its own starts", "the bank opens", "a snapshot each"])
def test_when_it_is_interrupted_nothing_stays_but_what_was_committed(environment, tmp_path, when):
    """Ctrl-C of a terminal reaches the whole group of processes."""
    command = [PROGRAM, "demo", "a folder"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, cwd=tmp_path, start_new_session=True, **pipes) as program:
        assert any(when in line for line in program.stderr)
        os.killpg(program.pid, signal.SIGINT)
        printed, complaint = program.communicate(timeout=120)
    assert (program.returncode, printed) == (130, "")
    assert complaint.splitlines()[-1] == "interrupted; what was committed stays in a folder"
    assert "Traceback" not in complaint


@pytest.mark.wide("slow")
@pytest.mark.ray
def test_where_no_ray_starts_one_line_says_so_and_nothing_stays(environment, tmp_path):
    missing = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": "/nonexistent/token"}
    done = run({**environment, **missing}, tmp_path, "demo")
    assert (done.returncode, done.stdout) == (20, "")
    *_, last = done.stderr.splitlines()
    assert last.startswith("error: cluster_unreachable: Ray does not start on this machine: ")


def test_a_folder_that_holds_something_else_is_refused_in_one_line(environment, tmp_path):
    make_snapshot(open_bank(LocalStore(tmp_path / "shots")))
    done = run(environment, tmp_path, "demo")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: config_error: ./shots holds snapshots of bank: give the demo a folder of its own\n"


def test_a_file_in_the_place_of_the_folder_is_refused_in_one_line(environment, tmp_path):
    (tmp_path / "shots").write_text("mine")
    done = run(environment, tmp_path, "demo")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: config_error:")
    assert done.stderr.count("\n") == 1
    assert (tmp_path / "shots").read_text() == "mine"
