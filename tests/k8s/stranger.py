"""Another program in the pod of the bank: `kill` an account, or `lose` all it has; `stop` it with a savepoint."""

import os
import signal
import sys
from pathlib import Path

import ray

import rayshot


def processes(*actors):
    """Those of these classes: of this pod alone, which sees no others."""
    for process in Path("/proc").glob("[0-9]*"):
        if (process / "cmdline").read_bytes().startswith(tuple(f"ray::{actor}".encode() for actor in actors)):
            yield int(process.name)


def begin(_system):
    raise AssertionError("the bank should run")


if __name__ == "__main__":
    ray.init(logging_level="ERROR", log_to_driver=False)
    bank = rayshot.resume("bank", storage=os.environ["RAYSHOT_STORAGE"], begin=begin)
    match sys.argv[1:]:
        case ["kill", account]:
            os.kill(bank.status().actors[account].pid, signal.SIGKILL)
        case ["lose"]:
            for process in [*processes("Coordinator", "Vault", "Account")]:
                os.kill(process, signal.SIGKILL)
        case ["stop", label]:
            print("savepoint", bank.stop_with_savepoint(label).id)
