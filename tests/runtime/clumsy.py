"""An actor that fails at some messages."""

import rayshot


@rayshot.actor
class Clumsy:
    def __init__(self):
        self.done = 0

    def drop(self, what):
        raise ValueError(f"dropped {what}")

    def look(self):
        return self.done
