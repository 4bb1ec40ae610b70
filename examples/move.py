"""Move a running system to another Ray cluster: nothing is lost, and nothing happens twice.

RAY_ADDRESS names the cluster in which each of these runs:

    python examples/move.py begin shots     # two accounts pay each other from now on, without this program
    python examples/move.py leave shots     # in the same cluster: the system stops with a savepoint
    python examples/move.py arrive shots    # in the other cluster: it goes on from the savepoint
    python examples/move.py end shots       # in the other cluster: it stops for good

The storage must be one that both clusters can reach, such as a bucket. Between two machines a folder cannot be.
"""

import sys

import ray

import rayshot

SYSTEM = "moving-bank"
TOGETHER = 200


@rayshot.actor
class Account:
    """An account that pays its partner again and again."""

    def __init__(self, balance: int) -> None:
        self.balance = balance
        self.payments = 0

    def pay(self, partner: rayshot.ActorHandle) -> None:
        """Pay the partner 1, and go on a moment later."""
        self.balance -= 1
        self.payments += 1
        partner.deposit.tell(1)
        rayshot.current().after(0.01, self.pay, partner)

    def deposit(self, amount: int) -> None:
        """Take `amount` in."""
        self.balance += amount

    def count(self) -> int:
        """Say how many payments this account has made."""
        return self.payments


def payments(system: rayshot.System) -> int:
    """How many payments both accounts have made."""
    return sum(ray.get([system.get_actor(name).count.remote() for name in ("alice", "bob")]))


def money(snapshot: rayshot.Snapshot) -> int:
    """The money in a snapshot: on the accounts, and in the payments that are on their way."""
    on_accounts = sum(state["balance"] for state in snapshot.states().values())
    between = (snapshot.channel(*pair) for pair in (("alice", "bob"), ("bob", "alice")) if pair in snapshot.channels)
    on_their_way = sum(len(channel.messages) for channel in between)  # each is a deposit of 1
    return on_accounts + on_their_way


def begin(storage: str) -> None:
    """Begin the system, and leave it running."""
    rayshot.init(SYSTEM, storage=storage, fresh=True)
    alice, bob = (Account.options(name=name).remote(TOGETHER // 2) for name in ("alice", "bob"))
    ray.get([alice.count.remote(), bob.count.remote()])
    alice.pay.tell(bob)
    bob.pay.tell(alice)
    ray.get([alice.count.remote(), bob.count.remote()])
    print("alice and bob pay each other; this program ends, and they go on")


def leave(storage: str) -> None:
    """Stop the system with a savepoint."""
    system = rayshot.attach(SYSTEM)
    savepoint = system.stop_with_savepoint("move to the other cluster")
    made = sum(state["payments"] for state in savepoint.states().values())
    print(f"stopped with savepoint {savepoint.id}: {made} payments, {money(savepoint)} in all")
    print(f"go on in the other cluster from {storage}")


def arrive(storage: str) -> None:
    """Go on from the savepoint."""
    system = rayshot.restore(SYSTEM, storage=storage)
    print(f"goes on as life {system.incarnation}, with {payments(system)} payments or more")


def end(storage: str) -> None:
    """Stop the system for good, and say what it did here."""
    system = rayshot.attach(SYSTEM)
    made, snapshot = payments(system), system.snapshot()
    system.shutdown()
    print(f"{made} payments, {money(snapshot)} in all; the snapshots stay in {storage}")


STEPS = {"begin": begin, "leave": leave, "arrive": arrive, "end": end}

if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in STEPS:
        sys.exit(__doc__)
    STEPS[sys.argv[1]](sys.argv[2])
