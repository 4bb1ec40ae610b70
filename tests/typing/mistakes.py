"""A bank with mistakes. Each stands in a line that says so; type checkers find these and no others.

`test_typing.py` also makes the plain program of it, without `@rayshot.method` and the base. It is never run.
"""

import os
import signal

import ray

import rayshot


@rayshot.actor
class Account(rayshot.Actor):
    def __init__(self, balance: int, *, owner: str = "") -> None:
        self.balance = balance
        self.owner = owner

    @rayshot.method
    def deposit(self, amount: int, *, why: str = "") -> None:
        self.balance += amount

    @rayshot.method
    def withdraw(self, amount: int) -> int:
        self.deposit(-amount)
        self.deposit("a lot")  # mistake: inside the class it is called as it is
        return amount

    @rayshot.method
    def read(self) -> int:
        return self.balance

    @rayshot.method
    def mark(self, **words: str) -> int:
        return len(words)

    @rayshot.method
    async def history(self, last: int = 10) -> list[str]:
        return ["opened"][:last]


@rayshot.actor(version=2, max_concurrency=8)
class Savings(Account):
    def __init__(self, balance: int, rate: float) -> None:
        super().__init__(balance)
        self.rate = rate

    @rayshot.method
    def deposit(self, amount: int, *, why: str = "interest") -> None:
        super().deposit(amount, why=why)
        super().deposit(amount, wy=why)  # mistake: also where the base's method is called

    @rayshot.method
    def read(self) -> int:
        return super().read() + 1


@rayshot.actor
class Clerk(rayshot.Actor):
    def __init__(self, queue: rayshot.Queue[int]) -> None:
        self.queue = queue
        self.open: rayshot.Reply[int] | None = None

    @rayshot.method
    def move(self, amount: int, giver: rayshot.ActorHandle[Account], taker: rayshot.ActorHandle[Account]) -> None:
        self.open = giver.read.remote()
        giver.withdraw.remote(amount).then(self.on_money, taker)
        giver.withdraw.remote(amount).then(self.on_money, taker, on_error=self.on_error)
        giver.withdraw.remote(amount).then(self.on_money)  # mistake: the context lacks
        giver.withdraw.remote(amount).then(self.on_money, "bob")  # mistake: the context is of another type
        rayshot.gather([giver.read.remote(), taker.read.remote()]).then(self.on_balances)
        rayshot.gather([giver.read.remote(), taker.read.remote()]).then(self.on_money)  # mistake: it gets a list
        rayshot.current().after(1.5, self.watch, "ten")
        rayshot.current().after(1.5, self.watch, 10)  # mistake: arguments of a timer

    @rayshot.method
    def on_money(self, amount: int, taker: rayshot.ActorHandle[Account]) -> None:
        taker.deposit.tell(amount)

    @rayshot.method
    def on_error(self, error: Exception, taker: rayshot.ActorHandle[Account]) -> None:
        taker.deposit.tell(0, why=str(error))

    @rayshot.method
    def on_balances(self, balances: list[int]) -> int:
        return sum(balances)

    @rayshot.method
    def watch(self, what: str) -> None:
        for item in rayshot.loop(self.queue.get):
            self.queue.put(item + 1)
            self.queue.put(what)  # mistake: an item of another type

    @rayshot.method
    def total(self, accounts: list[rayshot.ActorHandle[Account]]) -> int:
        balances = rayshot.get([account.read.remote() for account in accounts])
        return sum(balances) + rayshot.get(accounts[0].read.remote())

    @rayshot.method
    async def names(self, account: rayshot.ActorHandle[Account]) -> list[str]:
        found = await account.history.remote(3)
        found.append(3)  # mistake: the result of an async method is known
        return found

    @rayshot.method
    def forward(self, account: rayshot.ActorHandle[Account]) -> rayshot.Reply[int]:
        return account.read.remote()


@rayshot.actor(capture="forked")  # mistake: an option of the class
class Teller(Clerk): ...


def begin(system: rayshot.System) -> None:
    alice = Account.options(name="alice", num_cpus=0.5, on_error="stop").remote(100, owner="Alice")
    queue = rayshot.Queue[int](10)
    clerk = Clerk.options(name="clerk", get_if_exists=True).remote(queue)
    savings = Savings.remote(10, 0.5)
    clerk.move.tell(1, alice, savings)
    clerk.move.options(num_returns=0).remote(amount=1, giver=alice, taker=savings)
    alice.mark.tell(colour="red")
    alice.deposit.options(durable=True).remote(10, why="birthday")
    print(alice.name, len(clerk.name), ray.get(clerk.forward.remote(savings)) + 1)
    rayshot.kill(clerk)


def mistaken(system: rayshot.System, account: rayshot.ActorHandle[Account], clerk: rayshot.ActorHandle[Clerk]) -> None:
    Account.remote("100")  # mistake: an argument of the constructor
    Account.remote()  # mistake: it lacks
    Account.remote(100, ownr="Bob")  # mistake: its name
    Account.remot(100)  # mistake: a misspelt method of the class
    Account.options(name="bob").remote("100")  # mistake: an argument behind options
    Account.options(system="bank", name="carol").remote(100)
    Account.options(nam="bob")  # mistake: the name of an option
    Account.options(system=7)  # mistake: what names a system
    Account.options(capture="forked")  # mistake: the value of an option
    Account.options(num_cpus="two")  # mistake: the type of an option
    account.deposit.tell("10")  # mistake: an argument of a tell
    account.deposit.tell()  # mistake: it lacks
    account.deposit.tell(10, "rent")  # mistake: too many
    account.deposit.tell(10, wy="rent")  # mistake: its name
    account.withdraw.remote("10")  # mistake: an argument of a call
    account.withdrw.remote(10)  # mistake: a misspelt method
    account.balance.remote()  # mistake: an attribute is no method
    account.deposit(10)  # mistake: a direct call
    account.deposit.tel(10)  # mistake: a misspelt tell
    account.deposit.options(num_returns=2)  # mistake: the value of an option of a call
    account.deposit.options(durabel=True)  # mistake: its name
    ray.get(account.read.remote()) + "x"  # mistake: the result of a call
    ray.get([account.read.remote()])[0].upper()  # mistake: the results of several
    text: str = rayshot.get(account.read.remote())  # mistake: the result of a call that waits
    clerk.move.tell(1, account, clerk)  # mistake: the handle of another class
    clerk.move.tell(1, account, Account(100))  # mistake: an object is no handle
    system.get_actor("bob", Account).red.remote()  # mistake: a misspelt method of a handle by name
    system.snapshot(mode="alined")  # mistake: a mode
    rayshot.init("bank", storage=text, trace="all")  # mistake: a setting
    rayshot.SnapshotConfig(mode="stop-world")  # mistake: a mode in settings
    rayshot.FailureConfig(scope="actor")  # mistake: a scope
    rayshot.iniit("bank", storage="./shots")  # mistake: a misspelt name of rayshot
    rayshot.kill("bob")  # mistake: a name is no handle
    os.kill(system.status().actors["bob"].pid, signal.SIGKILL)
    system.status().actors["bob"].mailbx  # mistake: a misspelt figure
