"""Makes the storages that are kept beside those of `make`: `python -m tests.golden.make_sealed`.

It writes `tests/golden/sealed-<number>`, and refuses where that is there, as `make` does.
"""

import os
import sys
from pathlib import Path

import ray

import rayshot
from rayshot.format.manifest import FORMAT_VERSION
from rayshot.keys.encryption import EncryptionKey
from rayshot.keys.signing import PrivateKey
from tests.golden.make import KEY
from tests.golden.workloads import Account

ENCRYPTION_KEY = EncryptionKey(bytes(range(32)))
PAIR = PrivateKey(bytes(range(32, 64)))
"""Keys that are not secret."""
FOLDER = Path(__file__).parent / f"sealed-{FORMAT_VERSION}"


def main() -> None:
    """Take a snapshot that is encrypted, one that is signed by a pair of keys, and copy that one."""
    if FOLDER.exists():
        sys.exit(f"{FOLDER} is there: golden files are kept, not made anew")
    ray.init("local", num_cpus=8, include_dashboard=False, log_to_driver=False)
    os.environ.update(RAYSHOT_SIGNING_KEY=KEY, RAYSHOT_ENCRYPTION_KEY=ENCRYPTION_KEY.text)
    take(FOLDER / "encrypted")
    del os.environ["RAYSHOT_ENCRYPTION_KEY"]
    os.environ.update(RAYSHOT_SIGNING_KEY=PAIR.text)
    take(FOLDER / "ed25519")
    rayshot.copy(FOLDER / "ed25519", FOLDER / "copied")
    ray.shutdown()


def take(storage: Path) -> None:
    """Two accounts, of which one pays the other while that one does something else."""
    system = rayshot.init("bank", storage=storage, failure=rayshot.FailureConfig(scope="stop"))
    alice, bob = (Account.options(name=name).remote(100) for name in ("alice", "bob"))
    ray.get([alice.read.remote(), bob.read.remote()])
    bob.pause.tell(3.0)
    for amount in (1, 2):
        alice.pay.tell(bob, amount)
    ray.get(alice.read.remote())
    system.snapshot(label="payday")
    system.shutdown()


if __name__ == "__main__":
    main()
