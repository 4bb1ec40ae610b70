"""A cluster of several nodes with an S3 server, of which parts can fail, for `chaos`."""

import json
import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
from ray.cluster_utils import Cluster

from rayshot.format.keys import new_private_key
from tests.store.s3_server import CREDENTIALS, S3Server, running_s3_server

NODES, CPUS = 3, 8
SILENT_S = 5.0
LOST_PERCENT = 1
NOTICED = {"health_check_initial_delay_ms": 1_000, "health_check_period_ms": 1_000, "health_check_failure_threshold": 5}
"""Ray counts a dead node as alive for some seconds, and places actors on it."""


@dataclass
class Surroundings:
    """See the module."""

    server: S3Server
    cluster: Any
    nodes: list[Any] = field(default_factory=list)
    """All but the head, the oldest first."""

    @property
    def storage(self) -> str:
        """Where snapshots go."""
        return self.server.address("chaos")

    def add_node(self) -> None:
        """Add a node."""
        self.nodes.append(self.cluster.add_node(num_cpus=CPUS))

    def replace_node(self) -> None:
        """SIGKILL for the oldest node and all processes there; another one comes in its place."""
        self.cluster.remove_node(self.nodes.pop(0), allow_graceful=False)
        self.add_node()

    def silence_storage(self) -> None:
        """The S3 server answers nobody for SILENT_S seconds."""
        os.kill(self.server.pid, signal.SIGSTOP)
        threading.Timer(SILENT_S, os.kill, (self.server.pid, signal.SIGCONT)).start()


@contextmanager
def calls_fail() -> Iterator[None]:
    """In a cluster that starts inside, LOST_PERCENT of the calls of actors' methods are lost, three times over.

    They are lost on the way there, on the way back, or neither side knows where. Ray reads this once in each process,
    so calls of this program are lost if it has used no cluster before; then they go on being lost afterwards.
    """
    lost = dict.fromkeys(("req_failure_prob", "resp_failure_prob", "in_flight_failure_prob"), LOST_PERCENT)
    settings = {
        "RAY_testing_rpc_failure": json.dumps({"CoreWorkerService.grpc_client.PushTask": {"num_failures": -1, **lost}}),
        "RAY_testing_rpc_failure_avoid_intra_node_failures": "false",
    }
    os.environ.update(settings)
    try:
        yield
    finally:
        for name in settings:
            del os.environ[name]


@contextmanager
def several_nodes(disk: Path | None = None) -> Iterator[Surroundings]:
    """Start them, with the S3 server on that disk, and connect this program. Nothing is left of them afterwards."""
    os.environ.update(CREDENTIALS, RAYSHOT_SIGNING_KEY=new_private_key().text)
    with running_s3_server(disk) as server:
        head = {"num_cpus": CPUS, "include_dashboard": False, "_system_config": NOTICED}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            around = Surroundings(server, cluster)
            for _ in range(NODES - 1):
                around.add_node()
            ray.init(address=cluster.address, logging_level=logging.ERROR, log_to_driver=False)
            yield around
        finally:
            ray.shutdown()
            cluster.shutdown()
