"""A program that tells a ledger its lines, one after the other, and dies at some line if it is told to.

Arguments: address of the cluster, name of the system, name of the program, lines, the line before which it dies or -1.
It prints what earlier processes had told.
"""

import os
import signal
import sys

import ray

import rayshot


def main(address, system, name, lines, dies_at):
    ray.init(address, log_to_driver=False)
    attached = rayshot.attach(system, as_=name)
    told = attached.told.get("ledger", 0)
    print(told, flush=True)
    ledger = attached.get_actor("ledger")
    for line in range(told, lines):
        if line == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if line % 10:
            ledger.write.tell(line)
        else:
            ray.get(ledger.write.remote(line))
    ray.get(ledger.read.remote())


if __name__ == "__main__":
    address, system, name, lines, dies_at = sys.argv[1:]
    main(address, system, name, int(lines), int(dies_at))
