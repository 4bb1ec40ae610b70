"""A bank whose snapshots go to object storage, while its storage fails: a process of its own, told what to do."""

import logging
import sys
import threading
import time

import ray

import rayshot
from rayshot.errors import SnapshotAborted
from tests.runtime.workloads import Account

IMPATIENT = rayshot.SnapshotConfig(timeout_s=2)


def say(line):
    print(line, flush=True)
    sys.stdin.readline()  # until the test has changed what the storage does


def reason_of(system):
    """Ask for a snapshot that the storage does not let through; return why it ended, and after how long."""
    began = time.monotonic()
    try:
        system.snapshot()
    except SnapshotAborted as error:
        return error.evidence["reason"], time.monotonic() - began
    return "committed", time.monotonic() - began


def while_sending(alice, work):
    """Do `work` while messages are sent all the time; return its result and how many were handled meanwhile."""
    done = threading.Event()
    sent = [0]

    def send():
        while not done.is_set():
            alice.deposit.tell(1)
            sent[0] += 1
            time.sleep(0.0005)

    before = ray.get(alice.read.remote())
    thread = threading.Thread(target=send)
    thread.start()
    try:
        result = work()
    finally:
        done.set()
        thread.join()
    handled = ray.get(alice.read.remote()) - before
    assert handled == sent[0], f"{sent[0]} sent, {handled} handled"
    return result, handled


def main(address):
    ray.init("local", num_cpus=8, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    system = rayshot.init("bank", storage=address, snapshots=rayshot.SnapshotConfig())
    alice = Account.options(name="alice").remote(0)
    (reason, _), handled = while_sending(alice, lambda: reason_of(system))
    say(f"calm {reason} handled={handled > 0}")
    system.configure(IMPATIENT)  # not before: the first snapshot starts the vault
    for weather in ("storm", "slow"):
        (reason, took_s), handled = while_sending(alice, lambda: reason_of(system))
        print(f"{weather}: {handled / took_s:.0f} messages a second for {took_s:.1f} s", file=sys.stderr)
        say(f"{weather} {reason} handled={handled > 0} in_time={took_s < 30}")
    balance = ray.get(alice.read.remote())
    assert reason_of(system)[0] == "committed"
    system.shutdown()
    system = rayshot.restore("bank", storage=address)
    again = ray.get(system.get_actor("alice").read.remote())
    say(f"restored {again == balance} verified={system.snapshots()[-1].verify().sound}")
    system.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
