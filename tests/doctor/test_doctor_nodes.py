"""A real cluster of two nodes, of which one sees another folder under the storage's name, and other keys."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.pods import Pod, free_port

pytestmark = [
    pytest.mark.ray,
    pytest.mark.skipif(os.getuid() != 0, reason="a node with a folder of its own needs the right to mount one"),
]
COMMAND = ("-c", "from rayshot.cli import main; main()", "doctor")
JOIN_S = 60.0


@pytest.fixture(scope="module")
def shots(tmp_path_factory):
    return tmp_path_factory.mktemp("shots")


@pytest.fixture(scope="module")
def pod(shots):
    """A head, and a second node that has mounted a folder of its own over the storage, and has a port for metrics."""
    head = Pod(variables={"RAY_JOB_STOP_WAIT_TIME_S": "45"})
    try:
        head.wait()
        ray = Path(sys.executable).with_name("ray")
        join = f"mount -t tmpfs none {shots} && exec {ray} start --address {head.address} --block --num-cpus 1"
        join += f" --metrics-export-port {free_port()}"  # as KubeRay says, whether Ray can export any or not
        second = subprocess.Popen(
            ["unshare", "-pfm", "--mount-proc", "--kill-child", "sh", "-c", join],
            env={**head.environment, "RAY_JOB_STOP_WAIT_TIME_S": "a while", "RAYSHOT_SIGNING_KEY": "11" * 32},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield head
        finally:
            second.kill()
            second.wait()
    finally:
        head.end()


def findings(pod, shots):
    done = pod.run(*COMMAND, "--address", pod.address, "--storage", shots, "--json", RAYSHOT_SIGNING_KEY="22" * 32)
    return done, {one["what"]: one for one in json.loads(done.stdout)["findings"]}


@pytest.mark.wide("slow")
def test_a_folder_that_is_another_one_on_a_node_fails_and_what_was_written_is_gone(pod, shots):
    deadline = time.monotonic() + JOIN_S
    while True:
        done, found = findings(pod, shots)
        if "2 nodes" in found["cluster"]["seen"] or time.monotonic() > deadline:
            break
        time.sleep(1)
    assert done.returncode == 1
    assert found["storage"]["level"] == "fail"
    assert "is not there for all nodes" in found["storage"]["seen"]
    assert "mount the same folder on every node" in found["storage"]["advice"]
    assert found["keys"]["level"] == "warn", found["keys"]
    assert found["metrics"]["seen"] == "none: Ray drops them"
    assert not [path for path in shots.iterdir() if path.name.startswith("check-")]


@pytest.mark.wide("slow")
def test_what_is_printed_names_each_thing_once_and_ends_with_the_sum(pod, shots):
    storage = ("--storage", shots / "none" / "such")
    own = {"RAY_JOB_STOP_WAIT_TIME_S": "7", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "of-this-program-alone"}
    done = pod.run(*COMMAND, "--address", pod.address, *storage, **own)
    assert "gives a job 45 s" in done.stdout  # the head says so, and no other node
    assert re.search("^warn +token ", done.stdout, re.MULTILINE), done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1].endswith("warnings"), done.stderr
    assert len([line for line in lines if line.startswith(("ok ", "warn ", "fail "))]) == int(lines[-1].split()[0])


def test_no_cluster_is_one_line_and_its_own_code(pod):
    done = pod.run(*COMMAND, "--address", "127.0.0.1:1")
    assert (done.returncode, done.stdout) == (20, "")
    assert len(done.stderr.splitlines()) == 1
