"""What is run beside the bank of three pods, whose Ray speaks TLS: commands, and what workers do before they end."""

import json
import re
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import rayshot
from tests.certificates import make_certificates
from tests.k8s.bank import SUM, await_line, latest, money, snapshots
from tests.k8s.manifests import all_templates, of_kind
from tests.k8s.rayjob import WHY_NOT, RayJob
from tests.pods import BIN

pytestmark = [
    pytest.mark.wide("a cluster of pods, with certificates: a minute and a half"),
    pytest.mark.ray,
    pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or ""),
]

ANSWER_S = 30.0
"""Ray itself gives up after more than a minute. The command does after some seconds, beside a busy machine's start."""


@pytest.fixture(scope="module")
def bank(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bank")
    made = RayJob(folder, workers=2, certificates=make_certificates(folder / "certificates"))
    try:
        made.start()
        await_line(made.log, r"life 1 runs")
        yield made
    finally:
        made.end()


def run_cronjob(bank, *, instead=("nightly", "nightly")):
    """Its very words, in its environment and outside of the cluster; returns the exit code and the last line."""
    (template,) = all_templates([of_kind(bank.documents, "CronJob", "bank-savepoint")])
    (container,) = template["spec"]["containers"]
    variables = {one["name"]: one.get("value", bank.token) for one in container["env"]}
    kept = {name: bank.head.environment[name] for name in ("PATH", "PYTHONPATH")}
    done = subprocess.run(
        [bank.of_this_machine(word).replace(*instead) for word in container["args"]],
        env=kept | variables,
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    documents = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert documents, done.stdout + done.stderr
    return done.returncode, json.loads(documents[-1])


def test_the_cronjob_of_savepoints_leaves_one_that_retention_does_not_delete(bank):
    code, document = run_cronjob(bank)
    assert (code, document["system"], document["label"]) == (0, "bank", "nightly")
    (savepoint,) = [one for one in snapshots(bank.storage) if one.label == "nightly"]
    assert str(savepoint.id) == document["snapshot"]
    assert sum(money(savepoint)) == SUM


def test_its_job_fails_where_the_bank_is_not_there_and_its_last_line_says_why(bank):
    code, document = run_cronjob(bank, instead=("bank", "another"))
    assert (code, document["error"]["kind"]) == (1, "system_not_found")


def rayshot_says(bank, *arguments, **variables):
    """Of a program beside the head: its exit code, what it printed, and its last line for people."""
    program = BIN / "rayshot"
    done = bank.head.run(program, *arguments, RAY_ADDRESS=bank.head.address, **variables)
    return done.returncode, done.stdout, done.stderr.splitlines()[-1:]


def test_commands_with_the_certificates_reach_the_bank_and_its_nodes(bank):
    code, printed, _ = rayshot_says(bank, "status", "bank", "--json")
    assert (code, json.loads(printed)["state"]) == (0, "running")
    code, printed, _ = rayshot_says(bank, "doctor", "--json")
    findings = {one["what"]: one for one in json.loads(printed)["findings"]}
    assert (code, "3 nodes; bank run there" in findings["cluster"]["seen"]) == (0, True)
    assert {findings[what]["level"] for what in ("metrics", "token")} == {"ok"}


def test_whoever_has_not_the_right_certificates_is_told_in_one_line_what_to_set(bank, tmp_path):
    strangers = make_certificates(tmp_path / "strangers")
    ours = bank.certificates["RAY_TLS_CA_CERT"]
    for variables, words in (
        ({"RAY_USE_TLS": "0"}, "speaks TLS, and this program does not: set RAY_USE_TLS=1, and RAY_TLS_SERVER_CERT"),
        (strangers, r"is not signed by a CA in RAY_TLS_CA_CERT \(.+\): set RAY_TLS_CA_CERT to the cluster's own"),
        (strangers | {"RAY_TLS_CA_CERT": ours}, "refuses this program's certificate: set RAY_TLS_SERVER_CERT and"),
        ({"RAY_TLS_SERVER_KEY": ""}, "RAY_USE_TLS is set, and RAY_TLS_SERVER_KEY is not"),
        ({"RAY_TLS_CA_CERT": "/none"}, "RAY_TLS_CA_CERT=/none cannot be read: No such file or directory"),
        ({"RAY_TLS_CA_CERT": bank.certificates["RAY_TLS_SERVER_KEY"]}, "RAY_TLS_CA_CERT=.* holds no certificate"),
    ):
        began = time.monotonic()
        code, printed, (complaint,) = rayshot_says(bank, "status", "bank", **variables)
        assert time.monotonic() - began < ANSWER_S
        assert (code, printed) == (20, "")
        assert re.match("error: cluster_refused: .*" + words, complaint), complaint


def end_workers(bank):
    """What kubelets do with their pods, at once: the command of the manifest, then the end. What the pods' logs say."""
    _, template = all_templates([bank.rayjob])
    command = template["spec"]["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    grace_s = template["spec"]["terminationGracePeriodSeconds"]
    hook = list(map(bank.of_this_machine, command))
    with ThreadPoolExecutor() as kubelets:
        ends = list(kubelets.map(lambda worker: worker.execute(*hook, timeout=grace_s), bank.workers))
    for worker in bank.workers:
        worker.kill()
    assert {code for code, _ in ends} == {0}, ends
    ended, bank.workers = bank.workers, []
    return [await_line(worker.printed, r"this pod ends: .*") for worker in ended]


def test_workers_that_end_at_once_have_a_snapshot_committed_first_and_the_bank_goes_on_from_it(bank):
    before = {str(snapshot.id) for snapshot in snapshots(bank.storage)}
    said = end_workers(bank)
    waited_for = re.findall(r"snapshot (\S+) was committed", " ".join(said))
    assert len(waited_for) == 2, said
    left = latest(bank.storage).id  # one that they waited for, or a later one
    assert set(waited_for) <= {str(snapshot.id) for snapshot in snapshots(bank.storage)} - before

    bank.start_workers()
    await_line(bank.log, r"life [2-9] runs")  # a coordinator may have begun one on a node that was just ending
    assert rayshot.open(bank.storage).system("bank").restored_from()[2] == left
    await_line(bank.log, rf"snapshot [2-9]-coordinator-\d+: .* {SUM} in all")


def test_workers_whose_head_is_gone_end_within_their_grace_period_and_say_why_there_was_no_snapshot(bank):
    """The last one: it ends the head."""
    bank.head.kill()
    assert all("no Ray cluster runs at" in said for said in end_workers(bank))
