"""Makes the storage that is kept for good: `python -m tests.golden.make`, from the project's folder.

It writes `tests/golden/format-<number>`, and refuses where that is there: what is kept is not made anew, but by who
deletes it first because its format was never released.
"""

import os
import sys
from pathlib import Path

import ray

import rayshot
from rayshot.format.manifest import FORMAT_VERSION
from tests.golden.workloads import Account, Museum

KEY = "the key of the golden files, which is no secret"  # it signed them, so its words stay
FOLDER = Path(__file__).parent / f"format-{FORMAT_VERSION}"


def main() -> None:
    """Run a small bank, and take a snapshot and a labelled one of it in full flight."""
    if FOLDER.exists():
        sys.exit(f"{FOLDER} is there: golden files are kept, not made anew")
    os.environ["RAYSHOT_SIGNING_KEY"] = KEY
    ray.init("local", num_cpus=8, include_dashboard=False, log_to_driver=False)
    system = rayshot.init("bank", storage=FOLDER, trace="full", failure=rayshot.FailureConfig(scope="stop"))
    alice, bob = (Account.options(name=name).remote(100) for name in ("alice", "bob"))
    museum = Museum.options(name="museum").remote()
    ray.get([alice.read.remote(), bob.read.remote(), museum.look.remote()])
    system.snapshot()
    alice.remind.tell(3600.0)
    bob.pause.tell(5.0)
    alice.ask.tell(bob)
    for amount in (1, 2, 3):
        alice.pay.tell(bob, amount)
    alice.open_account.tell("carol", 7)
    ray.get(alice.read.remote())
    system.snapshot(label="payday")
    system.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    main()
