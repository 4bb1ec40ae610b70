"""The program `rayshot` itself, and a program whose system it reaches, over a real head that comes and goes."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.pods import Pod, children, free_port, kill_children, name_spaces_can_be_made
from tests.processes import ROOT
from tests.waiting import eventually

pytestmark = pytest.mark.ray
OPERATED = Path(__file__).with_name("operated.py")
PROGRAM = Path(sys.executable).with_name("rayshot")


@pytest.fixture(scope="module")
def pod():
    started = Pod()
    try:
        yield started.wait()
    finally:
        started.end()


@pytest.fixture
def command(pod, tmp_path):
    """Runs `rayshot`, without any keys, and in no terminal; what it has for people has not a line of Ray's."""
    (tmp_path / "nothing").mkdir()

    def run(*arguments, code=0, **variables):
        where = {"RAY_ADDRESS": pod.address, "XDG_CONFIG_HOME": str(tmp_path / "nothing"), **variables}
        done = pod.run(PROGRAM, *arguments, timeout=120, **where)
        assert done.returncode == code, done.stdout + done.stderr
        assert code == 2 or done.stderr.count("\n") == (code != 0)
        return done

    return run


@pytest.fixture
def program(pod, tmp_path):
    """Starts the program of a system; it is told a number of seconds for which bob is to sleep."""
    started = []

    def start(name="bank", **variables):
        command = [sys.executable, str(OPERATED), str(tmp_path / "shots"), name]
        environment = {**pod.environment, "RAY_ADDRESS": pod.address, **variables}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen(command, env=environment, **pipes))
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.wait()


def test_a_day_of_a_system(command, program, tmp_path):
    waiting = program()
    shown = command("status", "bank", "--wait", "running", "--timeout", "100").stdout
    assert waiting.stdout.readline() == "life 1\n"
    assert re.search(r"^ alice +\d+\.\d+\.\d+\.\d+ +0 +0 +0 *$", shown, re.MULTILINE)
    taken = json.loads(command("snapshot", "--json").stdout)
    assert (taken["system"], taken["snapshot"], taken["storage"]) == (
        "bank",
        "1-coordinator-2",
        str(tmp_path / "shots"),
    )
    assert command("savepoint", "noon").stdout.startswith("1-coordinator-3  noon  position 3")
    command("status", "bnak", code=10)
    command("stop", code=2)
    last = command("stop", "--savepoint", "night").stdout.splitlines()[-1]
    assert last == f"it goes on from 1-stopped-4 with rayshot.resume('bank', storage='{tmp_path / 'shots'}', begin=...)"
    print("0", file=waiting.stdin, flush=True)
    assert waiting.stdout.readline() == "ended: system_stopped\n"
    listed = json.loads(command("list", "--json", RAYSHOT_STORAGE=str(tmp_path / "shots")).stdout)
    assert [one["snapshot"] for one in listed["systems"][0]["snapshots"]][-1] == "1-stopped-4"


@pytest.mark.wide("slow")
def test_the_page_shows_what_the_commands_print(command, program, tmp_path):
    page = (ROOT / "docs" / "operating.md").read_text()
    block = re.search(r"```console[^\n]*\n(.*?)```", page, re.DOTALL)[1]
    program()
    command("status", "bank", "--wait", "running", "--timeout", "100")
    shown = []
    for line in block.splitlines():
        if line.startswith("$ rayshot "):
            shown.append(line)
            shown += command(*shlex.split(line)[2:], COLUMNS="200").stdout.splitlines()
    printed = "\n".join(shown).replace(str(tmp_path / "shots"), "/shots")
    assert blotted(printed) == blotted(block)


def blotted(text):
    """Without what differs from run to run: addresses, times, sizes and widths."""
    for pattern, instead in (
        (r"\d+\.\d+\.\d+\.\d+", "IP"),
        (r"IP:\d+", "IP:PORT"),
        (r"\d+(\.\d+)? (s|B|KiB)\b", r"N \2"),
        (r"─+", "─"),
        (r" +", " "),
        (r" *\n", "\n"),
    ):
        text = re.sub(pattern, instead, text)
    return text.strip().splitlines()


@pytest.mark.wide("slow")
def test_where_no_cluster_is_a_command_ends_at_once_or_waits(command, pod):
    nowhere = f"127.0.0.1:{free_port()}"
    done = command("snapshot", "--address", nowhere, "--json", code=20)
    assert json.loads(done.stdout)["error"]["kind"] == "cluster_unreachable"
    assert re.fullmatch(r"error: cluster_unreachable: no Ray cluster runs at .*\n", done.stderr)
    done = command("status", "--wait", "running", "--timeout", "2", "--address", nowhere, code=23)
    assert "it is not running after 2 s: no Ray cluster runs at" in done.stderr
    assert "ray://" in command("status", "--address", "ray://127.0.0.1:10001", "--wait", "running", code=20).stderr


@pytest.mark.wide("slow")
def test_a_command_that_was_started_without_stderr_does_its_work(pod, program):
    program()
    closed = ["-c", "import os, sys; os.close(2); os.execv(sys.argv[1], sys.argv[1:])", PROGRAM]
    done = pod.run(
        *closed, "status", "bank", "--wait", "running", "--timeout", "100", "--json", RAY_ADDRESS=pod.address
    )
    assert (done.returncode, json.loads(done.stdout)["state"]) == (0, "running")


@pytest.mark.wide("slow")
def test_whoever_watches_through_a_pipe_reads_each_look(pod, program):
    program()
    pod.run(PROGRAM, "status", "bank", "--wait", "running", "--timeout", "100", RAY_ADDRESS=pod.address)
    watching = pod.open(PROGRAM, "status", "bank", "--watch", RAY_ADDRESS=pod.address, PYTHONUNBUFFERED="1")
    try:
        titles = (line for line in watching.stdout if line.startswith("bank  running  life 1"))
        assert all(next(titles, None) for _ in range(2))
        watching.send_signal(signal.SIGINT)
        assert watching.wait(20) == 0
    finally:
        watching.kill()
        watching.wait()


@pytest.mark.wide("slow")
@pytest.mark.parametrize("words", [["snapshot", "one"], ["stop", "other", "--savepoint", "night"]])
def test_ctrl_c_in_a_snapshot_says_where_to_look_for_it(pod, program, words):
    bank = program(words[1])
    assert bank.stdout.readline() == "life 1\n"
    print("60", file=bank.stdin, flush=True)  # so long bob sleeps, and records nothing
    assert bank.stdout.readline() == "told\n"
    own = {**pod.environment, "RAY_ADDRESS": pod.address}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    taking = subprocess.Popen([PROGRAM, *words], env=own, start_new_session=True, **pipes)
    look = [PROGRAM, "status", words[1], "--json"]
    eventually(lambda: json.loads(pod.run(*look, RAY_ADDRESS=pod.address).stdout)["under_way"], 60)
    os.killpg(taking.pid, signal.SIGINT)  # as a terminal does
    printed, complaint = taking.communicate(timeout=30)
    assert (taking.returncode, printed, complaint.count("\n")) == (130, "", 1)
    assert "error: interrupted: the command waits no longer. If it has reached the system" in complaint
    assert ("and stops with it" in complaint) == (words[0] == "stop")
    pod.run(PROGRAM, "stop", words[1], "--without-savepoint", RAY_ADDRESS=pod.address)


@pytest.mark.wide("slow")
@pytest.mark.skipif(not name_spaces_can_be_made(), reason="only in a name space of its own is the storage a small one")
def test_a_storage_without_room_aborts_a_snapshot_and_loses_none(pod, tmp_path):
    """In the pod's own name space, where the storage is all that fits into a mebibyte."""
    shots, log = tmp_path / "small", tmp_path / "log"
    shots.mkdir()

    def inside(*command, code=0):
        ended, said = pod.execute(*command)
        assert ended == code, said
        return said.splitlines()

    inside("mount", "-t", "tmpfs", "-o", "size=1m", "none", shots)
    program = pod.start(sys.executable, OPERATED, shots, "small", log=log)
    try:
        inside(PROGRAM, "status", "small", "--wait", "running", "--timeout", 100)
        inside("dd", "if=/dev/zero", f"of={shots / 'filler'}", "bs=4096", code=1)
        refused, line = inside(PROGRAM, "snapshot", "small", "--json", code=21)
        error = json.loads(refused)["error"]
        assert (error["kind"], error["reason"]) == ("snapshot_aborted", "store_unavailable")
        assert line.startswith("error: snapshot_aborted: ")
        assert "No space left on device" in line
        inside(PROGRAM, "verify", shots, "--snapshot", "1-coordinator-1", "--read-data")

        inside("rm", shots / "filler")
        taken = json.loads(inside(PROGRAM, "snapshot", "small", "--json")[-1])["snapshot"]
        listed = json.loads("".join(inside(PROGRAM, "list", shots, "--json")))["systems"][0]["snapshots"]
        assert [one["snapshot"] for one in listed] == ["1-coordinator-1", taken]
        inside(PROGRAM, "stop", "small", "--without-savepoint")
    finally:
        kill_children(program)


@pytest.mark.wide("slow")
def test_a_savepoint_says_that_its_head_went_away_before_it_was_there(program):
    doomed = Pod().wait()
    try:
        bank = program(RAY_ADDRESS=doomed.address)
        assert bank.stdout.readline() == "life 1\n"
        print("60", file=bank.stdin, flush=True)  # so long bob sleeps, and records nothing
        assert bank.stdout.readline() == "told\n"
        patience = {"RAY_gcs_rpc_server_reconnect_timeout_s": "1"}  # Ray ends who asks after 1 s, not 60
        environment = {**doomed.environment, "RAY_ADDRESS": doomed.address, **patience}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        waiting = subprocess.Popen([PROGRAM, "savepoint", "bank", "v1", "--json"], env=environment, **pipes)
        looks = ["status", "bank"]
        eventually(lambda: "waits for bob" in doomed.run(PROGRAM, *looks, RAY_ADDRESS=doomed.address).stdout, 60)
        doomed.kill()
        printed, complaint = waiting.communicate(timeout=100)
        assert waiting.returncode == 20, printed + complaint
        assert json.loads(printed)["error"]["kind"] == "head_lost"
        assert complaint.startswith("error: head_lost: the head of the Ray cluster went away before it answered")
    finally:
        doomed.end()


@pytest.mark.wide("slow")
def test_waiting_outlives_a_head_that_is_replaced_and_ray_that_ends_its_process_meanwhile(program):
    """The last one: it ends its head, and begins another one at the same address."""
    old = Pod().wait()
    new, waiting = None, []
    try:
        for patience in ({}, {"RAY_gcs_rpc_server_reconnect_timeout_s": "1"}):  # Ray ends who asks after 1 s, not 60
            command = [PROGRAM, "status", "bank", "--wait", "running", "--timeout", "200", "--json"]
            environment = {**old.environment, "RAY_ADDRESS": old.address, **patience}
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            waiting.append(subprocess.Popen(command, env=environment, **pipes))
        time.sleep(6)  # they look, and find no system
        old.kill()
        time.sleep(3)
        new = Pod(port=old.port).wait()
        program(RAY_ADDRESS=new.address)
        for one in waiting:
            printed, complaint = one.communicate(timeout=200)
            assert (one.returncode, complaint) == (0, "")
            assert json.loads(printed)["state"] == "running"
    finally:
        for one in waiting:
            one.kill()
        for one in filter(None, (old, new)):
            one.end()


def test_a_command_that_is_killed_while_it_waits_leaves_no_process(pod):
    waiting = pod.open(PROGRAM, "status", "nobody", "--wait", "running", RAY_ADDRESS=pod.address)
    (child,) = eventually(lambda: children(waiting))
    waiting.kill()
    waiting.wait()
    eventually(lambda: not Path(f"/proc/{child}").exists())
