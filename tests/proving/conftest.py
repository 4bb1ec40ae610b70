"""A prover, and states as a capture records them."""

import os
from typing import NamedTuple

import pytest

from rayshot.format.pickling import dump_state
from rayshot.model.specification import ActorSpecification
from rayshot.proving.prover import Prover, spread
from rayshot.proving.surroundings import ProcessSurroundings
from rayshot.proving.trial import Trial
from tests.proving import kinds

SPECIFICATION = ActorSpecification.of(kinds.Actor, {}).pack()


class Recorded(NamedTuple):
    """The parts of a state that was captured."""

    parts: list

    @property
    def sizes(self):
        return tuple(memoryview(part).nbytes for part in self.parts)


def record(value):
    """The state of an actor alice that has this value, as a capture records it."""
    return _recorded({"first": [1], "value": value, "last": 2})


def record_actor(actor):
    """The state of this object as that of an actor alice."""
    return _recorded(vars(actor), actor)


def _recorded(state, own=None):
    whole = {"state": state, "calls": {}, "timers": [], "next_call": 1, "ending": False}
    pickled = dump_state(whole, "alice", own)
    return Recorded([pickled.stream, *pickled.buffers])


@pytest.fixture
def prover():
    made = Prover(ProcessSurroundings.here())
    yield made
    made.close()


@pytest.fixture
def ask(prover):
    """Proves the state of an actor alice that has the given value."""

    def ask(value, **limits):
        recorded = record(value)
        file = spread(recorded.parts, "/dev/shm")
        try:
            return prover.ask(Trial("alice", SPECIFICATION, recorded.sizes, **limits), file)
        finally:
            os.close(file)

    return ask
