"""Classes for the tests of the model, in a module that other processes can import."""

import abc
import asyncio

import rayshot


@rayshot.actor
class Account:
    """Plain bookkeeping."""

    def __init__(self, balance=0):
        self.balance = balance
        self.log = []

    def deposit(self, amount):
        self.balance += amount
        return self.balance

    def withdraw(self, amount, *, fee=0):
        if amount + fee > self.balance:
            raise ValueError("not enough")
        self.balance -= amount + fee
        return self.balance

    async def deposit_soon(self, amount):
        await asyncio.sleep(0)
        return self.deposit(amount)

    def note(self, *what):
        self.log.append(what)

    def note_error(self, *what):
        self.log.append(("error", *what))


@rayshot.actor
class Asker:
    """Calls others and continues with what they answer."""

    def __init__(self):
        self.shared = []
        self.heard = []

    def ask(self, other, *context):
        other.read.remote().then(self.on_result, *context)

    def ask_carefully(self, other, *context):
        other.read.remote().then(self.on_result, *context, on_error=self.on_refusal)

    def ask_with_shared(self, other):
        other.read.remote().then(self.on_result, self.shared)

    def on_result(self, value, *context):
        self.heard.append((value, *context))

    def on_refusal(self, error, *context):
        self.heard.append((type(error), str(error), *context))


@rayshot.actor
class Unreadable(Exception):
    """Pickles, and cannot be unpickled: it is made again by a call that fails."""

    def __reduce__(self):
        return int, ("seven",)


class Connected:
    """Leaves out of its state what cannot be stored, and makes it again."""

    def __init__(self, address):
        self.address = address
        self.connection = (line for line in ())

    def __getstate__(self):
        return ("v1", self.address)

    def __setstate__(self, state):
        version, self.address = state
        self.connection = f"{version} to {self.address}"


@rayshot.actor
class Counted:
    """Says what of it is stored, and leaves the loading to others."""

    def __init__(self):
        self.count = 1
        self.cache = "large"

    def __getstate__(self):
        return {"count": self.count}


@rayshot.actor
class Fragile:
    """Its constructor fails when it is told to."""

    def __init__(self, *, fail):
        self.fail = fail
        if fail:
            raise ValueError("no such luck")

    def read(self):
        return self.fail


class Registry(abc.ABCMeta):
    """A user's own metaclass."""

    made: tuple = ()

    def __init__(cls, name, bases, namespace):
        super().__init__(name, bases, namespace)
        Registry.made = (*Registry.made, name)

    @property
    def shout(cls):
        return cls.__name__.upper()


@rayshot.actor
class Registered(metaclass=Registry):
    """A class whose class is not `type`."""

    def __init__(self, number):
        self.number = number

    def read(self):
        return self.number


@rayshot.actor(num_cpus=2, capture="inline")
class Configured:
    """A class with options."""

    def read(self):
        return 1


@rayshot.actor
class Leaver:
    """Ends by its own wish."""

    def leave(self):
        rayshot.current().exit()


@rayshot.actor
class Switchboard:
    """Keeps its own methods in a table, and itself."""

    def __init__(self):
        self.count = 0
        self.me = self
        self.table = {"up": self.up}
        self.friend = Switchboard.__new__(Switchboard)
        self.friend.count = 0

    def up(self):
        self.count += 1

    def press(self, key):
        self.table[key]()


@rayshot.actor
class Wrapper:
    """Gives unknown attributes to what it wraps."""

    def __init__(self):
        self.inner = {"a": 1}

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def read(self):
        return self.inner["a"]
