"""A running system whose storage is a real S3 server, behind a proxy that lets it fail."""

import os
import subprocess
import sys
import threading

import pytest

from tests.places.fault_proxy import Plan, Spoil, running_proxy
from tests.places.s3_server import CREDENTIALS, running_s3_server
from tests.processes import ROOT, search_path

KEY = "a signing key of thirty-two bytes"
LIFE_MAX_S = 180.0


@pytest.mark.wide("slow")
@pytest.mark.ray
@pytest.mark.acceptance("D6", "D11")
def test_a_system_on_s3_outlives_storms_and_slowness_of_its_storage_and_is_restored_from_there():
    environment = {**os.environ, **CREDENTIALS, "RAYSHOT_SIGNING_KEY": KEY, "PYTHONPATH": str(ROOT)}
    with running_s3_server() as s3, running_proxy(s3.port) as proxy:
        bank = subprocess.Popen(
            [sys.executable, "-m", "tests.runtime.on_s3", s3.address("ray", proxy.endpoint) + "&retries=1&timeout_s=2"],
            cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        watchdog = threading.Timer(LIFE_MAX_S, bank.kill)
        watchdog.start()
        try:
            assert bank.stdout.readline() == "calm committed handled=True\n"
            proxy.restart(Plan(Spoil.UNAVAILABLE, count=10**6))
            go_on(bank)
            assert bank.stdout.readline() == "storm store_unavailable handled=True in_time=True\n"
            proxy.restart()
            proxy.delay_s = 1.0
            go_on(bank)
            assert bank.stdout.readline() == "slow store_unavailable handled=True in_time=True\n"
            proxy.delay_s = 0.0
            go_on(bank)
            assert bank.stdout.readline() == "restored True verified=True\n"
            go_on(bank)
            assert bank.wait(60) == 0
        finally:
            watchdog.cancel()
            bank.kill()
            bank.communicate()


@pytest.mark.wide("slow")
@pytest.mark.ray
@pytest.mark.acceptance  # of no row of the table, but large there
def test_a_large_snapshot_goes_to_s3_is_proved_copied_to_disk_and_restored_from_the_copy(tmp_path, in_full):
    environment = {**os.environ, **CREDENTIALS, "RAYSHOT_SIGNING_KEY": KEY, **search_path()}
    with running_s3_server() as s3:
        command = [s3.address("moved"), str(tmp_path / "copy"), "1000" if in_full else "50"]
        run = subprocess.run(
            [sys.executable, "-m", "tests.runtime.moved", *command],
            cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip
    lines = run.stdout.splitlines()  # Ray writes there, too
    assert any(line.startswith("moved snapshot ") for line in lines), run.stdout + run.stderr
    print(run.stdout)


def go_on(bank):
    bank.stdin.write("\n")
    bank.stdin.flush()
