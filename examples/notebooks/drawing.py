"""The pictures of the notebooks: what is in snapshots, as marks. Nothing here draws by itself: see `rendering`."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from examples.flights.picture import along
from examples.flights.timetable import Place
from examples.notebooks.marks import (
    BLUE,
    GOLD,
    GREEN,
    GREY,
    INK,
    RED,
    Box,
    Dots,
    Line,
    Mark,
    Panel,
    Picture,
    Point,
    Words,
)

# A cut -----------------------------------------------------------------------------------------------------------


class Count(NamedTuple):
    """What a snapshot counts on a channel."""

    sent: int
    received: int


Counts = Mapping[tuple[str, str], Count]


class Travel(NamedTuple):
    """A message by its number on its channel: between which snapshots it was sent and processed.

    0 is before the first one, 1 between the first and the second; `processed` is None where the last has it in flight.
    """

    sender: str
    receiver: str
    number: int
    sent: int
    processed: int | None

    @property
    def crosses(self) -> bool:
        """Whether any of the snapshots has it in flight."""
        return self.processed is None or self.processed > self.sent


def travels(counts: Sequence[Counts]) -> list[Travel]:
    """All messages up to the last of these cuts, each of which lies before the next, by nothing but their counters."""
    found = []
    for (sender, receiver), last in counts[-1].items():
        for number in range(1, last.sent + 1):
            each = [cut.get((sender, receiver), Count(0, 0)) for cut in counts]
            sent = next(index for index, count in enumerate(each) if count.sent >= number)
            processed = next((index for index, count in enumerate(each) if count.received >= number), None)
            found.append(Travel(sender, receiver, number, sent, processed))
    return found


def space_time(actors: Sequence[str], counts: Sequence[Counts], names: Mapping[tuple[str, str, int], str]) -> Picture:
    """Actors as lines, cuts as upright lines, messages as arrows, red where they cross a cut; `names` label some."""
    heights = {actor: len(actors) - 1 - index for index, actor in enumerate(actors)}
    end = len(counts) + 0.45
    marks: list[Mark] = [Line([(0, y), (end, y)], GREY, 1) for y in heights.values()]
    for cut in range(1, len(counts) + 1):
        marks.append(Line([(cut, -0.3), (cut, len(actors) - 0.6)], BLUE, 2, dashed=True, says=f"snapshot {cut}"))
        marks.append(Words((cut, len(actors) - 0.45), f"snapshot {cut}", BLUE))
    for travel, (start, stop) in _placed(travels(counts)):
        colour = RED if travel.crosses else GREY
        ways = [(start, heights[travel.sender]), (stop, heights[travel.receiver])]
        name = names.get(travel[:3], "")
        says = f"message {travel.number} of {travel.sender} to {travel.receiver} {name}"
        marks.append(Line(ways, colour, 2 if travel.crosses else 1.2, travel.processed is None, arrow=True, says=says))
        if name:
            marks.append(Words((start, heights[travel.sender] + 0.16), name, RED, size=12))
    marks.extend(Dots([(cut, y) for y in heights.values()], BLUE, 7, "diamond") for cut in range(1, len(counts) + 1))
    ticks = [(y, actor) for actor, y in heights.items()]
    return Picture([Panel(marks, (-0.05, end + 0.05), (-0.5, len(actors) - 0.25), y_ticks=ticks)])


def _placed(found: Sequence[Travel]) -> list[tuple[Travel, Point]]:
    """Where in its stretch a message is drawn: the counters do not say, so sends come evenly, and receipts later."""
    by_stretch: defaultdict[int, list[Travel]] = defaultdict(list)
    for travel in found:
        by_stretch[travel.sent].append(travel)
    last = max((travel.processed or travel.sent for travel in found), default=0)
    placed = []
    for stretch, several in sorted(by_stretch.items()):
        for index, travel in enumerate(several):
            start = stretch + 0.15 + 0.45 * index / len(several)
            if travel.processed is None:
                stop = last + 1.42
            elif travel.processed == stretch:
                stop = start + 0.22
            else:
                stop = travel.processed + 0.1
            placed.append((travel, (start, stop)))
    return placed


# A sum -----------------------------------------------------------------------------------------------------------


def broken(totals: Sequence[int]) -> list[int]:
    """The places of the totals that are not what the one before is."""
    return [index for index in range(1, len(totals)) if totals[index] != totals[index - 1]]


def step_line(names: Sequence[str], totals: Sequence[int]) -> Picture:
    """A total by snapshot, with the stretches shaded in which it changed."""
    low, high = min(totals), max(totals)
    room = max(10, high - low)
    bottom, top = low - 0.6 * room, high + 0.6 * room
    marks: list[Mark] = []
    for index in broken(totals):
        marks.append(
            Box((index - 1, bottom), (index, top), GOLD, 0.35, f"between {names[index - 1]} and {names[index]}")
        )
        change = f"{totals[index] - totals[index - 1]:+,}"
        marks.append(Words((index - 0.5, top - 0.18 * room), change, INK, size=14))
    for index in range(1, len(totals)):
        before, now = totals[index - 1], totals[index]
        marks.append(Line([(index - 1, before), (index, before), (index, now)], BLUE, 2.5))
    marks.append(
        Dots(list(enumerate(totals)), BLUE, 8, says=[f"{n}: {t:,}" for n, t in zip(names, totals, strict=True)])
    )
    y_ticks = [(total, f"{total:,}") for total in sorted(set(totals))]
    return Picture(
        [Panel(marks, (-0.3, len(totals) - 0.7), (bottom, top), "", list(enumerate(names)), y_ticks)], height=330
    )


def bars(changes: Mapping[str, int], odd: Sequence[str] = ()) -> Picture:
    """Changes side by side, above and below a line; the bars of `odd` are red."""
    reach = 1.25 * max(1, *map(abs, changes.values()))
    marks: list[Mark] = [Line([(-0.5, 0), (len(changes) - 0.5, 0)], GREY, 1)]
    for index, (name, change) in enumerate(changes.items()):
        colour = RED if name in odd else BLUE
        if change:
            box = (index - 0.3, min(0, change)), (index + 0.3, max(0, change))
            marks.append(Box(*box, colour, 1.0, f"{name}: {change:+,}"))
        marks.append(
            Words(
                (index, change + math.copysign(0.08 * reach, change)), f"{change:+,}" if change else "0", INK, size=12
            )
        )
    return Picture(
        [Panel(marks, (-0.6, len(changes) - 0.4), (-reach, reach), "", list(enumerate(changes)))], height=330
    )


# The sky ---------------------------------------------------------------------------------------------------------


class Hour(NamedTuple):
    """What a snapshot holds of the sky: flights in the air by (origin, destination), and how many are not."""

    name: str
    on_the_ground: int
    in_the_air: Mapping[tuple[str, str], int]
    landed: int


SHRINK = math.cos(math.radians(38))
WEST, EAST, SOUTH, NORTH = -125.5 * SHRINK, -62.5 * SHRINK, 16.5, 50.5
BAR_AT, BAR_WIDTH = EAST + 4, 4


def sky(hours: Sequence[Hour], places: Mapping[str, Place], columns: int = 3) -> Picture:
    """A map for each hour: great circles as wide as messages are many, and a bar of where all flights are."""
    rows = -(-len(hours) // columns)
    panels = [Panel([*_map(hour, places), *_whereabouts(hour)], (WEST, BAR_AT + BAR_WIDTH + 7), (SOUTH - 1, NORTH + 1))
              for hour in hours]  # fmt: skip
    return Picture(panels, columns, 1_150, 270 * rows)


def route(origin: Place, destination: Place, steps: int = 10) -> list[Point]:
    """The great circle between two places, on the map."""
    way = (along(origin, destination, step / steps) for step in range(steps + 1))
    return [(round(longitude * SHRINK, 2), round(latitude, 2)) for longitude, latitude in way]


def _map(hour: Hour, places: Mapping[str, Place]) -> list[Mark]:
    spots = [(round(place.longitude * SHRINK, 1), round(place.latitude, 1)) for place in places.values()]
    land = sorted({spot for spot in spots if WEST < spot[0] < EAST and SOUTH < spot[1] < NORTH})[::4]
    marks: list[Mark] = [Dots(land, "#c9d1da", 1.5)]
    for (origin, destination), count in hour.in_the_air.items():
        way = [point for point in route(places[origin], places[destination]) if point[0] > WEST]
        says = f"{origin} to {destination}: {count} in the air"
        marks.append(Line(way, RED, 0.5 * count, says=says))
    flying = sum(hour.in_the_air.values())
    marks.append(Words((WEST + 1, NORTH - 0.5), hour.name, INK, "left", 13))
    marks.append(Words((WEST + 1, SOUTH + 1.5), f"{flying} in the air", RED, "left", 11))
    return marks


def _whereabouts(hour: Hour) -> list[Mark]:
    parts = (
        (hour.landed, BLUE, "landed"),
        (sum(hour.in_the_air.values()), RED, "in the air"),
        (hour.on_the_ground, GREY, "on the ground"),
    )
    total = sum(count for count, _, _ in parts)
    marks: list[Mark] = []
    height = SOUTH
    for count, colour, name in parts:
        top = height + (NORTH - 3 - SOUTH) * count / total
        marks.append(Box((BAR_AT, height), (BAR_AT + BAR_WIDTH, top), colour, 1.0, f"{count} {name}"))
        if top - height > 1.2:
            marks.append(Words((BAR_AT + BAR_WIDTH + 0.5, (height + top) / 2), f"{count}", colour, "left", 10))
        height = top
    marks.append(Words((BAR_AT + BAR_WIDTH / 2, NORTH - 1), f"{total}", INK, size=11))
    return marks


# An answer -------------------------------------------------------------------------------------------------------


class Asked(NamedTuple):
    """A question that was put to a snapshot, which began and was complete at these times, in seconds."""

    name: str
    began_s: float
    complete_s: float
    holds: bool
    why: str = ""


def one_sided(asked: Sequence[Asked]) -> tuple[float | None, float | None]:
    """Of a stable property: up to when it surely did not hold, and from when on it surely does.

    A snapshot in which it holds says "from my completion on", one in which it does not "not when I began" (Chandy and
    Lamport 1985, section 5). None where no snapshot says so.
    """
    no = max((one.began_s for one in asked if not one.holds), default=None)
    yes = min((one.complete_s for one in asked if one.holds), default=None)
    return no, yes


def time_line(asked: Sequence[Asked]) -> Picture:
    """The snapshots as stretches of time, and beneath them what is known when."""
    no, yes = one_sided(asked)
    begin, end = min(one.began_s for one in asked), max(one.complete_s for one in asked)
    room = 0.08 * (end - begin)
    left, right = begin - room, end + 3 * room
    marks: list[Mark] = []
    for index, one in enumerate(asked):
        y = len(asked) - index
        colour = GREEN if one.holds else BLUE
        # A snapshot may be shorter than a line is wide.
        marks.append(
            Line([(one.began_s, y), (max(one.complete_s, one.began_s + room / 20), y)], colour, 9, says=one.name)
        )
        edge = one.complete_s if one.holds else one.began_s
        marks.append(Line([(edge, y), (edge, -0.5)], colour, 1, dashed=True))
        said = f"{'yes' if one.holds else 'no'}: {one.why}"
        marks.append(Words((one.complete_s + room / 3, y), said, INK, "left"))
    known_no, known_yes = left if no is None else no, right if yes is None else yes
    for start, stop, colour, word in (
        (left, known_no, BLUE, "no"),
        (known_no, known_yes, GOLD, "not known"),
        (known_yes, right, GREEN, "yes, from here on"),
    ):
        if stop > start:
            marks.append(Box((start, -0.5), (stop, 0.2), colour, 0.85, word))
            marks.append(Words(((start + stop) / 2, -0.85), word, INK))
    whole = range(math.ceil(begin), math.floor(end) + 1)
    rows = [(len(asked) - index, one.name) for index, one in enumerate(asked)]
    panel = Panel(marks, (left, right), (-1.2, len(asked) + 0.6), "", [(s, f"{s} s") for s in whole], rows)
    return Picture([panel], height=60 * len(asked) + 130)


def crossing(cuts: Mapping[str, Mapping[str, int]]) -> Picture:
    """Two cuts by what each of two actors had done, drawn over the actors' lines: a dot for each thing it did."""
    names = list(next(iter(cuts.values())))
    base = {name: min(cut[name] for cut in cuts.values()) for name in names}
    reach = max(cut[name] - base[name] for cut in cuts.values() for name in names)
    left, right = -3, reach + 4
    heights = {name: len(names) - 1 - index for index, name in enumerate(names)}
    marks: list[Mark] = []
    for name, y in heights.items():
        marks.append(Line([(left, y), (right, y)], GREY, 1))
        done = [(float(x), float(y)) for x in range(left + 1, right)]
        marks.append(Dots(done, INK, 6, says=[f"{name}: number {base[name] + int(x)}" for x, _ in done]))
        aside = 0.14 if name == names[0] else -0.14  # away from the cuts between the lines
        marks.extend(Words((x, y + aside), f"{base[name] + int(x)}", INK, size=9) for x, _ in done)
    for colour, lean, (title, cut) in zip((BLUE, RED), (-0.55, 0.55), cuts.items(), strict=True):
        way = [(cut[name] - base[name] + 0.5, float(heights[name])) for name in names]
        (top_x, top), (low_x, low) = way[0], way[-1]
        longer = [(top_x + lean / 2, top + 0.35), *way, (low_x - lean / 2, low - 0.35)]
        marks.append(Line(longer, colour, 2.5, dashed=True, says=title))
        marks.append(Dots(way, colour, 9, "diamond"))
        anchor = "right" if cut[names[0]] == base[names[0]] else "left"
        marks.append(Words((longer[0][0], top + 0.45), title, colour, anchor, 12))
    ticks = [(y, name) for name, y in heights.items()]
    return Picture([Panel(marks, (left - 0.5, right), (-0.5, len(names) - 0.4), y_ticks=ticks)], height=330)
