"""The sources of a simulated world's decisions."""

import random
from collections.abc import Sequence
from typing import Protocol

from rayshot.errors import ConfigError


class Choices(Protocol):
    """A source of decisions. A run depends on nothing else."""

    def choose(self, count: int) -> int:
        """Return one of 0 .. count - 1; `count` is at least 1."""
        ...


class SeededChoices:
    """Decisions of a seeded generator; `taken` is the list that replays the run."""

    def __init__(self, seed: int) -> None:
        self.taken: list[int] = []
        self._took = self.taken.append
        self._random = random.Random(seed).random  # noqa: S311 - repeatable on purpose, no secret hangs on it

    def choose(self, count: int) -> int:
        """See Choices."""
        choice = int(self._random() * count)
        self._took(choice)
        return choice


class CheckedChoices:
    """The decisions of any other source: each is checked, and kept in `taken`."""

    def __init__(self, source: Choices) -> None:
        self.taken: list[int] = []
        self._source = source

    def choose(self, count: int) -> int:
        """See Choices. Raises ConfigError if the source's choice is out of range."""
        choice = self._source.choose(count)
        if type(choice) is not int or not 0 <= choice < count:
            raise ConfigError(
                f"{type(self._source).__name__}.choose({count}) returned {choice!r}, none of 0 to {count - 1}"
            )
        self.taken.append(choice)
        return choice


class RecordedChoices:
    """The decisions of an earlier run, or any list: after its end always 0; numbers that are too large are lowered.

    Raises ConfigError for a list with anything but whole numbers from 0 on.
    """

    def __init__(self, choices: Sequence[int]) -> None:
        if any(type(choice) is not int or choice < 0 for choice in choices):
            raise ConfigError("choices are whole numbers, none negative")
        self.taken: list[int] = []
        self._choices = choices

    def choose(self, count: int) -> int:
        """See Choices."""
        index = len(self.taken)
        choice = self._choices[index] if index < len(self._choices) else 0
        self.taken.append(min(choice, count - 1))
        return self.taken[-1]
