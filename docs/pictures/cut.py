"""Draws cut.svg: a consistent cut through the space-time lines of three actors. `python docs/pictures/cut.py`."""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt

mpl.use("Agg")
mpl.rcParams["svg.hashsalt"] = "rayshot"
INK, LINE, BLUE, RED, GREY = "#1f2933", "#7b8794", "#2563eb", "#d9480f", "#9aa5b1"

ACTORS = {"alice": 2.0, "bob": 1.0, "carol": 0.0}
CUT = {"alice": 3.1, "bob": 4.4, "carol": 5.4}
BEFORE = [("alice", 0.8, "bob", 1.7), ("bob", 2.2, "carol", 3.2), ("carol", 1.0, "bob", 2.9)]
IN_FLIGHT = [("alice", 2.4, "bob", 5.5, "10"), ("bob", 3.7, "carol", 6.6, "7")]
AFTER = [("carol", 6.1, "alice", 7.6), ("alice", 5.0, "bob", 7.1)]


def arrow(axes, start, end, colour, width=1.4):
    axes.annotate(
        "",
        xy=end,
        xytext=start,
        arrowprops={"arrowstyle": "-|>", "color": colour, "lw": width, "shrinkA": 0, "shrinkB": 0},
    )


def main() -> None:
    figure, axes = plt.subplots(figsize=(8.6, 2.9))
    for name, y in ACTORS.items():
        axes.plot([0, 8.5], [y, y], color=LINE, lw=1.2, zorder=1)
        axes.text(-0.15, y, name, ha="right", va="center", color=INK, fontsize=11, family="monospace")
    for sender, sent, receiver, arrived in BEFORE + AFTER:
        arrow(axes, (sent, ACTORS[sender]), (arrived, ACTORS[receiver]), GREY)
    for sender, sent, receiver, arrived, amount in IN_FLIGHT:
        start, end = (sent, ACTORS[sender]), (arrived, ACTORS[receiver])
        arrow(axes, start, end, BLUE, 2.2)
        axes.text(start[0] + 0.3, start[1] - 0.36, amount, color=BLUE, fontsize=11, ha="right", va="center")
    ys = [2.45, *ACTORS.values(), -0.45]
    xs = [2.75, *CUT.values(), 5.75]
    axes.plot(xs, ys, color=RED, lw=2.0, ls=(0, (5, 3)), zorder=3)
    for name, x in CUT.items():
        axes.plot(x, ACTORS[name], "o", color="white", mec=RED, mew=2.0, ms=9, zorder=4)
    axes.text(2.62, 2.42, "the cut", color=RED, fontsize=11, ha="right", va="center")
    axes.text(5.95, -0.47, "recorded: three states, and two messages in flight", color=INK, fontsize=10, va="center")
    axes.text(8.5, 2.12, "time", color=LINE, fontsize=9, ha="right", va="bottom")
    axes.set_xlim(-0.9, 8.9)
    axes.set_ylim(-0.75, 2.65)
    axes.axis("off")
    figure.tight_layout(pad=0.3)
    figure.savefig(Path(__file__).with_name("cut.svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
