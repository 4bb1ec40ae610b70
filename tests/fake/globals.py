"""Globals of rayshot's modules that mean "this process": each process of the fake has its own."""

from collections import deque
from contextvars import ContextVar
from weakref import WeakSet

from rayshot.model import port
from rayshot.runtime.channel import holding
from rayshot.runtime.door import functions
from rayshot.runtime.driver import exit as driver_exit
from rayshot.runtime.opening import ports
from rayshot.runtime.wire import dropped_handles
from tests.fake.threads import Event, Lock, SimpleQueue

_MADE = (
    (port, "_find_port", list),
    (holding, "_ready", SimpleQueue),
    (holding, "_listener", list),
    (functions, "_hosts", set),
    (ports, "_lock", Lock),
    (ports, "_begun", list),
    (ports, "_several", list),
    (ports, "_inside", lambda: ContextVar("inside", default=None)),
    (ports, "_attached", dict),
    (ports, "_attaching", dict),
    (ports, "_heard", lambda: deque(maxlen=64)),
    (driver_exit, "_sessions", WeakSet),
    (driver_exit, "_lock", Lock),
    (driver_exit, "_until", list),
    (dropped_handles, "_exiting", Event),
)


class Globals:
    """Those of one process."""

    installed = None

    def __init__(self, values):
        self._values = values

    def install(self):
        """From now on they are what the modules have."""
        if Globals.installed is not self:
            Globals.installed = self
            for module, name, value in self._values:
                setattr(module, name, value)


def new_globals():
    return Globals([(module, name, make()) for module, name, make in _MADE])


def globals_now():
    """Those of the process in which the tests run."""
    return Globals([(module, name, getattr(module, name)) for module, name, _ in _MADE])
