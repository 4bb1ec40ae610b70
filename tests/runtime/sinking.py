"""A sink as users write one, into SQLite."""

import rayshot
from rayshot.sinks import Sink
from rayshot.sinks.sql import Sql


@rayshot.actor
class Visits(Sink):
    def __init__(self, url):
        super().__init__()
        self.url = url

    def connect(self):
        return Sql(self.url, "visits")

    def add(self, *numbers):
        self.write([{"n": number} for number in numbers])

    def read(self):
        return self.sequence
