"""Actors that make rows visible outside, in the memory of the test, and write down what they hear; for stories."""

from typing import ClassVar

import rayshot
from rayshot.errors import ActorExited


class World:
    """What the actors of a test did outside, and what they are to do."""

    def __init__(self):
        self.visible, self.heard, self.errors = [], [], {}
        self.said = {}
        self.gate, self.is_full = None, False

    def do(self, what):
        """Raise the error that is to come there, if any."""
        if self.gate is not None and what == "restore":
            self.gate.wait()
        if what in self.errors:
            raise self.errors[what]


@rayshot.actor(capture="inline")
class Writer:
    """Rows of which a snapshot knows become visible; each batch has its number."""

    world: ClassVar = World()

    def __init__(self):
        self.open, self.sealed, self.sequence = [], {}, 0

    def write(self, row):
        self.open.append(row)

    def read(self):
        return self.sequence, len(self.open)

    def pass_on(self, other, row):
        other.write.tell(row)

    def photograph(self):
        rayshot.current().snapshot()

    def leave(self):
        rayshot.current().exit()

    def on_snapshot(self, cut):
        self.world.said[cut.actor, cut.snapshot] = bool(cut.again), cut.takeover
        self.world.do("on_snapshot")
        if self.open:
            self.sequence += 1
            self.sealed[self.sequence], self.open = self.open, []
        sequence = self.sequence

        def seal():
            self.world.heard.append(("sealed", cut.snapshot, cut.cancelled.is_set()))
            self.world.do("seal")
            return sequence

        return seal

    def on_commit(self, cut):
        self.world.heard.append(("commit", cut.snapshot))
        batches = {number: rows for number, rows in self.sealed.items() if number <= cut.payload}
        return lambda: self.publish(cut.actor, batches)

    def publish(self, name, batches):
        self.world.do("publish")
        there = {(of, number) for of, number, _ in self.world.visible}
        new = {number: rows for number, rows in batches.items() if (name, number) not in there}
        self.world.visible += [(name, number, row) for number, rows in new.items() for row in rows]

    def on_restore(self, back):
        self.world.heard.append(("restore", back.token.life, bool(back.again), back.takeover))
        self.world.do("restore")


@rayshot.actor(capture="inline")
class Neighbour:
    """Has nothing outside. Its state is recorded, and it comes back, unless the world says otherwise."""

    def __init__(self):
        self.answers = []

    def read(self):
        return self.answers

    def ask(self, writer):
        writer.write.tell("asked")
        writer.leave.tell()
        try:
            self.answers.append(rayshot.get(writer.read.remote()))
        except ActorExited:
            self.answers.append("exited")

    def on_restore(self):
        Writer.world.do("restore")


@rayshot.actor(capture="inline")
class Forgetful(Writer):
    """Only a snapshot that seals something has something to do outside."""

    def on_snapshot(self, cut):
        batch, self.open = self.open, []
        return {"batch": batch}

    def on_commit(self, cut):
        batch = cut.payload["batch"]
        return (lambda: self.publish(cut.actor, {cut.snapshot: batch})) if batch else None


@rayshot.actor(capture="inline")
class Teller(Writer):
    def befriend(self, friend):
        self.friend = friend

    def on_snapshot(self, cut):
        self.friend.write.tell(cut.snapshot)
        return super().on_snapshot(cut)


@rayshot.actor(capture="inline")
class Unfit(Writer):
    def __getstate__(self):
        raise ValueError("not now")


@rayshot.actor(capture="inline")
class Bounded(Writer):
    """Has no room as long as the test says so."""

    def has_room(self):
        return not self.world.is_full
