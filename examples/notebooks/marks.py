"""A picture as a list of marks, which both plotly and matplotlib can draw: see `rendering`."""

from collections.abc import Sequence
from dataclasses import dataclass

BLUE, RED, GREEN, GOLD, GREY, INK = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#9aa3ad", "#1f2933"
"""Colours that stay apart for readers who see few of them (Okabe and Ito)."""

Point = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """A way from point to point, with a head at its end where it is an `arrow`."""

    points: Sequence[Point]
    colour: str = INK
    width: float = 1.5
    dashed: bool = False
    arrow: bool = False
    says: str = ""


@dataclass(frozen=True)
class Dots:
    """Points; `says` has a text for each, which plotly shows under the mouse."""

    points: Sequence[Point]
    colour: str = INK
    size: float = 7
    shape: str = "circle"
    filled: bool = True
    says: Sequence[str] = ()


@dataclass(frozen=True)
class Box:
    """An upright rectangle between two corners."""

    low: Point
    high: Point
    colour: str
    strength: float = 1.0
    says: str = ""


@dataclass(frozen=True)
class Words:
    """A text whose `anchor` is at a point: its left, centre or right end."""

    at: Point
    text: str
    colour: str = INK
    anchor: str = "center"
    size: float = 11


Mark = Line | Dots | Box | Words


@dataclass(frozen=True)
class Panel:
    """One pair of axes. `x` and `y` are their ends; ticks are (place, word): without any an axis shows no numbers."""

    marks: Sequence[Mark]
    x: Point
    y: Point
    title: str = ""
    x_ticks: Sequence[tuple[float, str]] = ()
    y_ticks: Sequence[tuple[float, str]] = ()


@dataclass(frozen=True)
class Picture:
    """Panels, row by row; `width` and `height` in hundredths of an inch."""

    panels: Sequence[Panel]
    columns: int = 1
    width: int = 950
    height: int = 420

    @property
    def rows(self) -> int:
        """How many rows of panels."""
        return -(-len(self.panels) // self.columns)
