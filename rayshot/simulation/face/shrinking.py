"""Makes a failing schedule short: fewer and smaller choices that still fail.

A run is its list of choices, and RecordedChoices gives 0 after the end of a list. So each shorter list, and each list
with smaller numbers, is a run as well. 0 is the simplest decision everywhere (the first setting, no fault). Delta
debugging (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", IEEE Transactions on Software
Engineering 28(2), 2002) finds the rest: blocks of choices are dropped or set to 0, then single choices are lowered.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The shortest failing choices that were found, in `runs` runs. `minimal`: no single step makes them shorter."""

    choices: tuple[int, ...]
    runs: int
    minimal: bool


def shrink(choices: Sequence[int], fails: Callable[[Sequence[int]], bool], *, runs_max: int = 2000) -> Shrunk:
    """Return choices that also fail; they are no longer than `choices`, nor greater at the first different place.

    `fails` runs a list of choices, none negative, and says whether it fails in the same way (see `same_failure`). It
    must depend only on its list. It is called at most `runs_max` times. The same arguments give the same result. Raises
    ValueError if `choices` do not fail.
    """
    search = _Search(fails, runs_max)
    best = tuple(choices)
    if not search.fails(best):
        raise ValueError("these choices do not fail: there is nothing to make short")
    best = _without_zeros(best)
    while search.runs < runs_max:
        before = best
        best = _cut_the_end(best, search)
        best = _change_blocks(best, search, _dropped)
        best = _change_blocks(best, search, _zeroed)
        best = _lower_each(best, search)
        if best == before:
            return Shrunk(best, search.runs, minimal=True)
    return Shrunk(best, search.runs, minimal=False)


def same_failure(one: BaseException | None, other: BaseException | None) -> bool:
    """Whether two runs failed in the same way: the same exception with the same words up to the first number."""
    return one is not None and type(one) is type(other) and _words(one) == _words(other)


def _words(failure: BaseException) -> str:
    """The failure's words before snapshots and numbers; they tell it from other failures of the same oracle."""
    return re.split(r"\d", str(failure), maxsplit=1)[0]


class _Search:
    """Asks whether choices fail, never twice for the same list; says no once all runs are used up."""

    def __init__(self, fails: Callable[[Sequence[int]], bool], runs_max: int) -> None:
        self.runs = 0
        self._fails = fails
        self._runs_max = runs_max
        self._known: dict[tuple[int, ...], bool] = {}

    def fails(self, choices: tuple[int, ...]) -> bool:
        choices = _without_zeros(choices)
        if choices not in self._known:
            if self.runs >= self._runs_max:
                return False
            self.runs += 1
            self._known[choices] = self._fails(choices)
        return self._known[choices]


def _without_zeros(choices: tuple[int, ...]) -> tuple[int, ...]:
    """The choices without zeros at the end, which make no difference."""
    length = len(choices)
    while length and not choices[length - 1]:
        length -= 1
    return choices[:length]


def _cut_the_end(best: tuple[int, ...], search: _Search) -> tuple[int, ...]:
    """Keep as little of the beginning as still fails; the part that is cut is halved step by step."""
    step = len(best)
    while step:
        if len(best) >= step and search.fails(best[: len(best) - step]):
            best = _without_zeros(best[: len(best) - step])
        else:
            step //= 2
    return best


Change = Callable[[tuple[int, ...], int, int], tuple[int, ...]]


def _dropped(choices: tuple[int, ...], begin: int, end: int) -> tuple[int, ...]:
    return choices[:begin] + choices[end:]


def _zeroed(choices: tuple[int, ...], begin: int, end: int) -> tuple[int, ...]:
    return choices[:begin] + (0,) * (min(end, len(choices)) - begin) + choices[end:]


def _change_blocks(best: tuple[int, ...], search: _Search, change: Change) -> tuple[int, ...]:
    """Change blocks of choices, from the end to the beginning, as long as it fails; then blocks half as long."""
    size = max(1, len(best) // 2)
    while True:
        begin = len(best) - size
        while begin > -size:
            changed = _without_zeros(change(best, max(0, begin), begin + size))
            if changed != best and search.fails(changed):
                best = changed
                begin = min(begin, len(best))
            begin -= size
        if size == 1:
            return best
        size //= 2


def _lower_each(best: tuple[int, ...], search: _Search) -> tuple[int, ...]:
    """Lower each choice by bisection."""
    for index in range(len(best) - 1, -1, -1):
        low, high = 0, best[index] if index < len(best) else 0
        while low < high:
            middle = (low + high) // 2
            lowered = (*best[:index], middle, *best[index + 1 :])
            if search.fails(lowered):
                best, high = lowered, middle
            else:
                low = middle + 1
    return _without_zeros(best)
