"""Deterministic actors for the tests of tracing: stations on a ring, stages of a flow."""

import threading
import time

import rayshot

STATIONS_MAX = 4
"""So many actors a stage makes. Each is a process: on a slow machine, a flow without a bound starts hundreds."""


@rayshot.actor(deterministic=True)
class Station:
    """Passes tokens on, and counts them."""

    def __init__(self):
        self.following = None
        self.passed = 0

    def lead_to(self, following):
        self.following = following

    def take(self, token, hops):
        self.passed += 1
        if hops:
            self.following.take.tell(token, hops - 1)

    def ready(self):
        return True

    def count(self):
        return self.passed


@rayshot.actor(deterministic=True)
class Feed:
    """Sends numbers to a stage, some at a time, and goes on by timers until it is stopped."""

    def __init__(self, stage):
        self.stage = stage
        self.sent = 0
        self.goes_on = True

    def go_on(self):
        for _ in range(20):
            self.sent += 1
            self.stage.add.tell(self.sent)
        if self.goes_on:
            rayshot.current().after(0.03, self.go_on)

    def stop(self):
        self.goes_on = False

    def ready(self):
        return True


@rayshot.actor(deterministic=True)
class Stage:
    """Adds up, passes on, and sends what is odd back to where it may come by again. Makes some actors on the way."""

    def __init__(self, following=None, back=None):
        self.following = following
        self.back = back
        self.made = 0
        self.total = 0
        self.seen = {}
        self.asked = 0

    def add(self, number):
        sender = rayshot.current().sender
        self.seen[sender] = self.seen.get(sender, 0) + 1
        self.total += number
        if self.back is not None and number % 2:
            self.back.add.tell(number // 2 * 2)
        elif self.following is not None:
            self.following.add.tell(number)
            if number % 50 == 0:
                self.following.count.remote().then(self.on_count, number)

    def lead_back(self, stage):
        self.back = stage

    def count(self):
        return sum(self.seen.values())

    def on_count(self, count, number):
        self.asked += count + number
        if number % 300 == 0 and self.made < STATIONS_MAX:
            self.made += 1
            Station.remote()

    def ready(self):
        return self.total


@rayshot.actor(deterministic=True)
class Liar:
    """Is not what it says it is."""

    made = 0

    def __init__(self):
        self.value = 0

    def draw(self):
        Liar.made += 1
        self.value = id(self), Liar.made

    def ready(self):
        return True


@rayshot.actor
class Leaver:
    """Sends some numbers and goes."""

    def __init__(self, stage, count):
        self.stage = stage
        self.count = count

    def leave(self):
        for number in range(self.count):
            self.stage.add.tell(number)
        rayshot.current().exit()


@rayshot.actor
class Sleeper:
    """Is busy for a while."""

    def add(self, number):
        pass

    def sleep(self, seconds):
        time.sleep(seconds)

    def ready(self):
        return True


@rayshot.actor(deterministic=True)
class Delegate:
    """Counts down by a thread, which tells the actor to go on."""

    def __init__(self):
        self.sum = 0

    def add(self, number, own):
        self.sum += number
        if number > 1:
            threading.Thread(target=own.add.tell, args=(number - 1, own)).start()

    def total(self):
        return self.sum
