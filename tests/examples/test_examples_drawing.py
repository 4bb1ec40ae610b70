"""What the pictures of the notebooks say, before anything is drawn."""

import pytest

from examples.flights.timetable import Place
from examples.notebooks.drawing import (
    Asked,
    Count,
    Hour,
    Travel,
    bars,
    broken,
    crossing,
    one_sided,
    route,
    sky,
    space_time,
    step_line,
    time_line,
    travels,
)
from examples.notebooks.marks import RED, Box, Dots, Line, Picture, Words
from examples.notebooks.rendering import as_plotly, as_png

CHANNEL = ("alice", "bob")
COUNTS = [{CHANNEL: Count(2, 1)}, {CHANNEL: Count(2, 2), ("bob", "alice"): Count(1, 0)}]
NEW_YORK, LONDON = Place(40.7, -74.0), Place(51.5, -0.1)


def marks(picture, kind):
    return [mark for panel in picture.panels for mark in panel.marks if isinstance(mark, kind)]


def test_counters_tell_between_which_cuts_a_message_was_sent_and_processed():
    assert travels(COUNTS) == [
        Travel("alice", "bob", 1, 0, 0),
        Travel("alice", "bob", 2, 0, 1),
        Travel("bob", "alice", 1, 1, None),
    ]


def test_a_message_crosses_where_it_was_sent_before_a_cut_and_not_processed_before_it():
    assert [travel.crosses for travel in travels(COUNTS)] == [False, True, True]


def test_arrows_go_forward_and_pass_the_cuts_that_have_them_in_flight():
    arrows = [line for line in marks(space_time(["alice", "bob"], COUNTS, {}), Line) if line.arrow]
    ends = [(line.points[0][0], line.points[-1][0], line.colour == RED) for line in arrows]
    assert all(start < stop for start, stop, _ in ends)
    within, over_one, over_two = sorted(ends)
    assert within[1] < 1 < over_one[1] < 2 < over_two[1]
    assert [red for *_, red in (within, over_one, over_two)] == [False, True, True]


def test_a_sum_is_broken_where_it_is_not_what_it_was_before():
    assert broken([5, 5, 4, 4, 6]) == [2, 4]
    assert broken([5]) == []


def test_the_stretch_in_which_a_sum_changed_is_shaded_and_no_other():
    (box,) = marks(step_line(["a", "b", "c", "d"], [50, 50, 40, 40]), Box)
    assert (box.low[0], box.high[0]) == (1, 2)
    assert "-10" in [words.text for words in marks(step_line(["a", "b", "c", "d"], [50, 50, 40, 40]), Words)]
    assert not marks(step_line(["a", "b"], [50, 50]), Box)


def test_bars_stand_above_and_below_the_line_and_the_odd_one_is_red():
    up, down = marks(bars({"a": 3, "b": 0, "c": -2}, odd=["c"]), Box)
    assert (up.low[1], up.high[1], down.low[1], down.high[1]) == (0, 3, -2, 0)
    assert up.colour != down.colour == RED


def test_a_great_circle_begins_and_ends_at_its_places_and_bends_to_the_north_between():
    way = route(NEW_YORK, LONDON)
    straight = (way[0][1] + way[-1][1]) / 2
    assert way[0][1], way[-1][1] == (40.7, 51.5)
    assert way[len(way) // 2][1] > straight + 3


def test_the_bar_beside_a_map_is_as_high_whatever_is_in_the_air():
    hours = [Hour("06:00", 90, {("JFK", "LHR"): 10}, 0), Hour("12:00", 20, {("JFK", "LHR"): 30}, 50)]
    picture = sky(hours, {"JFK": NEW_YORK, "LHR": LONDON}, columns=2)
    heights = [
        sum(mark.high[1] - mark.low[1] for mark in panel.marks if isinstance(mark, Box)) for panel in picture.panels
    ]
    assert heights[0] == pytest.approx(heights[1])
    widths = [mark.width for panel in picture.panels for mark in panel.marks if isinstance(mark, Line)]
    assert widths[1] == 3 * widths[0], "as wide as messages are many"


def test_a_no_is_good_up_to_its_beginning_and_a_yes_from_its_completion_on():
    asked = [Asked("1", 0, 2, holds=False), Asked("2", 1, 4, holds=False), Asked("3", 3, 5, holds=True)]
    assert one_sided(asked) == (1, 5)
    assert one_sided(asked[:2]) == (1, None)
    assert one_sided(asked[2:]) == (None, 5)


def test_the_answer_of_a_snapshot_that_took_long_leaves_all_of_its_time_unknown():
    assert one_sided([Asked("1", 0, 9, holds=False)]) == (0, None)


def test_what_is_not_known_lies_between_the_no_and_the_yes():
    boxes = marks(time_line([Asked("1", 0, 2, holds=False), Asked("2", 3, 5, holds=True)]), Box)
    assert [(box.low[0], box.high[0], box.says) for box in boxes][1] == (0, 5, "not known")


def test_two_cuts_that_cross_are_drawn_on_both_sides_of_each_other():
    picture = crossing({"old": {"a": 317, "b": 334}, "new": {"a": 334, "b": 317}})
    old, new = [dots.points for dots in marks(picture, Dots) if dots.shape == "diamond"]
    assert old[0][0] < new[0][0]
    assert old[1][0] > new[1][0]


@pytest.mark.parametrize(
    "picture",
    [
        space_time(["alice", "bob"], COUNTS, {("alice", "bob", 2): "10"}),
        step_line(["a", "b", "c"], [5, 5, 4]),
        bars({"a": 1, "b": -1}),
        time_line([Asked("1", 0, 2, holds=False), Asked("2", 3, 5, holds=True)]),
        crossing({"old": {"a": 1, "b": 3}, "new": {"a": 2, "b": 2}}),
    ],
)
def test_plotly_and_paper_draw_every_picture(picture: Picture):
    assert as_png(picture) == as_png(picture)
    drawn = as_plotly(picture)["data"]
    assert len(drawn) == sum(len(panel.marks) for panel in picture.panels)
