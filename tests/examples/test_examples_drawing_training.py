"""What the pictures of the notebook about training say, before anything is drawn."""

import math

import pytest

from examples.notebooks.drawing_training import (
    BIN,
    Epoch,
    Flying,
    Kind,
    Run,
    Squares,
    batches,
    learning,
    squares,
    staleness,
)
from examples.notebooks.marks import BLUE, GOLD, RED, Dots, Line, Words
from examples.notebooks.rendering import as_plotly, as_png

FLYING = [Flying(2, "w1"), Flying(4, "w2", ordered=True), Flying(31, "w8"), Flying(0, "w8", ordered=True)]
BEFORE = Run("before", 0, [180 - step for step in range(101)])
AFTER = Run("after", 100, [80 - step / 2 for step in range(101)])
BESIDE = Run("beside", 100, [80 - step / 3 for step in range(61)])
HALF = Epoch("half", used=[0, 1], gradients=[2], orders=[3, 4])
WHOLE = Epoch("end", used=[0, 1, 3], lost=[2, 4])
PICTURES = [
    staleness({"snapshot 1": FLYING, "snapshot 2": FLYING[:1]}, "w8"),
    learning(BEFORE, AFTER, BESIDE, [40, 100, 200], (130, "here")),
    batches([HALF, WHOLE], 6),
    squares([Squares("end", [Kind("trained", [0, 2], BLUE)])], 3, "prompt"),
]


def marks(picture, kind):
    return [mark for panel in picture.panels for mark in panel.marks if isinstance(mark, kind)]


def test_each_gradient_and_each_order_is_one_square_in_the_pile_of_its_age():
    squares = marks(staleness({"snapshot 1": FLYING}, "w8"), Dots)
    found = sorted((*one.points[0], one.colour == RED, one.filled) for one in squares)
    young, old = 0.5 * BIN, (31 // BIN + 0.5) * BIN
    assert found == [
        (young, 0.5, False, True),
        (young, 1.5, False, False),
        (young, 2.5, True, False),
        (old, 0.5, True, True),
    ]


def test_rows_of_squares_have_one_scale():
    first, second = PICTURES[0].panels
    assert (first.x, first.y) == (second.x, second.y)
    assert second.x_ticks


def test_a_gradient_from_the_future_would_stand_left_of_0():
    (square,) = marks(staleness({"snapshot 1": [Flying(-1, "w1")]}, "w8"), Dots)
    assert square.points[0][0] < 0


def test_an_error_that_goes_on_begins_where_it_was_and_each_run_ends_with_its_own_steps():
    picture = learning(BEFORE, AFTER, BESIDE, [40, 100, 200], (130, "here"))
    upright, before, beside, after, to_the_note = marks(picture, Line)
    assert {x for x, _ in upright.points} == {100}
    assert before.points[-1] == beside.points[0] == after.points[0] == (100, math.log(80))
    assert (beside.points[-1][0], after.points[-1][0]) == (160, 200)
    assert (beside.colour, after.colour) == (GOLD, BLUE)
    assert to_the_note.points[-1] in after.points
    assert {"beside: 160 steps, 60.0 min", "after: 200 steps, 30.0 min"} <= {
        words.text for words in marks(picture, Words)
    }


def test_snapshots_stand_on_the_line_of_the_run_that_took_them():
    (diamonds,) = [
        dots
        for dots in marks(learning(BEFORE, AFTER, BESIDE, [40, 100, 200], (130, "here")), Dots)
        if dots.shape == "diamond"
    ]
    assert diamonds.points == [(40, math.log(140)), (100, math.log(80)), (200, math.log(30))]


def test_each_batch_is_one_square_and_a_legend_counts_its_kinds():
    picture = batches([HALF, WHOLE], 6)
    squares = [[point for dots in panel.marks if isinstance(dots, Dots) and dots.says for point in dots.points]
               for panel in picture.panels]  # fmt: skip
    assert [len(set(points)) for points in squares] == [len(points) for points in squares] == [6, 6]
    texts = [[words.text for words in panel.marks if isinstance(words, Words)] for panel in picture.panels]
    assert texts == [
        ["half", "2 used", "1 gradients in flight", "2 orders in flight", "1 not handed out"],
        ["end", "3 used", "2 never used", "1 not handed out"],
    ]


def test_what_was_never_used_is_hollow():
    hollow = [dots for dots in marks(batches([WHOLE], 6), Dots) if not dots.filled and dots.says]
    assert [dots.says for dots in hollow] == [["batch 2: never used", "batch 4: never used"]]


@pytest.mark.parametrize("picture", PICTURES)
def test_plotly_and_paper_draw_every_picture(picture):
    assert as_png(picture) == as_png(picture)
    assert len(as_plotly(picture)["data"]) == sum(len(panel.marks) for panel in picture.panels)
