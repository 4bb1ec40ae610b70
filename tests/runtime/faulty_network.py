"""Run by itself: `python faulty_network.py CASE STORAGE NUMBERS`: a system in a cluster in which Ray's calls fail.

Ray reads what fails when its processes start, so the cluster is one of its own. CASE is a key of CASES.
"""

import json
import logging
import os
import sys
import time

import ray

import rayshot
from rayshot import SnapshotConfig
from rayshot.errors import SnapshotAborted
from tests.runtime.healed import HEALS
from tests.runtime.heralds import Court, check_cut

PERCENT = 10
DELAY_S = 0.2
ROUND, PAUSE_S = 20, 0.02
CHECKED_S = 240.0
ASKED = 20


def failing(*which: str) -> dict[str, str]:
    """A tenth of the calls of actors' methods fail: on the way there, on the way back, or neither side knows where."""
    each = PERCENT // len(which)
    probabilities = {f"{one}_failure_prob": each if one in which else 0 for one in ("req", "resp", "in_flight")}
    calls = {"CoreWorkerService.grpc_client.PushTask": {"num_failures": -1, **probabilities}}
    return {
        "RAY_testing_rpc_failure": json.dumps(calls),
        "RAY_testing_rpc_failure_avoid_intra_node_failures": "false",
    }


DELAYED = {"RAY_testing_asio_delay_us": f"CoreWorkerService.grpc_server.PushTask=0:{DELAY_S * 1e6:.0f}"}
CASES = {
    "requests": failing("req"),
    "responses": failing("resp"),
    "in flight": failing("in_flight"),
    "delays": DELAYED,
    "all": failing("req", "resp", "in_flight") | DELAYED,
}


class Answering:
    """A plain Ray actor."""

    def answer(self) -> float:
        """When it was called."""
        return time.monotonic()


def check_faults(case: str) -> None:
    """The calls of a plain Ray actor fail, and come late: so those of the system do."""
    actor = ray.remote(num_cpus=0)(Answering).remote()
    lost, late_s = 0, []
    while lost < (case != "delays") or max(late_s, default=0.0) < DELAY_S / 2 * (case in ("delays", "all")):
        began = time.monotonic()
        try:
            late_s.append(ray.get(actor.answer.remote()) - began)
        except ray.exceptions.ActorUnavailableError:
            lost += 1


def main(case: str, storage: str, numbers: str) -> None:
    os.environ |= CASES[case]
    ray.init("local", num_cpus=8, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    try:
        check_faults(case)
        system = rayshot.init("bank", storage=storage, failure=HEALS, snapshots=SnapshotConfig(timeout_s=30.0))
        court, committed = Court.assemble(system), 0
        while court.told < int(numbers) or not committed:
            court.tell(ROUND)
            time.sleep(PAUSE_S)
            if court.told % (20 * ROUND) == 0:
                committed += is_committed(system)
        court.check(CHECKED_S)
        for _ in range(ASKED):
            system.status()  # raises NoAnswer after 30 s: as long a call waits that Ray executes behind a lost one
        assert system.status().recoveries == (), "nobody had died, and nobody was taken for dead"
        print(f"{case}: all heard all of {court.told}, with {committed} snapshots")
        system.shutdown()
    finally:
        ray.shutdown()


def is_committed(system: rayshot.System) -> bool:
    """Take a snapshot: its calls may fail too, and then it is aborted."""
    try:
        check_cut(system.snapshot())
    except SnapshotAborted as error:
        print(f"aborted: {error.message}", file=sys.stderr)
        return False
    return True


if __name__ == "__main__":
    main(*sys.argv[1:])
