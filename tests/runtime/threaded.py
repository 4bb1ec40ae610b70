"""Actors that start threads of their own, in a module that Ray's workers can import."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import rayshot


def await_file(file):
    while not Path(file).exists():
        time.sleep(0.005)


@rayshot.actor
class Caller:
    """Has one thread, which does what handlers hand it, one after the other."""

    def __init__(self):
        self.heard = []

    def __getstate__(self):
        return {"heard": self.heard}

    def note(self, what):
        self.heard.append(what)

    def noted(self):
        return self.heard

    def call_in_thread(self, gate, other, *what):
        """Let the thread call, once for each of these, when the file `gate` is there; returns before that."""

        def call():
            await_file(gate)
            for one in what:
                other.note.remote(one)

        in_thread().submit(call)

    def call_in_thread_and_stay(self, other, what, gate):
        """Let the thread call while this handler runs."""
        in_thread().submit(other.note.remote, what).result()
        await_file(gate)

    def flood_in_thread(self, other, count):
        in_thread().submit(lambda: [other.note.tell(number) for number in range(count)])

    def flood(self, other, count):
        for number in range(count):
            other.note.tell(number)

    def stay(self, gate):
        await_file(gate)

    def use_reply_in_thread(self, other):
        """The error that the thread gets of a reply to a call of its own, and to one that this handler has made."""
        reply = other.note.remote("by the handler")
        for ask in (lambda: other.note.remote("by the thread").then(self.note), lambda: reply.then(self.note)):
            self.heard.append(repr(in_thread().submit(ask).exception()))

    def call_before_thread(self, other, me):
        """A call of this handler that waits for its end, and the thread's calls and tells behind it."""
        reply = other.note.remote("1 by the handler")
        in_thread().submit(other.note.tell, "2 by the thread").result()
        in_thread().submit(other.note.remote, "3 by the thread").result()
        time.sleep(0.2)  # the transport would have had the time
        reply.then(self.on_note, me)

    def on_note(self, _none, me):
        me.note.tell("answered")


_pool = []


def in_thread():
    """This process's one thread beside the handlers."""
    if not _pool:
        _pool.append(ThreadPoolExecutor(1))
    return _pool[0]


@rayshot.actor
class Dealer:
    """Pays its peers coins, which are conserved. Its threads flood everybody with numbers, each with a row of its own.

    `expected` has per row the number that must come next, `wrong` what came instead.
    """

    def __init__(self, coins):
        self.coins = coins
        self.expected = {}
        self.wrong = []
        self.paid = 0
        self.peers = []

    def meet(self, *peers):
        self.peers = peers

    def flood(self, rows, count):
        _floods[:] = [threading.Thread(target=_flood, args=(self.peers, row, count)) for row in rows]
        for thread in _floods:
            thread.start()

    def is_flooding(self):
        return any(thread.is_alive() for thread in _floods)

    def pay(self):
        """Give a coin to each peer: to one by a call that is answered, to another by one that is not, or by a tell."""
        for peer in self.peers:
            self.coins -= 1
            self.paid += 1
            if self.paid % 3 == 0:
                peer.earn.tell(1)
            else:
                reply = peer.earn.remote(1)
                if self.paid % 3 == 1:
                    reply.then(self.on_earned)

    def earn(self, coins):
        self.coins += coins

    def on_earned(self, _none):
        pass

    def take(self, row, number, *_padding):
        if number != self.expected.get(row, 0):
            self.wrong.append((row, self.expected.get(row, 0), number))
        self.expected[row] = number + 1

    def report(self):
        return self.coins, self.expected, self.wrong


_floods = []


def _flood(peers, row, count):
    """Send each peer the numbers of this row, in every way there is, and let it pay now and then."""
    for number in range(count):
        for peer in peers:
            if number % 4 == 0:
                peer.take.remote(row, number)
            elif number % 4 == 1:
                peer.take.tell(row, number, b"x" * 50)
            elif number % 4 == 2:
                peer.take.remote(row, number, [number])
            else:
                peer.take.tell(row, number)
            if number % 16 == 0:
                peer.pay.tell()
        if number % 64 == 0:
            time.sleep(0.001)


@rayshot.actor
class Announcer:
    """Has a thread from the moment on at which its state is loaded, and that sends at once: to a peer and to itself."""

    def __init__(self, peer):
        self.peer = peer
        self.own = None
        self.count = 0

    def meet(self, own):
        self.own = own

    def __setstate__(self, state):
        vars(self).update(state)
        thread = threading.Thread(target=self.say, args=("by a thread",))
        thread.start()
        thread.join()
        time.sleep(0.5)  # the transport would have had the time

    def say(self, what):
        self.peer.note.tell(what)
        self.peer.note.remote(what)
        self.own.note.tell()

    def note(self):
        self.count += 1

    def counted(self):
        return self.count
