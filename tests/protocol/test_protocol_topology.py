import pytest

from rayshot.protocol.identity import Channel
from rayshot.protocol.topology import back_edges, forward_inputs, reached_from


@pytest.mark.parametrize(
    ("channels", "back"),
    [
        ({"a": "b", "b": "c", "c": ""}, []),
        ({"a": "b", "b": "c", "c": "a"}, ["ca"]),
        ({"a": "a"}, ["aa"]),
        ({"a": "b", "b": "a"}, ["ba"]),
        ({"s": "m", "m": "nz", "n": "m", "z": ""}, ["nm"]),
        ({"a": "bc", "b": "c", "c": ""}, []),
        ({"b": "c", "c": "b", "z": "c"}, ["bc"]),  # the search starts at the source z
    ],
)
def test_channels_that_lead_back_are_those_to_whom_is_being_visited(channels, back):
    assert back_edges(channels) == {Channel(*ends) for ends in back}


def test_without_them_each_process_has_its_inputs_and_no_cycle_is_left():
    ring = {f"p{n}": [f"p{(n + 1) % 5}"] for n in range(5)}
    inputs = forward_inputs(ring)
    assert inputs == {"p0": frozenset(), **{f"p{n}": frozenset({f"p{n - 1}"}) for n in range(1, 5)}}


def test_a_channel_to_somebody_unknown_is_nobodys_input():
    assert forward_inputs({"a": ["ghost"]}) == {"a": frozenset()}


def test_a_deep_line_is_searched_without_recursion():
    line = {f"p{n:06}": [f"p{n + 1:06}"] for n in range(20_000)}
    assert back_edges(line) == set()


def test_markers_come_to_all_whom_channels_lead_to():
    channels = {"a": ["b"], "b": ["a"], "c": ["d"], "d": []}
    assert reached_from(["a"], channels) == {"a", "b"}
    assert reached_from(["a", "c"], channels) == {"a", "b", "c", "d"}
