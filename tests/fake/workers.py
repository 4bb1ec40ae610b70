"""Actors that ask and are asked all the time, on the fake."""

import rayshot
from rayshot.runtime.door import door
from tests.fake.account import Account
from tests.fake.threads import Event


def pass_in_handler(seconds):
    """A handler works for so long."""
    Event().wait(seconds)


@rayshot.actor(capture="inline")
class Server:
    """Answers after a while; keeps what is put, and gives it to who asks, or when it comes."""

    def __init__(self, seconds=0.05):
        self.seconds, self.asked, self.put_in, self.told = seconds, 0, [], 0

    def square(self, number):
        pass_in_handler(self.seconds)
        self.asked += 1
        return number * number

    def wait_at(self, gate, number):
        Account.gates[gate].wait()
        return number

    def tell_and_answer(self, asker, count):
        for number in range(count):
            asker.note.tell(number)
        return count

    def hear(self, _number):
        self.told += 1


@rayshot.actor(capture="inline")
class Worker:
    """Asks again and again, without a pause."""

    def __init__(self, server):
        self.server, self.begun, self.done, self.runs, self.notes = server, 0, 0, True, []

    def work(self, me):
        self.begun += 1
        rayshot.get(self.server.square.remote(self.begun))
        self.done += 1
        if self.runs:
            me.work.tell(me)

    def rest(self):
        self.runs = False

    def ask_at(self, gate, number):
        self.begun += 1
        rayshot.get(self.server.wait_at.remote(gate, number))
        self.done += 1

    def wait_for_task(self, gate):
        """As with `ray.get` of a plain task."""
        self.begun += 1
        Account.gates[gate].wait()
        self.done += 1

    def ask(self, number=3):
        return rayshot.get(self.server.square.remote(number))

    def ask_often(self, other, count):
        self.begun += 1
        for number in range(count):
            rayshot.get(other.note.remote(number))
            pass_in_handler(0.002)
        self.done += 1

    def tell_note(self, other, number):
        other.note.tell(number)

    def keep_question(self, other, number):
        self.reply = other.note.remote(number)

    def wait_for_kept(self, gate=None):
        if gate is not None:
            Account.gates[gate].wait()
        self.begun += 1
        rayshot.get(self.reply)
        self.done += 1

    def be_told(self, me, count):
        self.begun += 1
        rayshot.get(self.server.tell_and_answer.remote(me, count))
        self.done += 1

    def note(self, number):
        self.notes.append(number)
        return number

    def ask_along(self, others):
        """A chain of questions, each of which an asker must begin."""
        self.begun += 1
        found = rayshot.get(others[0].ask_along.remote(others[1:])) if others else 0
        self.done += 1
        return found + 1

    def fire_after(self, seconds):
        rayshot.current().after(seconds, self.note, "fired")

    def read(self):
        return self.begun, self.done, self.notes


@rayshot.actor(capture="inline")
class Stepper:
    def __init__(self, server):
        self.server, self.other, self.begun, self.done = server, None, 0, 0

    def meet(self, other):
        self.other = other

    def step(self):
        self.begun += 1
        self.other.step.remote()
        rayshot.get(self.server.square.remote(1))
        self.done += 1


def is_whole(state):
    """No handler of this worker is half done."""
    return state["begun"] == state["done"]


def workers_at_work(count, server=None):
    server = server or Server.options(name="server").remote()
    workers = [Worker.options(name=f"w{number}").remote(server) for number in range(count)]
    door.get([worker.read.remote() for worker in workers])
    for worker in workers:
        worker.work.tell(worker)
    return workers


def end_of(workers):
    for worker in workers:
        worker.rest.tell()
    return door.get([worker.read.remote() for worker in workers])
