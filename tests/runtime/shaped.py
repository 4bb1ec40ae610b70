"""An actor with values of classes that change, as they are yesterday and today."""

import dataclasses
import enum
import time
from typing import NamedTuple

import rayshot


class Level(enum.Enum):
    LOW = enum.auto()
    HIGH = enum.auto()


class LevelOfToday(enum.Enum):
    NONE = enum.auto()
    LOW = enum.auto()
    HIGH = enum.auto()


class LevelWithoutHigh(enum.Enum):
    LOW = enum.auto()
    TOP = 7


@dataclasses.dataclass(frozen=True, slots=True)
class Price:
    cents: int
    currency: str


@dataclasses.dataclass(frozen=True, slots=True)
class PriceOfToday:
    currency: str
    cents: int
    tax: int = 0


class Row(NamedTuple):
    who: str
    n: int


class RowOfToday(NamedTuple):
    n: int
    who: str


TODAY = {"Level": LevelOfToday, "Price": PriceOfToday, "Row": RowOfToday}


@rayshot.actor
class Desk:
    """Holds values, and sends some to another desk."""

    def __init__(self):
        self.held = [Level.HIGH, Price(500, "USD"), Row("w", 3), Level]

    def put(self, *values):
        self.held += values

    def send(self, to, other):
        to.put.tell(other, Level.LOW, Price(1, "EUR"), Row("x", 4))

    def pause(self, gate):
        while not gate.exists():
            time.sleep(0.01)

    def read(self):
        return [repr(one) for one in self.held]
