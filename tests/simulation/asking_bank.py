"""A bank whose clerks ask its accounts: they begin and end meanwhile, and no cut holds half of what they do."""

import random

import rayshot
from rayshot.errors import AnswerTimedOut
from rayshot.simulation import SimulatedSystem
from rayshot.simulation.world.networks import NETWORKS

ACCOUNTS, MONEY = 3, 100
MODES = ("chandy-lamport", "aligned", "stop-the-world")


@rayshot.actor
class Account:
    """Tells who asks how much there was, and then answers: the tell stands before the answer."""

    def __init__(self):
        self.balance = MONEY

    def withdraw(self, amount, asker):
        asker.note.tell(self.balance)
        self.balance -= amount
        return amount

    def deposit(self, amount):
        self.balance += amount

    def read(self):
        return self.balance


@rayshot.actor
class Clerk:
    def __init__(self, accounts, me=None):
        self.accounts, self.halves, self.moved, self.notes = accounts, 0, 0, 0
        self.first = rayshot.get(accounts[0].read.remote())

    def move(self, me, source, target, amount, within_s):
        self.halves += 1
        reply = self.accounts[source].withdraw.remote(amount, me)
        try:
            money = rayshot.get(reply, timeout=within_s)
        except AnswerTimedOut:  # the money is on its way: wait for it
            money = rayshot.get(reply)
        self.accounts[target].deposit.tell(money)
        self.moved += 1
        self.halves -= 1

    def employ(self, name, source, target):
        """A new clerk works at once, and ends."""
        helper = Clerk.options(name=name).remote(self.accounts)
        helper.move.tell(helper, source, target, 1, None)
        helper.leave.tell()

    def ask_another(self, other):
        self.halves += 1
        rayshot.get([other.count.remote(), self.accounts[1].read.remote()])
        self.halves -= 1

    def count(self):
        return self.moved

    def note(self, _balance):
        self.notes += 1

    def leave(self):
        rayshot.current().exit()


@rayshot.actor
class AsyncClerk(Clerk):
    async def move(self, me, source, target, amount, within_s):
        self.halves += 1
        money = await self.accounts[source].withdraw.remote(amount, me)
        self.accounts[target].deposit.tell(money)
        self.moved += 1
        self.halves -= 1

    async def ask_another(self, other):
        self.halves += 1
        await other.count.remote()
        await self.accounts[1].read.remote()
        self.halves -= 1


def money_in(snapshot):
    """All money of a cut: in accounts, and in deposits on their way."""
    held = sum(state["balance"] for state in snapshot.states().values() if "balance" in state)
    moving = (m for channel in snapshot.channels.values() for m in channel.messages if m.method == "deposit")
    return held + sum(message.args[0] for message in moving)


def play(seed):
    """One schedule; returns how often things happened in it."""
    chance = random.Random(seed)
    faults = {name: chance.randrange(3) for name in ("crashes", "takeovers", "deadlines")}
    mode, network = chance.choice(MODES), chance.choice(sorted(NETWORKS))
    with SimulatedSystem(seed, snapshots=4, mode=mode, network=network, **faults) as world:
        accounts = [world.create(Account, name=f"account{number}") for number in range(ACCOUNTS)]
        clerks = [
            world.create(chance.choice((Clerk, AsyncClerk)), accounts, name=f"clerk{number}") for number in range(3)
        ]
        for number in range(10):
            clerk, other = chance.sample(clerks, 2) if number % 4 == 3 else (chance.choice(clerks), None)
            source, target = chance.sample(range(ACCOUNTS), 2)
            if number % 5 == 4:
                clerk.employ.tell(f"helper{number}", source, target)
            elif other is not None and clerks.index(clerk) < clerks.index(other):  # else they could wait in a circle
                clerk.ask_another.tell(other)
            else:
                clerk.move.tell(clerk, source, target, chance.randint(1, 9), chance.choice((None, 1.0)))
        world.run()
        total = sum(world.state(f"account{number}")["balance"] for number in range(ACCOUNTS))
        assert total == ACCOUNTS * MONEY, f"{total} is in the bank at the end"
        for snapshot in world.snapshots:
            if all(f"account{number}" in snapshot.states() for number in range(ACCOUNTS)):
                assert money_in(snapshot) == ACCOUNTS * MONEY, f"{money_in(snapshot)} is in {snapshot.id}"
            halves = {name for name, state in snapshot.states().items() if state.get("halves")}
            assert not halves, f"{snapshot.id} holds half a handler of {halves}"
        errors = {letter.error.strip().splitlines()[-1] for letter in world.dead_letters if "ended" not in letter.error}
        assert not errors
        suspended = sum(why.startswith("suspended") for why in world.aborted.values())
        return {"snapshots": len(world.snapshots), "refused": suspended, "rollbacks": world.rollbacks}
