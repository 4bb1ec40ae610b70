"""Another program in the cluster of the bank: `kill` an account, or `stop` it with a savepoint of that label."""

import os
import signal
import sys

import ray

import rayshot


def begin(_system):
    raise AssertionError("the bank should run")


if __name__ == "__main__":
    ray.init(logging_level="ERROR", log_to_driver=False)
    bank = rayshot.resume("bank", storage=os.environ["RAYSHOT_STORAGE"], begin=begin)
    match sys.argv[1:]:
        case ["kill", account]:
            os.kill(bank.status().actors[account].pid, signal.SIGKILL)
        case ["stop", label]:
            print("savepoint", bank.stop_with_savepoint(label).id)
