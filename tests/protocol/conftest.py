"""Every machine that a test made is sound when the test is over."""

import pytest

from rayshot.protocol.collector import Collector
from rayshot.protocol.driver import Driver
from rayshot.protocol.participant import Participant


@pytest.fixture(autouse=True)
def machines(monkeypatch):
    """The machines of this test; what a test breaks on purpose it takes out of the list."""
    made = []
    for kind in (Participant, Collector, Driver):

        def remember(self, *args, _init=kind.__init__, **kwargs):
            made.append(self)
            _init(self, *args, **kwargs)

        monkeypatch.setattr(kind, "__init__", remember)
    yield made
    for machine in made:
        machine.validate()


@pytest.fixture
def driver():
    return Driver("driver:1")
