"""A bank in which one branch keeps something back now and then."""

import rayshot


@rayshot.actor(deterministic=True)
class Branch:
    def __init__(self, balance, greed=None):
        self.balance = balance
        self.greed = greed
        self.next = None
        self.handled = 0

    def lead_to(self, following):
        self.next = following

    def pay(self, amount, hops):
        self.handled += 1
        if hops:
            self.balance -= amount
            self.next.deposit.tell(amount, hops - 1)

    def deposit(self, amount, hops):
        self.handled += 1
        self.balance += amount - (3 if amount == self.greed else 0)
        if hops:
            self.balance -= amount
            self.next.deposit.tell(amount, hops - 1)

    def count(self):
        return self.handled


@rayshot.actor(deterministic=True)
class Lender(Branch.__rayshot_user_class__):
    """The same, which also lends by a reply, gives a new branch its money, and can leave."""

    def fetch(self, amount):
        self.handled += 1
        self.next.lend.remote(amount).then(self.deposit, 0)

    def lend(self, amount):
        self.handled += 1
        self.balance -= amount
        return amount

    def found(self, name, amount):
        self.handled += 1
        self.balance -= amount
        Lender.options(name=name).remote(amount)

    def leave(self):
        rayshot.current().exit()


@rayshot.actor
class Careless(Branch.__rayshot_user_class__):
    """The same, of which nobody says that it is deterministic."""
