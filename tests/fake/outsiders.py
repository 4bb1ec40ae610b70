"""What is outside, on the fake: tables and engines in the memory of the test, and actors that keep something there.

A table shows the rows of a register. An engine runs ahead of the cut, and comes back with its holder. Each has the
token of who took it, and refuses all others.
"""

import random
from collections import defaultdict
from contextlib import contextmanager

import rayshot
from rayshot.errors import SinkAhead, SinkBehind, SinkFenced
from tests.fake.play import Till
from tests.fake.threads import TIME

TAKES_S = (*[0.0] * 30, *[0.1] * 10, *[1.0] * 10, *[5.0] * 5, 25.0)
"""What is done outside takes so many seconds, the last longer than a snapshot may."""


class Resource:
    """Something outside that one life has at a time. What a method does happens as a whole."""

    def __init__(self):
        self.token = None

    def take(self, token, *, takeover=False):
        if not (takeover or token.may_take(self.token)):
            raise SinkFenced(f"{self.token} has it, and not {token}")
        self.token = token

    def admit(self, token):
        if token != self.token:
            raise SinkFenced(f"{self.token} has it, and not {token}")


class Table(Resource):
    """Rows, the number of the last batch, and the line that sealed it."""

    def __init__(self):
        super().__init__()
        self.sequence, self.line, self.rows = 0, "", []

    def publish(self, token, sequence, line, rows):
        """Returns whether this batch was not visible before."""
        self.admit(token)
        if sequence <= self.sequence:
            return False
        if sequence > self.sequence + 1:
            raise SinkBehind(f"there are {self.sequence} batches, and this one is {sequence}")
        self.sequence, self.line, self.rows = sequence, line, self.rows + rows
        return True


class Engine(Resource):
    """Counts steps, and keeps counts under names."""

    def __init__(self):
        super().__init__()
        self.count, self.kept = 0, {}


class Outside:
    """All that is outside. `wrong` has what must never be; `failing` says how often what is done fails.

    `published` is called with the actor, the number and the line of each batch that becomes visible.
    """

    present = None

    def __init__(self, seed):
        self.chance, self.failing = random.Random(seed), 0.0
        self.tables, self.engines = defaultdict(Table), defaultdict(Engine)
        self.wrong = []
        self.published = lambda _actor, _sequence, _line: None

    def meddle(self, *, less=1):
        """It takes its time, and may fail, so many times `less` often."""
        if self.failing:
            TIME.sleep(self.chance.choice(TAKES_S))
            if self.chance.random() < self.failing / less:
                raise OSError("what is outside is away")

    def expect(self, is_so, what):
        if not is_so:
            self.wrong.append(what)


@contextmanager
def outside(seed):
    """What is outside meanwhile."""
    Outside.present = Outside(seed)
    try:
        yield Outside.present
    finally:
        Outside.present = None


class Outsider(Till):
    """A till that is something outside too. Its token is not part of its state."""

    token = friend = None

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name != "token"}

    def know(self, friend):
        """From now on each snapshot tells a friend of itself."""
        self.friend = friend

    def photograph(self):
        rayshot.current().snapshot()

    def leave(self):
        rayshot.current().exit()

    def tell_friend(self, cut):
        if self.friend is not None:
            self.pass_on(cut.actor, self.friend)


@rayshot.actor(capture="inline")
class Register(Outsider):
    """Its entries become rows of a table. `lines` says who sealed a batch, of the last one known to be visible too."""

    def __init__(self):
        super().__init__()
        self.open, self.sealed, self.sequence = [], {}, 0
        self.known, self.lines = 0, {0: ""}
        self.durable = 0

    def take(self, sender, number):
        super().take(sender, number)
        self.open.append((sender, number))

    def has_room(self):
        return self.durable - self.known < 3

    def on_snapshot(self, cut):
        here, table = Outside.present, Outside.present.tables[cut.actor]
        self.tell_friend(cut)
        if self.token is None:
            table.take(cut.token)
            here.expect(table.sequence == 0, f"{cut.actor} is born, and has {table.sequence} batches")
            self.token = cut.token
        for old in [number for number in self.sealed if number <= self.known]:
            del self.sealed[old]
        self.lines = {number: line for number, line in self.lines.items() if number >= self.known}
        if self.open:
            self.sequence += 1
            self.sealed[self.sequence], self.open = self.open, []
            self.lines[self.sequence] = f"{cut.token.life}:{cut.token.owner}"
        payload = {"sequence": self.sequence, "lines": [[one, self.lines[one]] for one in self.sealed]}

        def seal():
            here.meddle(less=10)
            return payload

        return seal

    def on_commit(self, cut):
        last = cut.payload["sequence"]
        self.durable = max(self.durable, last)
        batches = {number: (self.lines[number], list(rows)) for number, rows in self.sealed.items() if number <= last}
        return (lambda: self.publish(cut, batches)) if batches else None

    def publish(self, cut, batches):
        here, table = Outside.present, Outside.present.tables[cut.actor]
        for number in sorted(batches):
            if number > self.known:
                here.meddle()
                if table.publish(cut.token, number, *batches[number]):
                    here.published(cut.actor, number, batches[number][0])
                self.known = number

    def on_restore(self, back):
        here, table = Outside.present, Outside.present.tables[back.actor]
        table.take(back.token, takeover=back.takeover)
        self.token = back.token
        what = f"{back.actor} has {table.sequence} of {table.line}, and {back.snapshot} {self.sequence}, {self.lines}"
        if table.sequence > self.sequence or self.lines.get(table.sequence) not in (None, table.line):
            here.wrong.append(f"ahead: {what}")
            raise SinkAhead(what)
        if table.sequence not in self.lines:
            here.wrong.append(f"behind: {what}")
            raise SinkBehind(what)
        self.known = table.sequence


@rayshot.actor(capture="inline")
class Holder(Outsider):
    """Each step is one of its engine's too."""

    def __init__(self):
        super().__init__()
        self.steps = 0

    def step(self, number):
        self.steps += 1
        self.take("steps", number)
        here, engine = Outside.present, Outside.present.engines["holder"]
        if engine.token == self.token:  # else it obeys a later life
            engine.count += 1
            here.expect(engine.count == self.steps, f"the engine is at {engine.count}, its holder at {self.steps}")

    def on_snapshot(self, cut):
        here, engine = Outside.present, Outside.present.engines[cut.actor]
        if self.token is None:
            engine.take(cut.token)
            self.token = cut.token
        engine.admit(cut.token)
        engine.kept[cut.snapshot] = engine.count

        def give():
            here.meddle(less=10)
            return {"kept": cut.snapshot}

        return give

    def on_restore(self, back):
        here, engine = Outside.present, Outside.present.engines[back.actor]
        engine.take(back.token, takeover=back.takeover)
        self.token, engine.count = back.token, engine.kept[back.payload["kept"]]
        here.expect(engine.count == self.steps, f"{engine.count} came back, and its holder is at {self.steps}")
