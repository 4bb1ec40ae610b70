"""Makes the storage with arrays that share memory, kept beside those of `make`: `python -m tests.golden.make_shared`.

It writes `tests/golden/shared-<number>`, and refuses where that is there, as `make` does.
"""

import os
import sys
from pathlib import Path

import ray

import rayshot
from rayshot.format.manifest import FORMAT_VERSION
from tests.golden.make import KEY
from tests.golden.workloads import Gallery

FOLDER = Path(__file__).parent / f"shared-{FORMAT_VERSION}"


def main() -> None:
    """Take a snapshot of one gallery."""
    if FOLDER.exists():
        sys.exit(f"{FOLDER} is there: golden files are kept, not made anew")
    os.environ["RAYSHOT_SIGNING_KEY"] = KEY
    ray.init("local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    system = rayshot.init("bank", storage=FOLDER, failure=rayshot.FailureConfig(scope="stop"))
    gallery = Gallery.options(name="gallery").remote()
    ray.get(gallery.look.remote())
    system.snapshot(label="payday")
    system.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    main()
