"""What is run beside the bank of two pods: the CronJob that takes savepoints, and what a worker does before it ends."""

import json
import re
import subprocess

import pytest

import rayshot
from tests.k8s.bank import SUM, await_line, latest, money, snapshots
from tests.k8s.manifests import all_templates, of_kind
from tests.k8s.rayjob import WHY_NOT, RayJob

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or ""),
]


@pytest.fixture(scope="module")
def bank(tmp_path_factory):
    made = RayJob(tmp_path_factory.mktemp("bank"))
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


def end_worker(bank):
    """What a kubelet does with its pod: the command of the manifest, then its end; returns what the pod's log says."""
    _, template = all_templates([bank.rayjob])
    command = template["spec"]["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    grace_s = template["spec"]["terminationGracePeriodSeconds"]
    code, said = bank.worker.execute(*map(bank.of_this_machine, command), timeout=grace_s)
    bank.worker.kill()
    assert code == 0, said
    return await_line(bank.worker.printed, r"this pod ends: .*")


def test_a_worker_that_ends_has_a_snapshot_committed_first_and_the_bank_goes_on_from_it(bank):
    before = {str(snapshot.id) for snapshot in snapshots(bank.storage)}
    said = end_worker(bank)
    (waited_for,) = re.findall(r"snapshot (\S+) was committed", said)
    left = latest(bank.storage).id  # the one it waited for, or a later one
    assert waited_for in {str(snapshot.id) for snapshot in snapshots(bank.storage)} - before

    bank.start_worker()
    await_line(bank.log, r"life 2 runs")
    assert rayshot.open(bank.storage).system("bank").restored_from()[2] == left
    await_line(bank.log, rf"snapshot 2-coordinator-1: .* {SUM} in all")


def test_a_worker_whose_head_is_gone_ends_within_its_grace_period_and_says_why_there_was_no_snapshot(bank):
    """The last one: it ends the head."""
    bank.head.kill()
    assert "no Ray cluster runs at" in end_worker(bank)
