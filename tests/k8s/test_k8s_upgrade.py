"""`upgrade.sh` run for real, against a kubectl that records: the new version, or the old one, from one savepoint."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.k8s.manifests import K8S

FAKE = Path(__file__).parent / "fake_kubectl.py"
SAVEPOINT = "3-stopped-1"
TOUCHING = ("create", "delete")
ABORTED = '{"error": {"kind": "snapshot_aborted", "message": "store_unavailable"}}'
STOP = "exec bank-abcde-head --container ray-head -- rayshot stop"


@pytest.fixture
def upgrade(tmp_path):
    """Runs it; returns its exit code, its last line, the calls, and the state of the cluster behind it."""
    (tmp_path / "bin").mkdir()
    kubectl = tmp_path / "bin" / "kubectl"
    kubectl.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" "$@"\n')
    kubectl.chmod(0o755)

    def run(*arguments, old=(3,), new=(4,), failing=None, deployment=None, pin=None, job="old", within_s=300):
        state = {
            "job": job,
            "pin": pin,
            "lives": {"old": list(old), "new": list(new)},
            "failing": failing or {},
            "deployment": deployment or {},
            "started": [],
        }
        (tmp_path / "state.json").write_text(json.dumps(state))
        (tmp_path / "calls").write_text("")
        done = subprocess.run(
            [K8S / "upgrade.sh", *(arguments or ("--timeout", str(within_s), "k8s/overlays/pvc"))],
            env=os.environ
            | {
                "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
                "FAKE_KUBECTL": str(tmp_path),
                "UPGRADE_SETTLE_S": "0",
                "UPGRADE_PAUSE_S": "0.2",
            },
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )
        assert done.stdout == ""
        calls = [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]
        return done.returncode, done.stderr.splitlines()[-1], calls, json.loads((tmp_path / "state.json").read_text())

    return run


def touching(calls):
    """What of these calls changes the cluster."""
    return [call for call in calls if call[0] in TOUCHING or call[:2] == ["apply", "--filename"]]


def test_the_new_version_goes_on_from_the_savepoint_which_is_the_latest_and_needs_no_pin(upgrade):
    code, line, calls, state = upgrade()
    assert (code, line) == (0, f"upgrade: the new version runs, from savepoint {SAVEPOINT}")
    assert state["started"] == [["new", None]]
    assert (state["job"], state["pin"]) == ("new", None)
    assert [call[:2] for call in touching(calls)] == [["delete", "rayjob"], ["apply", "--filename"]]
    assert "--cascade=foreground" in touching(calls)[0]  # else the old cluster may live beside the new one


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize(
    "new",
    [
        pytest.param({"new": (None,), "within_s": 2}, id="never runs"),
        pytest.param({"new": range(4, 104), "within_s": 2}, id="runs for a moment, again and again"),
        pytest.param({"deployment": {"new": "ValidationFailed"}, "new": (None,)}, id="is refused by KubeRay"),
        pytest.param({"deployment": {"new": "Retrying"}, "within_s": 2}, id="runs without its driver"),
        pytest.param({"deployment": {"new": "Complete"}, "new": (None,)}, id="ends at once"),
    ],
)
def test_the_old_version_comes_back_pinned_to_the_savepoint_where_the_new_one(upgrade, new):
    code, line, calls, state = upgrade(**new)
    assert code == 1
    assert line == f"upgrade: the new version does not run: the old one does again, from savepoint {SAVEPOINT}"
    assert state["started"] == [["new", None], ["old", SAVEPOINT]]  # a pin of both would lead the old one behind it
    assert (state["job"], state["pin"]) == ("old", None)
    assert [call[:2] for call in touching(calls)][-5:] == [
        ["apply", "--filename"],
        ["delete", "rayjob"],
        ["create", "configmap"],
        ["apply", "--filename"],
        ["delete", "configmap"],
    ]


def test_a_version_that_takes_its_time_is_waited_for(upgrade):
    code, _, _, state = upgrade(new=(None, None, 4))
    assert code == 0
    assert state["started"] == [["new", None]]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((21, ABORTED), f"upgrade: rayshot stop ended with 21, and said {ABORTED}: nothing was touched."),
        ((1, ABORTED), f"upgrade: rayshot stop ended with 1, and said {ABORTED}: nothing was touched."),
        ((1, ""), "upgrade: rayshot stop ended with 1: nothing was touched."),
        ((0, "no JSON"), "upgrade: rayshot stop ended with 0, and said no JSON: nothing was touched."),
    ],
)
def test_nothing_is_touched_where_no_savepoint_comes_about(upgrade, answer, said):
    code, line, calls, state = upgrade(failing={STOP: answer})
    assert code == 3
    assert line.startswith(said)
    assert touching(calls) == []
    assert (state["job"], state["pin"]) == ("old", None)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"failing": {"kustomize": (1, "")}}, "k8s/overlays/pvc cannot be built: nothing was done"),
        ({"failing": {"apply --dry-run=server": (1, "")}}, "the cluster refuses k8s/overlays/pvc: nothing was done"),
        ({"job": None}, "there is no RayJob bank that was made with kubectl apply"),
        ({"pin": "2-stopped-1"}, "ConfigMap bank-pin is there: an upgrade has not ended."),
    ],
)
def test_what_can_be_known_before_is_refused_before_the_bank_stops(upgrade, how, said):
    code, line, calls, _ = upgrade(**how)
    assert code == 2
    assert line.startswith(f"upgrade: {said}")
    assert touching(calls) == []
    assert not [call for call in calls if "exec" in call]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--timeout", "2"),
        ("--timeout",),
        ("--namespace", "x"),
        ("one", "two"),
        ("--wat", "x"),
        ("--timeout", "soon", "x"),
    ],
)
def test_wrong_use_is_told_and_does_nothing(upgrade, arguments):
    code, line, calls, _ = upgrade(*arguments)
    assert code == 2
    assert line.startswith("upgrade: ")
    assert calls == []


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize("failing", ["create configmap", "apply --filename"])
def test_the_old_version_is_not_started_without_its_pin_nor_waited_for_where_it_cannot_be_made(upgrade, failing):
    code, line, _, state = upgrade(new=(None,), within_s=2, failing={failing: (1, "")})
    assert code == 4
    assert line.startswith(f"upgrade: neither version runs; savepoint {SAVEPOINT} is safe. ")
    assert [job for job, _ in state["started"]] == (["new"] if failing == "create configmap" else [])


@pytest.mark.wide("slow")
def test_where_neither_version_runs_the_last_line_says_what_to_do(upgrade, tmp_path):
    code, line, _, state = upgrade(old=(None,), new=(None,), within_s=2)
    assert code == 4
    assert f"savepoint {SAVEPOINT} is safe" in line
    assert "bank-before-upgrade.json" in line
    assert (tmp_path / "bank-before-upgrade.json").read_text().strip() == "old"
    assert state["pin"] == SAVEPOINT  # whoever applies one of them goes on from there


def test_a_pin_that_stays_is_told(upgrade):
    code, line, _, state = upgrade(new=(None,), within_s=2, failing={"delete configmap": (1, "")})
    assert (code, state["job"]) == (4, "old")
    assert line == "upgrade: the old version runs again, but ConfigMap bank-pin is still there: delete it"


def test_the_namespace_is_that_of_every_call_to_the_cluster(upgrade):
    code, _, calls, _ = upgrade("--namespace", "banks", "--timeout", "300", "k8s/overlays/s3")
    assert code == 0
    assert {tuple(call[:2]) for call in calls} == {("--namespace", "banks")}


def test_it_ends_at_the_first_command_that_fails_and_at_a_name_that_is_not_set():
    assert "set -euo pipefail" in (K8S / "upgrade.sh").read_text().splitlines()
