"""`upgrade.sh` that somebody ends in the middle: its last line says how things are, and the way back is kept."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.k8s.manifests import K8S

FAKE = Path(__file__).parent / "fake_kubectl.py"


@pytest.fixture
def interrupted(tmp_path):
    """Runs it until a call to kubectl begins so; the signal reaches both, as that of a terminal does."""
    (tmp_path / "bin").mkdir()
    kubectl = tmp_path / "bin" / "kubectl"
    kubectl.write_text(
        f'#!/bin/sh\ncase "$*" in "$HANGS"*) touch "$FAKE_KUBECTL/hangs"; exec sleep 60 ;; esac\n'
        f'exec "{sys.executable}" "{FAKE}" "$@"\n'
    )
    kubectl.chmod(0o755)
    state = {"job": "old", "pin": None, "lives": {"old": [3], "new": [None]}, "failing": {}, "deployment": {}}
    (tmp_path / "state.json").write_text(json.dumps({**state, "started": []}))

    def run(hangs, number):
        one = subprocess.Popen(
            # the test itself may run under nohup, and what is ignored nobody can trap
            ["env", "--default-signal", K8S / "upgrade.sh", "--timeout", "2", "k8s/overlays/pvc"],
            env=os.environ
            | {
                "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
                "FAKE_KUBECTL": str(tmp_path),
                "HANGS": hangs,
                "TMPDIR": str(tmp_path),
                "UPGRADE_SETTLE_S": "0",
                "UPGRADE_PAUSE_S": "0.2",
            },
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            start_new_session=True,
        )
        while not (tmp_path / "hangs").exists():
            assert one.poll() is None
            time.sleep(0.02)
        os.killpg(one.pid, number)
        _, said = one.communicate(timeout=60)
        assert not list(tmp_path.glob("tmp.*"))
        return one.returncode, said.splitlines()[-1]

    return run


@pytest.mark.sampled("more cases of one kind", keeps=5)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("hangs", ["delete rayjob", "apply --filename", "get rayjob", "create configmap"])
def test_where_the_bank_was_stopped_the_old_version_and_the_savepoint_are_kept(interrupted, tmp_path, hangs, number):
    code, line = interrupted(hangs, number)
    assert code == 4
    assert line.startswith("upgrade: interrupted: nobody knows which version runs; savepoint 3-stopped-1 is safe. ")
    assert "delete RayJob bank, make ConfigMap bank-pin with snapshot=3-stopped-1 where it is not there" in line
    assert (tmp_path / "bank-before-upgrade.json").read_text().strip() == "old"


def test_while_the_bank_stops_nobody_knows_whether_it_has(interrupted, tmp_path):
    code, line = interrupted("exec bank-abcde-head --container ray-head -- rayshot stop", signal.SIGINT)
    assert code == 4
    assert line.startswith("upgrade: interrupted while the bank was stopped: nobody knows whether it was. ")


def test_before_the_bank_is_stopped_nothing_was_done(interrupted):
    assert interrupted("kustomize", signal.SIGINT) == (2, "upgrade: interrupted: nothing was done")
