"""Makes the storages with values that need care, kept beside those of `make`: `python -m tests.golden.make_values`.

It writes `tests/golden/<name>-<number>` for those that are not there: arrays that share memory, classes whose
shapes are recorded, and states of which was said what was proved.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ray

import rayshot
from rayshot.format.manifest import FORMAT_VERSION
from tests.golden.make import KEY
from tests.golden.workloads import Account, Gallery, Till

ACTORS: dict[str, dict[str, tuple[Any, ...]]] = {
    "shared": {"gallery": (Gallery,)},
    "shaped": {"till": (Till,)},
    "proved": {"alice": (Account, 100), "gallery": (Gallery,), "till": (Till,), "another": (Till,)},
}
"""For each storage the classes of its actors, with their arguments; `gallery` is not to be proved."""


def main() -> None:
    """Take a snapshot of the actors of each missing storage."""
    folders = {name: Path(__file__).parent / f"{name}-{FORMAT_VERSION}" for name in ACTORS}
    os.environ["RAYSHOT_SIGNING_KEY"] = KEY
    ray.init("local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    for name, folder in folders.items():
        if not folder.exists():
            take(folder, ACTORS[name])
    ray.shutdown()


def take(folder: Path, kinds: Mapping[str, tuple[Any, ...]]) -> None:
    """One snapshot of these actors."""
    system = rayshot.init("bank", storage=folder, failure=rayshot.FailureConfig(scope="stop"))
    for name, (kind, *arguments) in kinds.items():
        actor = kind.options(name=name, prove=name != "gallery").remote(*arguments)
        ray.get(actor.read.remote() if kind is Account else actor.look.remote())
    system.snapshot(label="payday")
    system.shutdown()


if __name__ == "__main__":
    main()
