"""Makes what is kept of a version that is released: `python -m tests.golden.release`, from the project's folder.

It writes `tests/golden/released/<version>`: storages of each kind, the names of the API, and the digests of all of it.
Where that is there it refuses: what was released is not made anew. Until the version has a tag, delete it first.
"""

import os
import sys
from hashlib import sha256
from pathlib import Path

import ray

import rayshot
from rayshot.keys.encryption import EncryptionKey
from rayshot.keys.signing import PrivateKey
from tests.golden import names
from tests.golden.workloads import Account, Gallery, Gate, Keeper, Museum, Till, Trainer, Worker

HERE = Path(__file__).parent
RELEASED = HERE / "released"
DIGESTS, NAMES = "SHA256SUMS", "names.txt"
KEY = "the key of the golden files, which is no secret"  # it signed them, so its words stay
ENCRYPTION_KEY = EncryptionKey(bytes(range(32)))
PAIR = PrivateKey(bytes(range(32, 64)))
"""Keys that are not secret."""
ONE_LIFE = rayshot.FailureConfig(scope="stop")


def storages(kind: str) -> list[str]:
    """The storages of this kind, below this folder: of development versions before 0.2.0, and of each release."""
    found = [*HERE.glob(f"{kind}-*"), *RELEASED.glob(f"*/{kind}")]
    assert found, "the golden files are gone"
    return sorted(path.relative_to(HERE).as_posix() for path in found)


def main() -> None:
    """Make all storages of this version."""
    folder = RELEASED / rayshot.__version__
    if folder.exists():
        sys.exit(f"{folder} is there: golden files are kept, not made anew")
    os.environ["RAYSHOT_SIGNING_KEY"] = KEY
    ray.init("local", num_cpus=8, include_dashboard=False, log_to_driver=False)
    full_flight(folder / "format")
    values(folder / "shared", gallery=Gallery)
    values(folder / "shaped", till=Till)
    values(folder / "proved", gallery=Gallery, till=Till, another=Till, alice=Account)
    waiting(folder / "waiting")
    values(folder / "outside", trainer=Trainer)
    os.environ["RAYSHOT_ENCRYPTION_KEY"] = ENCRYPTION_KEY.text
    sealed(folder / "sealed/encrypted")
    del os.environ["RAYSHOT_ENCRYPTION_KEY"]
    os.environ["RAYSHOT_SIGNING_KEY"] = PAIR.text
    sealed(folder / "sealed/ed25519")
    rayshot.copy(folder / "sealed/ed25519", folder / "sealed/copied")
    ray.shutdown()
    (folder / NAMES).write_text("".join(f"{name}\n" for name in sorted(names.of_today())), encoding="utf-8")
    (folder / DIGESTS).write_text("".join(f"{digest}  {file}\n" for file, digest in digests(folder).items()))


def digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file below the folder by its path there, except of the list of digests itself."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / DIGESTS)
    return {path.relative_to(folder).as_posix(): sha256(path.read_bytes()).hexdigest() for path in files}


def full_flight(storage: Path) -> None:
    """A small bank; a snapshot of it, and a labelled one in full flight."""
    system = rayshot.init("bank", storage=storage, trace="full", failure=ONE_LIFE)
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


def values(storage: Path, **kinds: type) -> None:
    """One snapshot of actors of these classes, which hold values that need care; `gallery` is not to be proved."""
    system = rayshot.init("bank", storage=storage, failure=ONE_LIFE)
    for name, kind in kinds.items():
        arguments = (100,) if kind is Account else ()
        actor = kind.options(name=name, prove=name != "gallery").remote(*arguments)  # type: ignore[attr-defined]
        ray.get(actor.read.remote() if kind is Account else actor.look.remote())
    system.snapshot(label="payday")
    system.shutdown()


def waiting(storage: Path) -> None:
    """A loop that waits for an item, handlers that wait for another one, and an actor that shall end."""
    system = rayshot.init("bank", storage=storage, trace="full", failure=ONE_LIFE)
    queue = rayshot.Queue(actor_options={"name": "queue"})
    Worker.options(name="worker").remote(queue).work.tell()
    gate = Gate.options(name="gate").remote()
    gate.come.tell("bob")
    gate.come.tell("carol")
    keeper = Keeper.options(name="keeper").remote()
    ray.get(keeper.make.remote())
    for item in (1, 2, 3):
        queue.put(item)
    while not queue.empty():
        pass
    keeper.end.tell()
    ray.get(gate.came.remote())
    system.snapshot(label="payday")
    system.shutdown()


def sealed(storage: Path) -> None:
    """Two accounts, of which one pays the other while that one does something else."""
    system = rayshot.init("bank", storage=storage, failure=ONE_LIFE)
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
