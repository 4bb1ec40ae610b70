"""Makes the storages with values that need care, kept beside those of `make`: `python -m tests.golden.make_values`.

It writes `tests/golden/<name>-<number>` for those that are not there: arrays that share memory, and classes whose
shapes are recorded.
"""

import os
from pathlib import Path
from typing import Any

import ray

import rayshot
from rayshot.format.manifest import FORMAT_VERSION
from tests.golden.make import KEY
from tests.golden.workloads import Gallery, Till

ACTORS: dict[str, Any] = {"shared": Gallery, "shaped": Till}


def main() -> None:
    """Take a snapshot of one actor for each missing storage."""
    folders = {name: Path(__file__).parent / f"{name}-{FORMAT_VERSION}" for name in ACTORS}
    os.environ["RAYSHOT_SIGNING_KEY"] = KEY
    ray.init("local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    for name, folder in folders.items():
        if not folder.exists():
            take(folder, ACTORS[name])
    ray.shutdown()


def take(folder: Path, kind: Any) -> None:
    """One snapshot of one actor of this class."""
    system = rayshot.init("bank", storage=folder, failure=rayshot.FailureConfig(scope="stop"))
    actor = kind.options(name=kind.__name__.lower()).remote()
    ray.get(actor.look.remote())
    system.snapshot(label="payday")
    system.shutdown()


if __name__ == "__main__":
    main()
