"""Draws the pictures of the concepts, one SVG each: `python docs/pictures/concepts.py`.

Their colours are of middle tones and their ground is clear, so they can be read on light and on dark pages.
"""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "rayshot"
mpl.rcParams["path.simplify"] = True
INK, LINE, BLUE, RED, GREY = "#74808d", "#8b96a1", "#3b82f6", "#e2571e", "#98a3ae"
SIZE = 11


class Picture:
    """A picture of time lines: x is time, each actor has a row.

    Args:
        rows: Height by name.
        end: Where the time lines end.
    """

    def __init__(self, rows, end, size=(8.6, 2.9), low=-0.75, high=2.65):
        self.rows, self.figure = rows, plt.figure(figsize=size)
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        for name, y in rows.items():
            self.axes.plot([0, end], [y, y], color=LINE, lw=1.2, zorder=1)
            self.text(-0.15, y, name, align="right", family="monospace")
        self.axes.set_xlim(-1.3 if rows else 0, end + 0.3)
        self.axes.set_ylim(low, high)
        self.axes.axis("off")

    def text(self, x, y, words, colour=INK, align="left", size=SIZE, family="sans-serif"):
        self.axes.text(x, y, words, color=colour, ha=align, va="center", fontsize=size, family=family)

    def arrow(self, start, end, colour=GREY, width=1.4, style="-"):
        shape = {"arrowstyle": "-|>", "color": colour, "lw": width, "ls": style, "shrinkA": 0, "shrinkB": 0}
        self.axes.annotate("", xy=end, xytext=start, arrowprops=shape)

    def message(self, sender, sent, receiver, arrived, colour=GREY, width=1.4, style="-"):
        self.arrow((sent, self.rows[sender]), (arrived, self.rows[receiver]), colour, width, style)

    def record(self, row, x, colour=RED):
        self.axes.plot(x, self.rows[row], "o", color="none", mec=colour, mew=2.2, ms=10, zorder=4)

    def line(self, xs, ys, colour=RED, style=(0, (5, 3)), width=2.0):
        self.axes.plot(xs, ys, color=colour, lw=width, ls=style, zorder=3)

    def box(self, x, y, width, height, colour=LINE, words="", alpha=0.0):
        shape = mpl.patches.FancyBboxPatch(
            (x, y), width, height, boxstyle="round,pad=0,rounding_size=0.06",
            fc=(colour, alpha), ec=colour, lw=1.4, zorder=2,
        )  # fmt: skip
        self.axes.add_patch(shape)
        self.text(x + width / 2, y + height + 0.2, words, align="center", size=10)

    def write(self, name):
        self.figure.savefig(Path(__file__).with_name(f"{name}.svg"), metadata={"Date": None}, transparent=True)
        plt.close(self.figure)


def cut():
    """A consistent cut through the time lines of three actors."""
    picture = Picture({"alice": 2.0, "bob": 1.0, "carol": 0.0}, 8.5)
    before = [("alice", 0.8, "bob", 1.7), ("bob", 2.2, "carol", 3.2), ("carol", 1.0, "bob", 2.9)]
    after = [("carol", 6.1, "alice", 7.6), ("alice", 5.0, "bob", 7.1)]
    for one in before + after:
        picture.message(*one)
    for sender, sent, receiver, arrived, amount in (("alice", 2.4, "bob", 5.5, "10"), ("bob", 3.7, "carol", 6.6, "7")):
        picture.message(sender, sent, receiver, arrived, BLUE, 2.2)
        picture.text(sent + 0.3, picture.rows[sender] - 0.36, amount, BLUE, "right")
    recorded = {"alice": 3.1, "bob": 4.4, "carol": 5.4}
    picture.line([2.75, *recorded.values(), 5.75], [2.45, *picture.rows.values(), -0.45])
    for row, x in recorded.items():
        picture.record(row, x)
    picture.text(2.62, 2.42, "the cut", RED, "right")
    picture.text(5.6, -0.55, "recorded: three states, and two messages in flight", align="right", size=10)
    picture.text(8.5, 2.22, "time", LINE, "right", 9)
    picture.write("cut")


def save():
    """Two saves that are no state: one makes money, one loses it."""
    picture = Picture({"alice": 1.0, "bob": 0.0}, 9.4, (8.6, 2.2), -0.95, 1.75)
    for left, first, second, sent, arrived, colour, title, words in (
        (0.0, "alice", "bob", 1.9, 2.7, RED, "alice saves first", "made: bob has it, alice has not paid it"),
        (4.9, "bob", "alice", 1.6, 3.5, BLUE, "bob saves first", "lost: alice has paid it, bob has not got it"),
    ):
        early, late = left + 1.3, left + 3.3
        saved = {first: early, second: late}
        picture.message("alice", left + 0.3, "bob", left + 0.9)
        picture.message("alice", left + sent, "bob", left + arrived, colour, 2.4)
        picture.line([saved["alice"], saved["bob"]], [1, 0], INK)
        for row, x in saved.items():
            picture.record(row, x, INK)
        picture.text(left + 2.3, 1.5, title, align="center")
        picture.text(left + 2.3, -0.6, words, colour, "center", 10)
    picture.write("save")


def channel():
    """Where the messages of a channel are, by their numbers."""
    picture = Picture({}, 9.4, (8.6, 1.9), -0.8, 1.6)
    for x, width, words in ((0.2, 1.2, "alice"), (1.6, 1.9, "outbox"), (6.0, 1.9, "mailbox"), (8.1, 1.2, "bob")):
        picture.box(x, 0.3, width, 0.8, INK if words in ("alice", "bob") else LINE, words)
    for x, number in ((2.4, "9"), (2.9, "8"), (4.1, "7"), (5.0, "6"), (6.6, "5"), (7.1, "4")):
        picture.text(x, 0.7, number, BLUE, "center", 13)
    picture.text(8.7, 0.7, "3", GREY, "center", 13)
    picture.arrow((3.55, 0.35), (5.95, 0.35), LINE)
    picture.text(4.75, 0.12, "on the way", LINE, "center", 9)
    picture.text(0.8, 0.7, "sent 9", align="center", size=10)
    picture.text(8.7, 0.05, "handled 3", align="center", size=10)
    picture.line([2.1, 7.4], [-0.2, -0.2], BLUE, "-")
    picture.text(4.75, -0.5, "in flight: 4 to 9. A snapshot stores exactly these", BLUE, "center", 10)
    picture.write("channel")


def marker():
    """A marker rides on the batches of a channel, and says behind which number its sender recorded."""
    picture = Picture({"alice": 1.0, "bob": 0.0}, 8.5, (8.6, 2.1), -0.85, 1.7)
    for number, sent, colour in (("1", 0.5, GREY), ("2", 1.2, GREY), ("3", 3.6, BLUE), ("4", 4.3, BLUE)):
        picture.message("alice", sent, "bob", sent + 2.2, colour)
        picture.text(sent + 0.12, 0.68, number, colour, "right", 10)
    picture.text(4.5, 1.22, "the marker: 2", RED, size=10)
    picture.record("alice", 2.4)
    picture.record("bob", 5.45)
    picture.line([2.2, 2.4, 5.45, 5.7], [1.45, 1, 0, -0.4])
    picture.text(2.0, 1.5, "alice records behind 2", RED, "right", 10)
    picture.text(5.9, -0.5, "bob hears of it with 3, and records before he handles 3", RED, "center", 10)
    picture.write("marker")


def rollback():
    """All go back to the last snapshot, and what was told since is told again."""
    picture = Picture({"program": 2.0, "alice": 1.0, "bob": 0.0}, 9.4, (8.6, 2.9), -0.85, 2.75)
    picture.line([2.6, 2.6], [1.35, -0.4])
    picture.text(2.6, -0.62, "snapshot", RED, "center", 10)
    for row in ("alice", "bob"):
        picture.record(row, 2.6)
    for sent, number in ((1.2, "1"), (3.3, "2"), (4.2, "3")):
        picture.message("program", sent, "alice", sent + 0.7)
        picture.text(sent + 0.02, 1.7, number, align="right", size=10)
    picture.axes.plot(5.3, 0, "x", color=RED, ms=13, mew=3, zorder=5)
    picture.text(5.3, -0.36, "bob dies", RED, "center", 10)
    picture.axes.axvspan(5.6, 6.8, 0.12, 0.62, color=RED, alpha=0.14, lw=0)
    picture.text(6.2, 0.5, "all go back", RED, "center", 10)
    again = ((6.9, "2", BLUE, 2), (7.6, "3", BLUE, 2), (8.3, "4", GREY, 1.4))
    for sent, number, colour, width in again:
        picture.message("program", sent, "alice", sent + 0.7, colour, width)
        picture.text(sent + 0.02, 1.7, number, colour, "right", 10)
    picture.text(7.0, 2.35, "told again", BLUE, size=10)
    picture.text(2.6, 2.35, "life 1", LINE, "center", 10)
    picture.text(9.1, 2.35, "life 2", LINE, "center", 10)
    picture.write("rollback")


def asking():
    """A snapshot waits for handlers that wait, and cuts none of them in two."""
    picture = Picture({"clerk": 1.0, "bank": 0.0}, 9.4, (8.6, 2.2), -0.9, 1.75)
    picture.box(1.2, 0.84, 3.6, 0.32, BLUE, "a handler waits for its answer", alpha=0.35)
    picture.message("clerk", 1.5, "bank", 2.1, BLUE)
    picture.message("bank", 3.7, "clerk", 4.3, BLUE)
    picture.line([2.9, 2.9], [1.5, -0.4], LINE)
    picture.text(2.9, -0.62, "a snapshot is asked for", LINE, "center", 10)
    picture.line([5.2, 5.5], [1.45, -0.4])
    picture.record("clerk", 5.27)
    picture.record("bank", 5.43)
    picture.text(5.5, -0.62, "it is taken", RED, "center", 10)
    picture.box(5.9, 0.84, 2.2, 0.32, LINE, "the next handler begins", alpha=0.35)
    picture.write("asking")


def loop():
    """A method that never returns is held at the top of a pass."""
    picture = Picture({"queue": 1.0, "trainer": 0.0}, 9.4, (8.6, 2.2), -0.9, 1.75)
    for start in (0.6, 3.1, 6.9):
        picture.box(start, -0.16, 1.5, 0.32, BLUE, "a pass", alpha=0.35)
        picture.message("queue", start - 0.5, "trainer", start, BLUE)
    for at in (2.1, 4.6, 8.4):
        picture.message("trainer", at, "queue", at + 0.35, LINE)
        picture.text(at + 0.3, 0.4, "get", LINE, size=9)
    picture.line([5.5, 5.7], [1.45, -0.4])
    picture.record("queue", 5.55)
    picture.record("trainer", 5.63)
    picture.text(
        5.6,
        -0.62,
        "a restore begins the method anew, and it waits for the same item",
        RED,
        "center",
        10,
    )
    picture.text(5.45, 1.5, "who waits is part of the queue's state", LINE, "right", 9)
    picture.write("loop")


if __name__ == "__main__":
    for draw in (cut, save, channel, marker, rollback, asking, loop):
        draw()
