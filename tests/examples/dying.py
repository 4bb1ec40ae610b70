"""A process that kills itself in the middle of its work, and programs that wait for a test before they begin theirs."""

import contextlib
import os
import signal
import threading

import ray

from rayshot.model.handle import Method


@contextlib.contextmanager
def held(monkeypatch, calls=0):
    """A program makes its actors and so many calls, and no more before the event that comes out of this is set."""
    gate, left = threading.Event(), [calls]

    def waiting(method):
        def call(*args, **kwargs):
            left[0] -= 1
            if left[0] < 0:
                gate.wait()
            return method(*args, **kwargs)

        return call

    with monkeypatch.context() as patch:
        for name in ("remote", "tell"):
            patch.setattr(Method, name, waiting(getattr(Method, name)))
        try:
            yield gate
        finally:
            gate.set()


def die_after(system, name, messages):
    """From now on so many messages come to this actor; then its process is killed, whatever it does."""
    host = ray.get(system._identity.coordinator.actors.remote())[name]
    ray.get(host.__ray_call__.remote(counting(messages)))


def counting(messages):
    """What is run in a process: it kills that when so many messages have come."""

    def begin(_host):
        from rayshot.runtime.actor.mailbox import Mailbox

        put, left = Mailbox.put, [messages]

        def counted(mailbox, sender, frame):
            left[0] -= frame.last - frame.first + 1
            if left[0] <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
            put(mailbox, sender, frame)

        Mailbox.put = counted

    return begin
