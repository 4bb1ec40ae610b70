"""The pictures of trainings: how old gradients are, how an error falls, and what became of batches and prompts."""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from examples.notebooks.marks import BLUE, GOLD, GREY, INK, RED, Dots, Line, Mark, Panel, Picture, Words

# Age -------------------------------------------------------------------------------------------------------------


class Flying(NamedTuple):
    """A gradient in flight, or an order to compute one, and how many versions its parameters are behind."""

    staleness: int
    worker: str
    ordered: bool = False


BIN = 5
"""Versions that stand in one pile."""


def staleness(snapshots: Mapping[str, Sequence[Flying]], slow: str) -> Picture:
    """A row for each snapshot: full squares are gradients, hollow ones orders, and those of `slow` are red."""
    piles = {name: Counter(one.staleness // BIN for one in flying) for name, flying in snapshots.items()}
    oldest = max(one.staleness for flying in snapshots.values() for one in flying)
    top = max(max(pile.values()) for pile in piles.values())
    last = list(snapshots)[-1]
    ticks = [(age, f"{age}") for age in range(0, oldest + BIN, 20)]
    ticks[-1] = ticks[-1][0], "versions behind"
    panels = []
    for name, flying in snapshots.items():
        marks: list[Mark] = [Line([(-BIN / 2, 0), (oldest + BIN, 0)], GREY, 1), *_piled(flying, slow)]
        marks.append(Words((oldest + BIN, top - 0.3), name, INK, "right", 12))
        below = ticks if name == last else ()
        panels.append(Panel(marks, (-BIN, oldest + 2 * BIN), (-0.2, top + 0.5), x_ticks=below))
    return Picture(panels, height=112 * len(panels) + 40)


def _piled(flying: Sequence[Flying], slow: str) -> list[Mark]:
    height: Counter[int] = Counter()
    marks: list[Mark] = []
    for one in sorted(flying, key=lambda one: (one.staleness // BIN, one.ordered, one.worker == slow, one.staleness)):
        pile = one.staleness // BIN
        colour = RED if one.worker == slow else BLUE
        what = "order for" if one.ordered else "gradient of"
        says = f"{what} {one.worker}, {one.staleness} versions behind"
        at = (pile + 0.5) * BIN, height[pile] + 0.5
        marks.append(Dots([at], colour, 8, "square", filled=not one.ordered, says=[says]))
        height[pile] += 1
    return marks


# Error -----------------------------------------------------------------------------------------------------------


class Run(NamedTuple):
    """The error after each step from `begin` on."""

    name: str
    begin: int
    errors: Sequence[float]


MARKED_MIN = (15, 20, 30, 50, 100, 180)


def learning(before: Run, after: Run, beside: Run, snapshots: Sequence[int], note: tuple[int, str]) -> Picture:
    """How an error fell before and after a restore, beside another run; diamonds stand where snapshots were taken.

    `note` is a step and what is to be said of it. The axis of the error is logarithmic: else the end would look flat.
    """
    looks = (before, GREY, 3.0, False), (beside, GOLD, 2.5, False), (after, BLUE, 2.5, False)
    marks: list[Mark] = []
    low, high = (math.log(end(one.errors)) for one, end in ((after, min), (before, max)))
    restored = after.begin
    marks.append(Line([(restored, low - 0.1), (restored, high)], RED, 1.5, dashed=True, says="killed and restored"))
    marks.append(Words((restored + 4, high - 0.05), f"killed, and restored to step {restored}", RED, "left", 12))
    for run, colour, width, dashed in looks:
        points = [(run.begin + index, math.log(error)) for index, error in enumerate(run.errors)]
        marks.append(Line(points, colour, width, dashed, says=run.name))
    everywhere = [*before.errors[: after.begin], *after.errors]
    spots = [(step, math.log(everywhere[step])) for step in snapshots]
    marks.append(Dots(spots, INK, 7, "diamond", says=[f"snapshot at step {step}" for step in snapshots]))
    step, said = note
    spot, words = (step, math.log(everywhere[step])), (step + 24, math.log(everywhere[step]) + 0.5)
    marks += [Line([(step + 22, words[1] - 0.06), spot], INK, 1), Words(words, said, INK, "left", 11)]
    for run, colour, above in ((beside, GOLD, True), (after, BLUE, False)):
        step, height = run.begin + len(run.errors) - 1, math.log(run.errors[-1])
        marks.append(Dots([(step, height)], colour, 9))
        said = f"{run.name}: {step} steps, {run.errors[-1]:.1f} min"
        marks.append(Words((step + 8, height + 0.15 if above else height - 0.03), said, colour, "left", 12))
    end = after.begin + len(after.errors)
    steps = [(step, f"{step}" if step else "step 0") for step in range(0, end, 40)]
    minutes = [
        (math.log(minute), f"{minute} min") for minute in MARKED_MIN if low - 0.15 < math.log(minute) < high + 0.1
    ]
    return Picture([Panel(marks, (-5, end * 1.45), (low - 0.15, high + 0.1), "", steps, minutes)], height=430)


# Batches ---------------------------------------------------------------------------------------------------------


class Kind(NamedTuple):
    """Items of one kind, such as the batches that were used, and how their squares look."""

    word: str
    numbers: Collection[int]
    colour: str
    filled: bool = True


class Squares(NamedTuple):
    """All items: those of these kinds, and the others, which were not handed out yet."""

    name: str
    kinds: Sequence[Kind]


ACROSS, PALE = 20, "#dde2e7"
SQUARE = 18.63
"""How high a row of squares is."""


def squares(panels: Sequence[Squares], count: int, item: str) -> Picture:
    """A square for each item, row by row from the top: a panel beside a panel."""
    rows = -(-count // ACROSS)
    drawn = []
    for name, kinds in panels:
        known = {number for kind in kinds for number in kind.numbers}
        everything = [*kinds, Kind("not handed out", {*range(count)} - known, PALE)]
        marks: list[Mark] = [Words((0, -1.5), name, INK, "left", 13)]
        for line, (word, chosen, colour, filled) in enumerate(kind for kind in everything if kind.numbers):
            places = [(number % ACROSS + 0.5, number // ACROSS + 0.5) for number in chosen]
            marks.append(Dots(places, colour, 8, "square", filled, [f"{item} {one}: {word}" for one in chosen]))
            y = rows + 1.5 + 1.2 * line
            marks.append(Dots([(0.5, y)], colour, 8, "square", filled))
            marks.append(Words((1.5, y), f"{len(chosen)} {word}", INK, "left", 11))
        drawn.append(Panel(marks, (-0.5, ACROSS + 0.5), (rows + 6.2, -2.5)))
    return Picture(drawn, len(drawn), 350 * len(drawn), round(SQUARE * (rows + 8.7)))


class Epoch(NamedTuple):
    """What became of the batches of an epoch: those of none of these kinds were not handed out yet."""

    name: str
    used: Collection[int]
    gradients: Collection[int] = ()
    orders: Collection[int] = ()
    lost: Collection[int] = ()


def batches(epochs: Sequence[Epoch], count: int) -> Picture:
    """A square for each batch: an epoch beside an epoch."""
    return squares([Squares(epoch.name, _kinds(epoch)) for epoch in epochs], count, "batch")


def _kinds(epoch: Epoch) -> list[Kind]:
    return [
        Kind("used", epoch.used, BLUE),
        Kind("gradients in flight", epoch.gradients, RED),
        Kind("orders in flight", epoch.orders, GOLD),
        Kind("never used", epoch.lost, RED, filled=False),
    ]
