"""Actors that tests run in a simulated world, in a module that can be imported."""

import dataclasses

import rayshot


@rayshot.actor
class Account:
    """Money, and ways to move it."""

    def __init__(self, balance):
        self.balance = balance

    def transfer(self, to, amount):
        self.balance -= amount
        to.deposit.tell(amount)

    def deposit(self, amount):
        self.balance += amount

    def read(self):
        return self.balance

    def fail(self):
        raise ValueError("on purpose")


@rayshot.actor
class Forgetful(Account):
    """Loses money: of two deposits in a row from the same sender it takes one."""

    def __init__(self, balance):
        super().__init__(balance)
        self.last = ""

    def deposit(self, amount):
        if rayshot.current().sender != self.last:
            self.balance += amount
        self.last = rayshot.current().sender


@rayshot.actor
class Trader:
    """Does everything that an actor can do, and keeps its money and the order of its messages."""

    def __init__(self, money):
        self.money = money
        self.sent = {}
        self.seen = {}
        self.asked = self.answered = 0
        self.bell = 0

    def trade(self, others, rounds):
        """Pay some, ask one, make a child of one's own, set a timer, begin a snapshot."""
        for other in others:
            self.pay(other, 1)
        others[0].worth.remote().then(self.on_worth, others[-1])
        self.asked += 1
        if rounds % 3 == 2:
            child = Trader.remote(2)
            self.money -= 2
            child.leave.tell(others[0])
        if rounds % 2:
            rayshot.current().after(rounds, self.ring, rounds)
        if rounds == 3:
            rayshot.current().snapshot()
        if rounds:
            rayshot.current().after(0.5, self.trade, others, rounds - 1)

    def pay(self, other, amount):
        number = self.sent[other.name] = self.sent.get(other.name, 0) + 1
        self.money -= amount
        other.take.tell(amount, number)

    def take(self, amount, number):
        sender = rayshot.current().sender
        assert number == self.seen.get(sender, 0) + 1, f"{sender} sent {number} after {self.seen.get(sender, 0)}"
        self.seen[sender] = number
        self.money += amount

    def worth(self):
        return self.money

    def on_worth(self, worth, other):
        self.answered += 1
        if worth % 2:
            self.pay(other, 1)

    def ring(self, rounds):
        self.bell += rounds

    def leave(self, successor):
        self.pay(successor, self.money)
        rayshot.current().exit()


@rayshot.actor
class Clock:
    """Sets its timer again for ever."""

    def __init__(self, period):
        self.period = period
        self.times = []
        rayshot.current().after(period, self.tick)

    def tick(self):
        self.times.append(len(self.times))
        rayshot.current().after(self.period, self.tick)


@rayshot.actor
class Parent:
    """Makes actors in its handlers and in its constructor."""

    def __init__(self, names=(), *, fail=False):
        self.children = [Account.options(name=name).remote(1) for name in names]
        for child in self.children:
            child.deposit.tell(1)
        if fail:
            raise RuntimeError("no such luck")

    def make(self, name):
        self.children.append(Account.options(name=name).remote(5))

    def spread(self, amount):
        for child in self.children:
            child.deposit.tell(amount)


@dataclasses.dataclass
class Note:
    """A value of the user's own."""

    text: str
    tags: list


@rayshot.actor
class Notebook:
    """Holds values that are shared, mutated and loaded by rules of their own."""

    def __init__(self):
        self.notes = []
        self.open = True

    def add(self, note):
        self.notes.append(note)

    def add_twice(self, other, note):
        other.add.tell(note)
        note.tags.append("changed")
        other.add.tell(note)

    async def read_soon(self):
        return [note.text for note in self.notes]

    def __getstate__(self):
        return {"notes": self.notes}

    def __setstate__(self, state):
        self.notes = state["notes"]
        self.open = "again"


@rayshot.actor
class Stuck:
    """Holds what cannot be pickled."""

    def __init__(self):
        self.generator = (number for number in range(3))


@rayshot.actor(on_error="stop")
class Strict:
    """Its failure is the system's."""

    def fail(self):
        raise ValueError("on purpose")


@rayshot.actor
class Asker:
    """Continues with what others answer."""

    def __init__(self):
        self.heard = []

    def ask(self, other, method):
        getattr(other, method).remote().then(self.on_answer, other.name, on_error=self.on_refusal)

    def ask_in_vain(self, other):
        self.heard.append(other.read.remote())

    def on_answer(self, value, name):
        self.heard.append((name, value))

    def on_refusal(self, error, name):
        self.heard.append((name, type(error).__name__))


class Undecorated(Account):
    """Inherits from a decorated class."""


class Plain:
    """Not decorated at all."""

    count = 0

    def add(self, number):
        self.count += number


class Sneaky:
    """Uses a handle that is not its own."""

    handle = None

    def sneak(self):
        self.handle.deposit.tell(1)
