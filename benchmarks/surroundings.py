"""A cluster of several nodes with an S3 server, of which parts can fail, for `chaos`."""

import json
import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.cluster_utils import Cluster

from rayshot.keys.signing import new_private_key
from tests.places.s3_server import CREDENTIALS, S3Server, running_s3_server

NODES, CPUS = 3, 8
SILENT_S = 5.0
LOST_PERCENT = 1
"""Of the calls of actors' methods: so many never arrive, so many answers do not, and of so many nobody knows."""
LOST = dict.fromkeys(("req_failure_prob", "resp_failure_prob", "in_flight_failure_prob"), LOST_PERCENT)
LOSES_CALLS = {
    "RAY_testing_rpc_failure": json.dumps({"CoreWorkerService.grpc_client.PushTask": {"num_failures": -1, **LOST}}),
    "RAY_testing_rpc_failure_avoid_intra_node_failures": "false",
}
"""Ray reads this when a process starts: it makes the calls fail that the process makes."""
NOTICED = {"health_check_initial_delay_ms": 1_000, "health_check_period_ms": 1_000, "health_check_failure_threshold": 5}
"""Ray counts a dead node as alive for some seconds, and places actors on it."""


@dataclass
class Surroundings:
    """See the module."""

    server: S3Server
    cluster: Any
    nodes: list[Any] = field(default_factory=list)
    """All but the head, the oldest first."""
    losing: list[Any] = field(default_factory=list)
    """Those, dead ones too, that lost calls."""

    @property
    def storage(self) -> str:
        """Where snapshots go."""
        return self.server.address("chaos")

    @property
    def loses_calls(self) -> bool:
        """Whether there is a node that does."""
        return any(node in self.losing for node in self.nodes)

    def add_node(self, *, loses_calls: bool = False) -> None:
        """Add a node; if asked one whose processes lose some of the calls that they make."""
        self.nodes.append(self.cluster.add_node(num_cpus=CPUS, env_vars=LOSES_CALLS if loses_calls else {}))
        if loses_calls:
            self.losing.append(self.nodes[-1])

    def replace_node(self, *, loses_calls: bool = False) -> None:
        """SIGKILL for the oldest node and all processes there; another one comes in its place."""
        self.cluster.remove_node(self.nodes.pop(0), allow_graceful=False)
        self.add_node(loses_calls=loses_calls)

    def silence_storage(self) -> None:
        """The S3 server answers nobody for SILENT_S seconds."""
        os.kill(self.server.pid, signal.SIGSTOP)
        threading.Timer(SILENT_S, os.kill, (self.server.pid, signal.SIGCONT)).start()


@contextmanager
def several_nodes() -> Iterator[Surroundings]:
    """Start them, and connect this program. Nothing is left of them afterwards."""
    os.environ.update(CREDENTIALS, RAYSHOT_SIGNING_KEY=new_private_key().text)
    with running_s3_server() as server:
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
