"""Actors that come to an end of their work, and one that leaves while others ask it."""

import time

import ray

import rayshot


@rayshot.actor
class Walker:
    """Passes a number on until it is 0, by a timer now and then."""

    def __init__(self):
        self.next = None
        self.steps = 0

    def lead_to(self, following):
        self.next = following

    def walk(self, left):
        self.steps += 1
        if left % 10 == 5:
            rayshot.current().after(0.05, self.walk, left - 1)
        elif left:
            self.next.walk.tell(left - 1)

    def ready(self):
        return True


@rayshot.actor
class Asker:
    def __init__(self):
        self.heard = []

    def ask(self, other):
        other.answer.remote().then(self.hear)

    def hear(self, answer):
        self.heard.append(answer)

    def count(self):
        return len(self.heard)


@rayshot.actor
class Oracle:
    def answer(self):
        time.sleep(0.02)
        return 42

    def leave(self):
        ray.actor.exit_actor()


@rayshot.actor
class Borrower:
    """Passes a token on by replies: each asks the other for it, again and again."""

    def __init__(self, *, has_token):
        self.has_token = has_token
        self.other = None

    def lead_to(self, other):
        self.other = other

    def fetch(self):
        self.other.give.remote().then(self.take)

    def give(self):
        self.has_token = False
        time.sleep(0.01)
        return True

    def take(self, token):
        self.has_token = token
        self.other.fetch.tell()

    def ready(self):
        return True
