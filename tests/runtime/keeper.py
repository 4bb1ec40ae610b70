"""Actors with states that a plain unpickling cannot make again."""

import dataclasses

import rayshot

UNSET = object()


class Proxy:
    """Gives everything else to what it wraps."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)


class Node:
    """Lies in a set of its parent, hashed by its name."""

    def __init__(self, name, parent):
        self.name, self.parent = name, parent
        parent.append({self})

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        return self.name == other.name


class Money:
    """Made by `__new__` alone."""

    def __new__(cls, cents):
        made = super().__new__(cls)
        made.cents = cents
        return made


class Refused(Exception):
    """Wants other arguments than its pickle has."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


@rayshot.actor
class Keeper:
    """Gives unknown attributes to what it wraps, and holds all of the above."""

    class Page:
        """A class with a dot in its name."""

    def __init__(self):
        self.inner = {"a": 1}
        self.sentinels = UNSET, dataclasses.MISSING
        self.kept = Proxy([1]), Node("a", []), Money(5), Refused(7, "no"), Keeper.__rayshot_user_class__.Page()

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def look(self):
        proxy, node, money, refused, page = self.kept
        return [proxy.index(1), node in node.parent[0], money.cents, refused.code, type(page).__name__, *self.keys()]

    def are_set(self):
        value, default = self.sentinels
        return value is not UNSET or default is not dataclasses.MISSING
