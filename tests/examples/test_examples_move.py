"""The example that moves a running system runs in two clusters."""

import os
import re
import subprocess
import sys

import pytest
from ray.cluster_utils import Cluster
from ray.experimental import internal_kv

from tests.processes import ROOT

pytestmark = pytest.mark.ray


@pytest.fixture
def two_clusters():
    clusters = [
        Cluster(initialize_head=True, head_node_args={"num_cpus": 4, "include_dashboard": False}) for _ in range(2)
    ]
    client = internal_kv.internal_kv_get_gcs_client()
    yield [cluster.address for cluster in clusters]
    for cluster in clusters:
        cluster.shutdown()
    if client is not None:  # it takes the store from this process too, which is in another cluster
        internal_kv._initialize_internal_kv(client)


def run(step, cluster, storage):
    done = subprocess.run(
        [sys.executable, "examples/move.py", step, storage],
        cwd=ROOT,
        env={**os.environ, "RAY_ADDRESS": cluster},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.wide("slow")
def test_a_running_system_moves_to_another_cluster_and_loses_nothing(two_clusters, tmp_path):
    here, there = two_clusters
    storage = str(tmp_path / "shots")
    assert run("begin", here, storage) == ["alice and bob pay each other; this program ends, and they go on"]
    stopped, _ = run("leave", here, storage)
    made = int(re.fullmatch(r"stopped with savepoint 1-stopped-\d+: (\d+) payments, 200 in all", stopped)[1])
    assert made > 0
    (arrived,) = run("arrive", there, storage)
    assert int(re.fullmatch(r"goes on as life 2, with (\d+) payments or more", arrived)[1]) >= made
    (ended,) = run("end", there, storage)
    assert int(re.match(r"(\d+) payments, 200 in all", ended)[1]) > made
