"""A bank whose money never rests and never changes in sum: the program that the RayJob `bank` runs.

It goes on from the latest snapshot however often it is started, on the same cluster or a new one. It ends with exit
code 0 when somebody stops the bank with a savepoint, and with an error, for KubeRay to start it anew, when it cannot go
on. `python main.py` runs it on a local Ray: set RAYSHOT_STORAGE to a folder.
"""

import os
import random
import time

import rayshot
from rayshot.errors import LivesElsewhere, NoAnswer, NotFound, SystemDown, SystemRecovering, SystemStopped

SYSTEM = os.environ.get("RAYSHOT_SYSTEM", "bank")
STORAGE = os.environ["RAYSHOT_STORAGE"]
ACCOUNTS = 6
BALANCE = 1_000
PAUSE_S = 0.05
LOOK_S = 5.0
SNAPSHOTS = rayshot.SnapshotConfig(interval_s=10, num_to_keep=10, keep_hourly=24, keep_daily=7)


@rayshot.actor
class Account:
    """Pays a bit of what it has to some other account, for ever."""

    def __init__(self, balance: int) -> None:
        self.balance = balance
        self.others: list[rayshot.ActorHandle] = []

    def open(self, others: list[rayshot.ActorHandle]) -> None:
        """Learn of the others, and begin."""
        self.others = others
        self.pay()

    def pay(self) -> None:
        """Send some money on its way: until it arrives it is in a message, and nowhere else."""
        amount = random.randint(0, min(10, self.balance))
        self.balance -= amount
        random.choice(self.others).deposit.tell(amount)
        rayshot.current().after(PAUSE_S, self.pay)

    def deposit(self, amount: int) -> None:
        """Take it in."""
        self.balance += amount


def open_accounts(_system: rayshot.System) -> None:
    """Make the bank, where there is no snapshot to go on from."""
    names = [f"account-{number}" for number in range(ACCOUNTS)]
    accounts = [Account.options(name=name).remote(BALANCE) for name in names]
    for account in accounts:
        account.open.tell([other for other in accounts if other is not account])


def start() -> rayshot.System:
    """Attach to the bank, or restore it, or begin it; where another life of it may still run, wait until it cannot."""
    while True:
        try:
            system = rayshot.resume(SYSTEM, storage=STORAGE, begin=open_accounts, snapshots=SNAPSHOTS)
        except LivesElsewhere as error:
            say(error.message)
            time.sleep(error.evidence["seconds_left"] + 1)
        else:
            say(f"life {system.incarnation} runs, with storage {STORAGE}")
            return system


def watch(system: rayshot.System) -> None:
    """Add the money up in each new snapshot, until the system is down. Raises SystemDown.

    What dies of the bank comes back by itself, also the coordinator: it may wait some minutes for a node.
    """
    system.on_recovery(lambda report: say(f"life {report.life} runs, from snapshot {report.snapshot}"))
    seen = None
    while True:
        try:
            system.get_actor("account-0")  # raises why the system is down
            last = system.status().last_snapshot
        except (NoAnswer, SystemRecovering) as error:
            say(error.message)
        else:
            if last is not None and last != seen:
                add_up(str(last))
                seen = last
        time.sleep(LOOK_S)


def add_up(snapshot: str) -> None:
    """Say where the money is in a snapshot, from its bytes. Raises AssertionError where some is missing."""
    try:
        photograph = rayshot.open(STORAGE).system(SYSTEM).snapshot(snapshot)
        held = sum(state["balance"] for state in photograph.states().values())
        flying = sum(
            message.args[0]
            for channel in photograph.channels.values()
            for message in channel.messages
            if message.method == "deposit"
        )
    except NotFound:
        return  # retention was faster
    say(f"snapshot {snapshot}: {held} in accounts, {flying} on the way, {held + flying} in all")
    if held + flying != ACCOUNTS * BALANCE:
        raise AssertionError(f"snapshot {snapshot} holds {held + flying}, not {ACCOUNTS * BALANCE}")


def stopped_on_purpose(life: int) -> bool:
    """Whether the last thing that this life left is the savepoint with which somebody stopped it."""
    last = rayshot.open(STORAGE).system(SYSTEM).latest()
    return last.id.incarnation == life and last.label is not None and last.mode == "stop-the-world"


def say(text: str) -> None:
    """Print it at once."""
    print(f"{SYSTEM}: {text}", flush=True)


def main() -> None:
    """Run the bank until somebody stops it with a savepoint; what dies of it is restored in the same cluster."""
    while True:
        system = start()
        try:
            watch(system)
        except SystemDown as error:
            if isinstance(error, SystemStopped) and stopped_on_purpose(system.incarnation):
                say("stopped with a savepoint: this program is done")
                return
            say(error.message)


if __name__ == "__main__":
    main()
