"""The programs of docs/recovering.md are killed and started again: each line counts once, each refund is paid."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest
import ray

import rayshot
from tests.processes import ROOT, search_path
from tests.waiting import eventually

pytestmark = pytest.mark.ray

BLOCKS = re.findall(r"```python[^\n]*\n# (\w+\.py): (.*?)```", (ROOT / "docs/recovering.md").read_text(), re.DOTALL)
ORDERS = [f"{'refund' if number % 3 == 0 else 'tea'} {number}" for number in range(60)]
REFUNDS = {f"ingest-7/{number}": number for number in range(0, 60, 3)}
HELP = """
import json, os, signal
from pathlib import Path


def die_once(where):
    if where == {dies_at!r}:
        os.kill(os.getpid(), signal.SIGKILL)


def pay(key, amount):
    with open("paid", "a") as file:
        file.write(json.dumps([key, amount]) + chr(10))
    die_once(key)


"""


class Programs:
    """Starts the programs of the page in a folder of their own."""

    def __init__(self, folder):
        self.folder, self.texts, self.begun = folder, dict(BLOCKS), []

    def start(self, name, dies_at=None):
        """`dies_at` is the line or key before which it dies, or the key behind whose payment it does."""
        text = re.sub(r"(?m)^( +)(?:book\.add|till\.owe)\.tell\((\w+)", r"\1die_once(\2)\n\g<0>", self.texts[name])
        (self.folder / name).write_text(HELP.format(dies_at=dies_at) + "# " + text)
        environment = {**os.environ, **search_path(), "RAY_ADDRESS": ray.get_runtime_context().gcs_address}
        process = subprocess.Popen(
            [sys.executable, name], cwd=self.folder, env=environment, stderr=subprocess.PIPE, text=True
        )
        self.begun.append(process)
        return process

    def run(self, name, dies_at=None):
        process = self.start(name, dies_at)
        _, errors = process.communicate(timeout=120)
        assert process.returncode == (0 if dies_at is None else -signal.SIGKILL), errors


@pytest.fixture
def programs(cluster, tmp_path):
    (tmp_path / "orders.txt").write_text("".join(f"{line}\n" for line in ORDERS))
    programs = Programs(tmp_path)
    yield programs
    for process in programs.begun:
        process.kill()
        process.communicate()


def kill(system, actor):
    life = system.incarnation
    os.kill(system.status().actors[actor].pid, signal.SIGKILL)
    eventually(lambda: system.incarnation > life, 60)
    system.wait_until_running(60)


def found(name):
    try:
        return rayshot.attach(name)
    except rayshot.errors.SystemNotFound:
        return None


def test_each_line_counts_once_and_each_refund_is_paid_whoever_is_killed(programs):
    programs.start("serve.py")
    system = eventually(lambda: found("shop"), 60)
    system.configure(rayshot.SnapshotConfig(interval_s=0.5))
    try:
        programs.run("ingest.py", dies_at=ORDERS[20])
        kill(system, "till")
        programs.run("ingest.py", dies_at="ingest-7/30")
        programs.run("ingest.py")
        programs.run("pay.py", dies_at="ingest-7/6")
        kill(system, "book")
        programs.run("pay.py")
        assert ray.get(system.get_actor("till").owed.remote()) == []
        assert system.snapshot().states()["book"]["lines"] == ORDERS
    finally:
        system.shutdown()
    paid = [tuple(json.loads(line)) for line in (programs.folder / "paid").read_text().splitlines()]
    assert {*paid} == {*REFUNDS.items()}, "what was paid again was the same under the same key"
    assert paid.count(("ingest-7/6", 6)) > 1, "it died before the till heard of this payment"
