"""An actor that holds what it is told to make."""

import rayshot
from tests.proving import kinds


@rayshot.actor
class Holder:
    """Holds one value."""

    def __init__(self):
        self.value = None

    def make(self, kind, *args):
        """Hold a new object of this class of `kinds`."""
        self.value = getattr(kinds, kind)(*args)

    def ping(self):
        """Answer while it lives."""
        return type(self.value).__name__


@rayshot.actor(prove=False)
class Unproved(Holder):
    """Its states are recorded as they are."""
