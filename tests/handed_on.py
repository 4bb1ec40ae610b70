"""A bank that one release of Ray leaves in a storage and another one goes on with: `python -m tests.handed_on STORAGE`.

`scripts/matrix` calls it in each environment with one storage, so each run restores what the run before it wrote.
"""

import sys
import time

import ray

import rayshot

BALANCE, AMOUNT = 1_000_000, 200
WITHIN_S = 30.0


@rayshot.actor
class Account:
    """Pays into another one."""

    def __init__(self):
        self.balance = BALANCE
        self.releases = []

    def pay(self, other):
        self.balance -= 1
        other.deposit.tell(1)

    def deposit(self, amount):
        self.balance += amount

    def visit(self, release):
        self.releases.append(release)
        return self.balance, self.releases


def main(storage):
    """Go on with the bank, or begin it; move money and stop. Prints the releases that had it, the last one last."""
    from tests.handed_on import Account as Imported  # by its name: another Python reads no class of a script

    def begin(system):
        for name in ("alice", "bob"):
            Imported.options(name=name).remote()

    ray.init("local", num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    system = rayshot.resume("bank", storage=storage, begin=begin)
    alice, bob = system.get_actor("alice"), system.get_actor("bob")
    left, releases = ray.get(alice.visit.remote(ray.__version__))
    assert left == BALANCE - AMOUNT * (len(releases) - 1), (left, releases)
    until = time.monotonic() + WITHIN_S
    while ray.get(bob.visit.remote(ray.__version__))[0] + left != 2 * BALANCE:  # what was in flight comes, once
        assert time.monotonic() < until, "money is lost"
    for _ in range(AMOUNT):
        alice.pay.tell(bob)
    system.stop_with_savepoint("for the next release")
    print(" -> ".join(releases))


if __name__ == "__main__":
    main(sys.argv[1])
