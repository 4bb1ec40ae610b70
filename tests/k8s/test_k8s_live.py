"""The commands of `k8s/` are commands of rayshot, and `upgrade.sh` moves a bank that runs on real heads of Ray."""

import os
import re
import secrets
import shlex
import subprocess
import sys
import threading
from multiprocessing.connection import Client, Listener
from pathlib import Path

import pytest

from rayshot.cli import main
from tests.k8s.bank import SUM, latest, money, snapshots
from tests.k8s.manifests import K8S, OVERLAYS, all_templates, build
from tests.pods import Pod, kill_children, name_spaces_can_be_made

PROGRAM = (K8S / "base" / "main.py").read_text()
DIES = PROGRAM.replace(
    "        self.balance -= amount\n", '        self.balance -= amount\n        self.version = "new"\n'
)
DIES = DIES.replace("            add_up(str(last))\n", '            raise SystemExit("it has committed, and dies")\n')
PROGRAMS = {"old": PROGRAM, "dies": DIES, "new": PROGRAM}
STAND_IN = Path(__file__).parent / "kubectl_of_pods.py"
PATIENCE_S = 300


def words_for_rayshot():
    """All calls of rayshot in the manifests, in README.md and in upgrade.sh, as words."""
    for overlay in OVERLAYS:
        for template in all_templates(build(K8S / "overlays" / overlay)):
            arguments = template["spec"]["containers"][0].get("args", [])
            yield arguments[arguments.index("rayshot") + 1 :] if "rayshot" in arguments else []
    text = (K8S / "README.md").read_text()
    for line in re.findall(r"^\$ (?:.*-- )?rayshot (.*?)(?:     #.*)?$", text, re.MULTILINE):
        yield shlex.split(line)
    for line in re.findall(r"in_head rayshot (.*? --json)", (K8S / "upgrade.sh").read_text()):
        yield shlex.split(line)


def test_each_call_of_rayshot_is_one_that_it_understands():
    calls = [words for words in words_for_rayshot() if words]
    assert {words[0] for words in calls} >= {"verify", "drill", "savepoint", "stop", "status", "keygen", "list"}
    for name, *arguments in calls:
        main.get_command(None, name).make_context(name, list(arguments))  # raises where it is wrong use


class Cluster:
    """One RayJob, whose pods are heads of Ray: what `upgrade.sh` asks of kubectl, done."""

    def __init__(self, folder):
        self.folder, self.job, self.pin = folder, None, None
        self.pods, self.drivers = [], []

    def start(self, job):
        variables = {"RAYSHOT_STORAGE": str(self.folder / "shots"), "RAYSHOT_SYSTEM": "bank"}
        if self.pin:
            variables["RAYSHOT_RESTORE_SNAPSHOT"] = self.pin
        self.pods.append(Pod(secrets.token_hex(16), variables=variables))
        self.pods[-1].wait()
        program = self.folder / f"{job}.py"
        program.write_text(PROGRAMS[job])
        self.job = job
        self.drivers.append(self.pods[-1].start("python", program, log=self.folder / f"driver-{len(self.drivers)}.log"))

    def run(self, *command):
        return self.pods[-1].execute(*command, timeout=PATIENCE_S)

    def end(self):
        for pod in self.pods:
            pod.end()
        for driver in self.drivers:
            kill_children(driver)

    def answer(self, arguments):
        match arguments:
            case ["kustomize", folder]:
                return 0, folder
            case ["apply", "view-last-applied", *_]:
                return 0, self.job
            case ["apply", "--filename", file]:
                self.start(Path(file).read_text().strip())
            case ["delete", "rayjob", *_]:
                self.pods[-1].kill()
            case ["get", "configmap", *_]:
                return (0, "") if self.pin else (1, "")
            case ["create", "configmap", _, _, literal]:
                self.pin = literal.removeprefix("snapshot=")
            case ["delete", "configmap", *_]:
                self.pin = None
            case ["get", "pods", *_]:
                return 0, "bank-head"
            case ["get", "rayjob", *_]:
                return 0, "Running" if self.drivers[-1].poll() is None else "Retrying"
            case ["exec", "bank-head", "--container", "ray-head", "--", *command]:
                return self.run(*command)
        return 0, ""


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    made.end()


@pytest.fixture
def upgrade(cluster, tmp_path):
    """Runs it against the cluster; returns its exit code and its last line."""
    (tmp_path / "bin").mkdir()
    kubectl = tmp_path / "bin" / "kubectl"
    kubectl.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STAND_IN}" "$@"\n')
    kubectl.chmod(0o755)

    def serve(listener):
        while True:
            with listener.accept() as asking:
                arguments = asking.recv()
                if arguments is None:
                    return
                asking.send(cluster.answer(arguments))

    def run(job, timeout_s):
        with Listener(str(tmp_path / "socket")) as listener:
            serving = threading.Thread(target=serve, args=(listener,))
            serving.start()
            environment = {"PATH": f"{kubectl.parent}:{os.environ['PATH']}", "CLUSTER_OF_TEST": listener.address}
            done = subprocess.run(
                [K8S / "upgrade.sh", "--timeout", str(timeout_s), job],
                env=os.environ | environment | {"UPGRADE_SETTLE_S": "20", "UPGRADE_PAUSE_S": "2"},
                capture_output=True, text=True, check=False, cwd=tmp_path,
            )  # fmt: skip
            with Client(listener.address) as last:
                last.send(None)
            serving.join()
        return done.returncode, done.stderr.splitlines()[-1]

    return run


@pytest.mark.wide("an upgrade and its way back with real pods: three minutes")
@pytest.mark.ray
@pytest.mark.skipif(not name_spaces_can_be_made(), reason="this user may make no name space of processes")
def test_a_version_that_commits_and_dies_gives_way_to_the_old_one_from_the_savepoint_and_a_good_one_stays(
    cluster, upgrade, tmp_path
):
    cluster.start("old")
    code, said = cluster.run("rayshot", "status", "bank", "--wait", "running", "--timeout", PATIENCE_S, "--json")
    assert code == 0, said

    code, line = upgrade("dies", 60)
    assert (code, cluster.job, cluster.pin) == (1, "old", None), line
    versions = [
        {state.get("version") for state in snapshot.states().values()} for snapshot in snapshots(tmp_path / "shots")
    ]
    told = [of for number, of in enumerate(versions) if number == 0 or of != versions[number - 1]]
    assert told == [{None}, {"new"}, {None}]  # what the new one committed is there, and the old one began before it

    code, line = upgrade("new", PATIENCE_S)
    assert (code, cluster.job) == (0, "new"), line
    assert sum(money(latest(tmp_path / "shots"))) == SUM
