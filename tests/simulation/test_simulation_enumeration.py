"""Every run of small worlds: all orders of all that can happen, each judged. What is counted is the same every time."""

from typing import NamedTuple

import pytest

from rayshot.errors import ConfigError
from rayshot.protocol.identity import ALIGNED, CHANDY_LAMPORT, STOP_THE_WORLD
from rayshot.simulation.choices import RecordedChoices
from rayshot.simulation.world.failure import OracleFailure
from rayshot.simulation.world.machines import Machines
from tests.simulate.enumeration import Odometer, enumerate_runs, frozen
from tests.simulate.small_case import Found, SmallCase
from tests.simulate.small_world import SmallWorld, enumerate_case
from tests.simulation import mutants, mutants_of_alignment, mutants_of_senders, mutants_of_stops
from tests.simulation.mutation import MUTANTS

FEWER = frozenset({"transport", "report", "end", "acknowledge"})
ONE_WAY = {"p": ("q",), "q": ()}
BOTH_WAYS = {"p": ("q",), "q": ("p",)}
IN_FLIGHT = "messages in flight are recorded"
NEWS = "an acknowledgement brings the news"
TOGETHER = "packets of one channel in transit together"


class Counted(NamedTuple):
    """A case, and what its enumeration counts: runs, those that came to their end, states, different cuts."""

    case: SmallCase
    runs: int
    finished: int
    states: int
    cuts: int
    facts: frozenset[str]


CASES = {
    "a message each way": Counted(SmallCase(BOTH_WAYS), 3317, 252, 2140, 9, frozenset({IN_FLIGHT, NEWS})),
    "two messages in any order": Counted(
        SmallCase({"p": ("q", "q"), "q": ()}), 1819, 108, 1148, 6, frozenset({IN_FLIGHT, NEWS, TOGETHER})
    ),
    "messages that wait in the outbox": Counted(
        SmallCase({"p": ("q", "q"), "q": ()}, at_once=FEWER - {"transport"}),
        722, 73, 657, 6, frozenset({IN_FLIGHT, NEWS, TOGETHER}),
    ),
    "a packet that comes twice": Counted(
        SmallCase({"p": ("q", "q"), "q": ()}, duplicated=1, at_once=FEWER),
        1798, 127, 1233, 6, frozenset({IN_FLIGHT, NEWS, "a batch is dropped: duplicate"}),
    ),
    "messages to oneself": Counted(
        SmallCase({"p": ("p", "p"), "q": ("p",)}, at_once=FEWER), 1808, 330, 1689, 18, frozenset({IN_FLIGHT, NEWS})
    ),
    "two snapshots": Counted(
        SmallCase(ONE_WAY, snapshots=(CHANDY_LAMPORT, CHANDY_LAMPORT), at_once=FEWER),
        2791, 251, 2150, 6, frozenset({IN_FLIGHT, NEWS, "snapshots overlap", "a cut does not advance"}),
    ),
    "two initiators": Counted(
        SmallCase(ONE_WAY, idle={"q": ("p",)}, snapshots=("p", "q"), at_once=FEWER),
        3144, 190, 2163, 6, frozenset({IN_FLIGHT, NEWS, "snapshots overlap", "a cut does not advance"}),
    ),
    "a process alone": Counted(
        SmallCase(BOTH_WAYS, snapshots=("p",), at_once=FEWER), 658, 101, 637, 9, frozenset({IN_FLIGHT, NEWS, TOGETHER})
    ),
    "a snapshot that is given up": Counted(
        SmallCase(ONE_WAY, aborts=1, at_once=frozenset({"transport"})),
        2862, 93, 1313, 3, frozenset({IN_FLIGHT, NEWS, "a snapshot ends: requested"}),
    ),
    "three processes, one relays": Counted(
        SmallCase({"p": ("q", "r"), "q": (), "r": ()}, relays={"q": ("r",)}, at_once=FEWER),
        5366, 307, 3265, 10, frozenset({IN_FLIGHT, NEWS}),
    ),
    "aligned, two sources": Counted(
        SmallCase({"s": ("m",), "t": ("m",), "m": ()}, snapshots=(ALIGNED,), at_once=FEWER),
        2868, 22, 1414, 4, frozenset({TOGETHER}),
    ),
    "aligned, until patience ends": Counted(
        SmallCase({"s": ("m",), "m": ()}, snapshots=(ALIGNED,), timeouts=1, at_once=FEWER),
        212, 26, 195, 3, frozenset({IN_FLIGHT, NEWS, TOGETHER}),
    ),
    "aligned, in a loop": Counted(
        SmallCase(BOTH_WAYS, snapshots=(ALIGNED,), at_once=FEWER), 778, 49, 646, 6, frozenset({IN_FLIGHT, NEWS})
    ),
    "a stopped world": Counted(
        SmallCase(BOTH_WAYS, snapshots=(STOP_THE_WORLD,)), 1679, 64, 1102, 9, frozenset({IN_FLIGHT})
    ),
}  # fmt: skip

KILLED_BY = {
    "messages that wait in the outbox": (
        "what waits in the mailbox is not recorded",
        "a record says that all is released that is sent, and the outbox is lost",
        "with a record only transported+1 .. sent are handed in",
        "a channel is recorded in reverse",
        "a batch that is early is delivered at once",
        "the marker's `sent` is one too low",
    ),
    "a packet that comes twice": ("a duplicate is applied",),
    "messages to oneself": ("a record does not count what a process sent to itself",),
    "a process alone": (
        "the marker's `sent` is one too high",
        "a message is processed between the news of a snapshot and the capture",
        "the captured state is one message late",
        "a marker is sent once only",
        "a snapshot is stored with a record missing",
        "only what senders hand in is stored",
        "no marker goes by itself",
        "messages are dropped when they are acknowledged",
    ),
    "aligned, two sources": ("one marker is enough", "aligned snapshots send no markers by themselves"),
    "a stopped world": (
        "nobody is told that all are quiet",
        "the first who is quiet lets all record",
        "a process says that it is quiet while messages are under way",
    ),
}


# The odometer --------------------------------------------------------------------------------------


def test_every_sequence_of_decisions_is_taken_once_and_in_order():
    taken = []

    def run(source):
        first = source.choose(2)
        taken.append((first, *(source.choose(3) for _ in range(first))))

    counted = enumerate_runs(run)
    assert taken == [(0,), (1, 0), (1, 1), (1, 2)]
    assert (counted.runs, counted.finished, counted.decisions_max, counted.complete) == (4, 4, 2, True)


def test_a_state_that_was_visited_ends_a_run():
    def walk(source):
        place = [0, 0]
        while sum(place) < 10:
            source.reached(lambda: tuple(place))
            place[source.choose(2)] += 1

    merged = enumerate_runs(walk)
    assert merged.states == sum(range(1, 11))
    assert merged.runs < 2 * merged.states
    assert enumerate_runs(walk, merge_states=False).runs == 2**10


def test_a_failure_ends_the_enumeration_and_its_choices_repeat_it():
    def run(source):
        if [source.choose(2) for _ in range(4)] == [0, 1, 1, 0]:
            raise OracleFailure("order", "found")

    counted = enumerate_runs(run)
    assert (str(counted.failure), counted.complete) == ("order: found", False)
    with pytest.raises(OracleFailure):
        run(RecordedChoices(counted.choices))


def test_an_enumeration_that_is_too_long_is_not_complete():
    counted = enumerate_runs(lambda source: [source.choose(2) for _ in range(10)], runs_max=100)
    assert (counted.runs, counted.complete) == (100, False)


def test_a_world_that_is_no_function_of_its_choices_is_seen():
    with pytest.raises(AssertionError, match="not a function of choices"):
        Odometer([4]).choose(3)


def test_a_frozen_value_says_all_of_it_and_nothing_of_how_it_came_about():
    assert frozen({"b": {2, 1}, "a": [1]}) == frozen({"a": [1], "b": {1, 2}})
    assert frozen({"a": {}}) != frozen({})
    assert repr(frozen(SmallCase(ONE_WAY))) == repr(frozen(SmallCase(dict(reversed(ONE_WAY.items())))))


# Small worlds --------------------------------------------------------------------------------------


@pytest.mark.sampled("more cases of one kind", keeps=3)
@pytest.mark.parametrize("name", CASES)
def test_no_run_of_the_case_breaks_a_promise(name):
    case, runs, finished, states, cuts, facts = CASES[name]
    counted, found = enumerate_case(case)
    assert counted.failure is None, f"choices {counted.choices}"
    assert counted.complete
    assert (counted.runs, counted.finished, counted.states, len(found.cuts)) == (runs, finished, states, cuts)
    assert found.facts >= facts


def test_comparing_states_loses_no_cut_and_no_fact():
    for case, runs in ((SmallCase(ONE_WAY, at_once=FEWER), 344), (SmallCase(ONE_WAY, snapshots=("p",)), 461)):
        merged, found = enumerate_case(case)
        each, all_found = enumerate_case(case, merge_states=False)
        assert each.runs == each.finished == runs
        assert merged.runs < runs
        assert found == all_found


def test_the_cuts_of_one_message_are_those_that_theory_allows():
    _, found = enumerate_case(SmallCase(ONE_WAY))
    assert found.cuts == {
        "1-coordinator-1: p 100, q 100; ",
        "1-coordinator-1: p 99, q 100; p -> q 0..1 [1]",
        "1-coordinator-1: p 99, q 101; p -> q 1..1 []",
    }


@pytest.mark.sampled("more cases of one kind", keeps=19)
@pytest.mark.parametrize(("case", "name"), [(case, name) for case, names in KILLED_BY.items() for name in names])
def test_enumeration_alone_kills_the_mutant(case, name):
    (mutant,) = [mutant for mutant in MUTANTS if mutant.name == name]
    with mutant.at_work() as machines:
        counted, _ = enumerate_case(CASES[case].case, machines)
    assert isinstance(counted.failure, AssertionError), f"{counted.runs} runs, {counted.failure!r}"
    assert len(counted.choices) <= 20


def test_the_mutants_come_from_all_files():
    files = (mutants.NoMailbox, mutants_of_senders.Untagged, mutants_of_alignment.Unlimited, mutants_of_stops.Unpaused)
    assert {*files} <= {mutant.machines.participant for mutant in MUTANTS}


def test_the_choices_of_a_failure_run_it_again():
    machines = Machines(participant=mutants.NoMailbox)
    case = CASES["messages that wait in the outbox"].case
    counted, _ = enumerate_case(case, machines)

    class Repeated(RecordedChoices):
        def reached(self, state):
            """Nothing is skipped."""

    with pytest.raises(type(counted.failure), match=counted.failure.oracle):
        SmallWorld(case, Repeated(counted.choices), machines, Found()).run()


def test_a_case_that_names_strangers_is_refused():
    with pytest.raises(ConfigError, match="'z'"):
        SmallCase({"p": ("z",)})
    with pytest.raises(ConfigError, match="'z'"):
        SmallCase({"p": ()}, snapshots=("z",))
