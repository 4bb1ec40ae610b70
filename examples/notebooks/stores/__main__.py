"""`python -m examples.notebooks.stores [bank] [sky] ...`: see the package."""

import logging
import os
import shutil
import sys
import tempfile

import ray

from examples.notebooks.stores import STORAGE, bank, crew, prompts, ranks, sky, training

MAKERS = {
    "bank": bank.make,
    "sky": sky.make,
    "crew": crew.make,
    training.FIRST: training.make,
    training.BY_HAND: training.make_by_hand,  # goes on from a snapshot of the one before
    prompts.SYSTEM: prompts.make,
    ranks.SYSTEM: ranks.make,
}
CPUS = 40


def main(names: list[str]) -> None:
    """Make these systems anew, all of them if none is named."""
    with tempfile.TemporaryDirectory() as keys:
        os.environ["XDG_CONFIG_HOME"] = keys  # what is shipped is signed by a key that nobody has
        ray.init("local", num_cpus=CPUS, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
        for name in names or MAKERS:
            shutil.rmtree(STORAGE / name, ignore_errors=True)
            MAKERS[name](STORAGE)
        ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1:])
