"""An actor of which programs want to know what it has done for ever."""

import ray

import rayshot
from rayshot.errors import ConfigError


@rayshot.actor
class Till:
    """Pays out; keeps what it paid, in order."""

    def __init__(self):
        self.paid = []

    def pay(self, number):
        self.paid.append(number)
        return number

    def read(self):
        return list(self.paid)

    def leave(self):
        rayshot.current().exit()
        return "left"

    @ray.method(num_returns=0)
    def note(self, number):
        self.paid.append(number)

    def ask(self, other):
        try:
            other.pay.options(durable=True).remote(1)
        except ConfigError as error:
            return str(error)
        return "no error"
