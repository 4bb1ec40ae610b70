"""Run by itself: `python faulty_network.py CASE STORAGE MESSAGES`: a system in a cluster in which Ray's calls fail.

Ray reads what fails when its processes start, so the cluster is one of its own. CASE is a key of CASES.
"""

import json
import logging
import os
import sys
import time

import ray

import rayshot
from rayshot import FailureConfig, SnapshotConfig
from tests.runtime.heralds import Court, check_cut

PUSH = "CoreWorkerService.grpc_client.PushTask"
PERCENT, DELAY_US = 10, 200_000


def failing(which: str) -> dict[str, str]:
    """A tenth of the calls of actors' methods fail: on the way there, on the way back, or both."""
    probabilities = {f"{one}_failure_prob": PERCENT * (one == which) for one in ("req", "resp", "in_flight")}
    return {
        "RAY_testing_rpc_failure": json.dumps({PUSH: {"num_failures": -1, **probabilities}}),
        "RAY_testing_rpc_failure_avoid_intra_node_failures": "false",
    }


CASES = {
    "requests": failing("req"),
    "responses": failing("resp"),
    "in flight": failing("in_flight"),
    "delays": {"RAY_testing_asio_delay_us": f"CoreWorkerService.grpc_server.PushTask=0:{DELAY_US}"},
}


def main(case: str, storage: str, messages: str) -> None:
    os.environ |= CASES[case]
    ray.init("local", num_cpus=8, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    try:
        system = rayshot.init(
            "bank",
            storage=storage,
            failure=FailureConfig(scope="system", backoff_s=0.0),
            snapshot=SnapshotConfig(interval_s=None),
        )
        print("begun", time.monotonic(), flush=True)
        court = Court(system)
        print("court", time.monotonic(), flush=True)
        while court.told < int(messages):
            court.tell(20)
            time.sleep(0.02)
            if court.told % 400 == 0:
                print("told", court.told, time.monotonic(), flush=True)
                try:
                    snapshot = system.snapshot()
                    check_cut(snapshot)
                except rayshot.errors.RayshotError as e:
                    print("snapshot", repr(e)[:200], time.monotonic(), flush=True)
        court.check(240)
        print("checked", time.monotonic(), flush=True)
        status = system.status()
        assert status.recoveries == (), "what did not die was not taken for dead"
        print(f"heard {court.told} after {case}")
        system.shutdown()
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
