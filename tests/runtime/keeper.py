"""Actors with states that a plain unpickling cannot make again."""

import dataclasses

import rayshot
from tests.format.hard_to_make import Money, Proxy, Refused

UNSET = object()


class Node:
    """Lies in a set of its parent, hashed by its name."""

    def __init__(self, name, parent):
        self.name, self.parent = name, parent
        parent.append({self})

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        return self.name == other.name


@rayshot.actor
class Keeper:
    """Gives unknown attributes to what it wraps, and holds an object of each kind."""

    class Page:
        """A class with a dot in its name."""

    def __init__(self):
        self.inner = {"a": 1}
        self.sentinels = UNSET, dataclasses.MISSING
        self.kept = Proxy([1]), Node("a", []), Money(5), Refused(7, "no"), Keeper.Page()

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def stumble(self):
        try:
            try:
                self.inner["stock"]
            except KeyError as missing:
                raise Refused(7, "no") from missing
        except Refused as error:
            self.error = error

    def errors(self):
        """The kept error and those before it: nothing of rayshot is among them."""
        error, cause = self.error, self.error.__cause__
        return [repr(error), error.code, repr(cause), error.__context__ is cause, cause.__context__]

    def look(self):
        proxy, node, money, refused, page = self.kept
        return [proxy.index(1), node in node.parent[0], money.cents, refused.code, type(page).__name__, *self.keys()]

    def are_set(self):
        value, default = self.sentinels
        return value is not UNSET or default is not dataclasses.MISSING
