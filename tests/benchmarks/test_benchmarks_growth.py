"""What a snapshot costs is counted exactly, and is linear: here in small, in docs/benchmarks/growth.md up to 10,000."""

from pathlib import Path

import pytest

from benchmarks.graphs import DEGREE, GRAPHS, random_graph
from benchmarks.growth import SIZES_SHORT, count, report_of, table_of
from benchmarks.rounds import take_snapshot

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def costs():
    return count(SIZES_SHORT)


def farthest(graph, start):
    """The greatest number of channels that a marker from `start` has to go along."""
    distances, waiting = {start: 0}, [start]
    for name in waiting:
        for receiver in graph[name]:
            if receiver not in distances:
                distances[receiver] = distances[name] + 1
                waiting.append(receiver)
    return max(distances.values())


@pytest.mark.parametrize("size", SIZES_SHORT)
@pytest.mark.parametrize("name", GRAPHS)
def test_a_process_alone_costs_a_marker_a_channel_and_two_messages_a_process(name, size):
    graph = GRAPHS[name](size)
    cost = take_snapshot(graph, initiator="p00000")
    channels = sum(map(len, graph.values()))
    assert (cost.processes, cost.channels) == (size, channels)
    assert (cost.markers, cost.riding) == (channels, 0)
    assert cost.coordinator_messages == 2 * size + 1, "records, ends, and the announcement"
    assert cost.rounds == farthest(graph, "p00000") + 1


@pytest.mark.parametrize("size", SIZES_SHORT)
@pytest.mark.parametrize("name", GRAPHS)
def test_the_coordinator_costs_three_messages_a_process_and_no_marker_that_goes_by_itself(name, size):
    graph = GRAPHS[name](size)
    idle, busy = take_snapshot(graph), take_snapshot(graph, busy=True)
    assert (idle.markers, idle.riding, idle.marker_bytes) == (0, 0, 0)
    assert (idle.coordinator_messages, idle.rounds) == (3 * size, 2)
    assert (busy.markers, busy.riding) == (0, busy.channels)
    assert (busy.coordinator_messages, busy.rounds) == (3 * size, 2)


def test_the_report_says_that_all_is_linear(costs):
    report = report_of(costs, SIZES_SHORT)
    assert [figure.name for figure in report.figures if not figure.met] == []
    assert report.samples("ring, one process begins: rounds") == SIZES_SHORT


def test_the_table_in_the_documentation_is_what_is_counted(costs):
    written = (ROOT / "docs/benchmarks/growth.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in table_of(costs) if line not in written] == []


def test_a_random_graph_is_the_same_every_time_and_has_its_degree():
    graph = random_graph(50)
    assert graph == random_graph(50)
    assert {len(set(receivers)) for receivers in graph.values()} == {DEGREE}
    assert not any(name in receivers for name, receivers in graph.items())
    assert {len(receivers) for receivers in random_graph(4).values()} == {3}
