"""Classes whose objects pickle and that a plain unpickling cannot make again."""


class Proxy:
    """Gives everything else to what it wraps."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)


class Money:
    """Made by `__new__` alone."""

    def __new__(cls, cents):
        made = super().__new__(cls)
        made.cents = cents
        return made


class Refused(Exception):
    """Wants other arguments than those that its pickle has."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code
