"""A photograph of the sky as a picture: every aircraft that was in the air, where it was."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patheffects import withStroke

from examples.flights.photograph import Flight, Photograph
from examples.flights.timetable import Place

NIGHT, STAR, ROUTE, AIRCRAFT, INK = "#0b1026", "#4a5a94", "#5b8def", "#ffd479", "#e8ecf8"
OUTLINE = [withStroke(linewidth=3, foreground=NIGHT)]
FRAME = {"west": -125.5, "east": -62.5, "south": 16.5, "north": 50.5}
"""Degrees: the mainland and the Caribbean. What flies to Alaska and Hawaii leaves the picture in the west."""
ROUTES_LISTED = 12
HOLDING_DEG, HOLDING_DEG_MAX = 0.13, 1.1
"""Aircraft that wait to land circle: the n-th at sqrt(n) times this distance, the more the closer together."""
GOLDEN_ANGLE = math.pi * (3 - math.sqrt(5))
DOTS_LARGE_MAX = 1_500
"""With more aircraft than this the dots get smaller."""


def draw(photograph: Photograph, places: Mapping[str, Place], path: Path, caption: str) -> None:
    """Save the picture as `path`, a PNG. `caption` says what was counted."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the choice of a backend that needs no screen

    figure, (sky, list_of_routes) = plt.subplots(
        1,
        2,
        figsize=(16, 9),
        width_ratios=[4, 1],
        facecolor=NIGHT,
        layout=ConstrainedLayoutEngine(w_pad=0.25, h_pad=0.2),
    )
    flights = [flight for flight in photograph.in_the_air if {flight.origin, flight.destination} <= places.keys()]
    _draw_sky(sky, flights, places, photograph.moment)
    _draw_routes(list_of_routes, Counter((flight.origin, flight.destination) for flight in photograph.in_the_air))
    figure.suptitle(
        f"{len(photograph.in_the_air):,} aircraft in the air, in one consistent photograph",
        color=INK,
        fontsize=24,
        fontweight="bold",
        x=0.02,
        ha="left",
    )
    figure.supxlabel(caption, color="#9aa6d0", fontsize=12, x=0.02, ha="left")
    figure.savefig(path, dpi=110, facecolor=NIGHT)
    plt.close(figure)


def _draw_sky(axes: Any, flights: list[Flight], places: Mapping[str, Place], when: float) -> None:
    axes.set_facecolor(NIGHT)
    axes.scatter(
        [place.longitude for place in places.values()],
        [place.latitude for place in places.values()],
        s=5,
        color=STAR,
        alpha=0.7,
        linewidths=0,
    )
    counts = Counter((flight.origin, flight.destination) for flight in flights)
    for (origin, destination), count in counts.items():
        way = [along(places[origin], places[destination], step / 60) for step in range(61)]
        axes.plot(
            *zip(*way, strict=True), color=ROUTE, alpha=min(0.75, 0.22 + 0.04 * count), lw=0.8 + 0.25 * count**0.5
        )
    spots = [*_flying(flights, places, when), *_waiting(flights, places, when)]
    size = min(1.0, (DOTS_LARGE_MAX / max(1, len(spots))) ** 0.5)
    if spots:
        axes.scatter(*zip(*spots, strict=True), s=46 * size, color=AIRCRAFT, alpha=0.16 * size, linewidths=0, zorder=3)
        axes.scatter(*zip(*spots, strict=True), s=9 * size, color=AIRCRAFT, alpha=0.95, linewidths=0, zorder=4)
    _name_airports(axes, counts, places)
    axes.set_xlim(FRAME["west"], FRAME["east"])
    axes.set_ylim(FRAME["south"], FRAME["north"])
    axes.set_aspect(1 / math.cos(math.radians(38)))
    axes.axis("off")


def _name_airports(axes: Any, counts: Counter[tuple[str, str]], places: Mapping[str, Place]) -> None:
    destinations: Counter[str] = Counter()
    for (_, destination), count in counts.items():
        destinations[destination] += count
    named: list[Place] = []
    for code, _ in destinations.most_common(26):
        place = places[code]
        if any(math.dist(place, other) < 1.1 for other in named) or not _in_frame(place):
            continue
        named.append(place)
        axes.annotate(
            code,
            (place.longitude, place.latitude),
            (5, 4),
            textcoords="offset points",
            color=INK,
            fontsize=10,
            path_effects=OUTLINE,
            zorder=5,
        )
    new_york = places["JFK"]
    axes.annotate(
        "New York",
        (new_york.longitude, new_york.latitude),
        (10, -4),
        textcoords="offset points",
        color=AIRCRAFT,
        fontsize=13,
        fontweight="bold",
        path_effects=OUTLINE,
        zorder=5,
    )


def _draw_routes(axes: Any, counts: Counter[tuple[str, str]]) -> None:
    axes.set_facecolor(NIGHT)
    busiest = counts.most_common(ROUTES_LISTED)[::-1]
    names = [f"{origin} \N{RIGHTWARDS ARROW} {destination}" for (origin, destination), _ in busiest]
    numbers = [count for _, count in busiest]
    bars = axes.barh(names, numbers, color=ROUTE, height=0.62)
    axes.bar_label(bars, fmt="{:,.0f}", color=INK, padding=5, fontsize=11)
    axes.set_title("The busiest routes in the air", color=INK, fontsize=14, loc="left", pad=12)
    axes.tick_params(colors=INK, length=0, labelsize=11)
    axes.xaxis.set_visible(False)
    axes.margins(x=0.15)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _flying(flights: list[Flight], places: Mapping[str, Place], when: float) -> Iterator[tuple[float, float]]:
    """Where the aircraft are that are on their way."""
    for flight in flights:
        progress = flight.progress_at(when)
        if progress < 1:
            yield along(places[flight.origin], places[flight.destination], max(0.0, progress))


def _waiting(flights: list[Flight], places: Mapping[str, Place], when: float) -> Iterator[tuple[float, float]]:
    """Where the aircraft are that wait to land: around their destination, like the seeds of a sunflower."""
    queues = Counter(flight.destination for flight in flights if flight.progress_at(when) >= 1)
    for code, count in queues.items():
        spacing = min(HOLDING_DEG, HOLDING_DEG_MAX / math.sqrt(count))
        for index in range(count):
            angle, distance = index * GOLDEN_ANGLE, spacing * math.sqrt(index + 0.5)
            place = places[code]
            yield place.longitude + distance * math.cos(angle) * 1.25, place.latitude + distance * math.sin(angle)


def along(origin: Place, destination: Place, share: float) -> tuple[float, float]:
    """Longitude and latitude at `share` of the great circle between two places."""
    start, end = _vector(origin), _vector(destination)
    angle = math.acos(max(-1.0, min(1.0, sum(a * b for a, b in zip(start, end, strict=True)))))
    if angle == 0:
        return origin.longitude, origin.latitude
    before, after = math.sin((1 - share) * angle), math.sin(share * angle)
    x, y, z = ((before * a + after * b) / math.sin(angle) for a, b in zip(start, end, strict=True))
    return math.degrees(math.atan2(y, x)), math.degrees(math.asin(z))


def _vector(place: Place) -> tuple[float, float, float]:
    latitude, longitude = math.radians(place.latitude), math.radians(place.longitude)
    return math.cos(latitude) * math.cos(longitude), math.cos(latitude) * math.sin(longitude), math.sin(latitude)


def _in_frame(place: Place) -> bool:
    return FRAME["west"] < place.longitude < FRAME["east"] and FRAME["south"] < place.latitude < FRAME["north"]
