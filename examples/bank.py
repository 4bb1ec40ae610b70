"""Two accounts, a snapshot while money is on its way, and the bank restored from it: `python examples/bank.py`.

Run it twice: the second run goes on from the last snapshot of the first.
"""

import logging
import sys

import ray

import rayshot


@rayshot.actor
class Account:
    """Money, and ways to move it."""

    def __init__(self, balance: int) -> None:
        self.balance = balance

    def transfer(self, to: rayshot.ActorHandle, amount: int) -> None:
        """Send `amount`: between the two accounts it exists only as a message."""
        self.balance -= amount
        to.deposit.tell(amount)

    def deposit(self, amount: int) -> None:
        """Take `amount` in."""
        self.balance += amount

    def read(self) -> int:
        """Tell the balance."""
        return self.balance


def open_accounts(_system: rayshot.System) -> None:
    """Make the first actors, where there is no snapshot to go on from."""
    for name in ("alice", "bob"):
        Account.options(name=name).remote(100)


def main(storage: str = "./shots") -> None:
    """Move money, photograph it, and go back to the photograph."""
    ray.init("local", num_cpus=4, include_dashboard=False, logging_level=logging.ERROR)
    system = rayshot.resume("bank", storage=storage, begin=open_accounts)
    alice, bob = (system.get_actor(name) for name in ("alice", "bob"))
    for _ in range(50):
        alice.transfer.tell(bob, 1)
        bob.transfer.tell(alice, 1)
    snap = system.snapshot()
    snap.verify()

    balances = {name: state["balance"] for name, state in snap.states().items()}
    messages = [message for channel in snap.channels.values() for message in channel.messages]
    on_its_way = sum(message.args[0] for message in messages if message.method == "deposit")
    print(f"{balances} and {on_its_way} on its way: {sum(balances.values()) + on_its_way} in all")

    system.shutdown()
    with rayshot.resume("bank", storage=storage, begin=open_accounts) as system:
        accounts = [system.get_actor(name) for name in ("alice", "bob")]
        while sum(restored := ray.get([account.read.remote() for account in accounts])) < 200:
            pass  # the rest is still on its way
        print(f"restored: {restored}, {sum(restored)} in all")
    ray.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
