"""What a worker's pod does before it ends: its node is drained, and it waits until a snapshot of the bank is committed.

Kubernetes calls it (`preStop`) before SIGTERM, and what it takes counts as part of `terminationGracePeriodSeconds`. The
pod ends whatever comes of it. No pod that dies at once calls it, and nothing moves: when the node is gone the bank goes
back to its latest snapshot, which is then a second old, and not an interval.
"""

import os
import signal
import subprocess
import time

import ray

import rayshot
from rayshot.errors import RayshotError

SYSTEM = os.environ.get("RAYSHOT_SYSTEM", "bank")
WITHIN_S = 40
LOOK_S = 0.5


def drain() -> None:
    """Tell Ray that the node goes: the coordinator takes a snapshot then, and nothing new is placed here."""
    node = ray.get_runtime_context().get_node_id()
    why = ["--reason=DRAIN_NODE_REASON_PREEMPTION", "--reason-message=its pod ends"]
    deadline = f"--deadline-remaining-seconds={WITHIN_S}"
    subprocess.run(["ray", "drain-node", f"--node-id={node}", *why, deadline], check=True, capture_output=True)


def leave() -> str:
    """Drain, and wait. Returns what came of it; raises RayshotError where the bank cannot be asked."""
    bank = rayshot.attach(SYSTEM)
    before = bank.status()
    if before.state != "running":
        return f"it is {before.state}, so there is nothing to wait for"
    older = {before.last_snapshot, *(snapshot.id for snapshot in before.snapshots)}
    began = time.monotonic()
    drain()
    while (now := bank.status()).state == "running":
        if now.last_snapshot not in older:
            return f"snapshot {now.last_snapshot} was committed {time.monotonic() - began:.1f} s after the drain"
        time.sleep(LOOK_S)
    return f"it is {now.state}, and no snapshot came about"


if __name__ == "__main__":
    signal.alarm(WITHIN_S)  # it ends this process even while Ray waits for a head that is gone
    try:
        said = leave()
    except (RayshotError, subprocess.CalledProcessError) as error:
        said = str(error)
    print(f"{SYSTEM}: this pod ends: {said}", flush=True)
