"""Exercises of courses: by hand, against a textbook's algorithm written here, and what is refused.

The textbook (Chandy and Lamport 1985, section 3.2) knows markers that stand in FIFO queues between the messages, and
processes that record each incoming channel until its marker comes. The door runs machines that know neither.
"""

import contextlib
import io
import itertools
import random
import re
from collections import Counter
from pathlib import Path

import pytest

from examples.exercises import (
    SendTokens,
    TakeSnapshot,
    Tick,
    Topology,
    parse_events,
    parse_topology,
    render_snapshot,
    run_exercise,
)
from examples.exercises.running import _Exercise
from rayshot.errors import ConfigError

PAGE = Path(__file__).parents[2] / "examples" / "exercises" / "README.md"
STRONGLY_CONNECTED = 400
FROM_A_ROOT = 100


class Textbook:
    """The algorithm as it is taught, one tick after the other; `drawn` are the delays that it took."""

    def __init__(self, topology, delays):
        self.tokens = dict(topology.processes)
        self.queues = {channel: [] for channel in sorted(topology.channels)}
        self.delays = delays
        self.drawn = []
        self.time = 0
        self.states = []  # by snapshot: process -> tokens
        self.messages = []  # by snapshot: channel -> what was recorded
        self.open = []  # by snapshot: channels that are being recorded
        self.overlaps = 0  # snapshots that began while another was under way

    def do(self, event):
        match event:
            case SendTokens(sender, receiver, tokens):
                self.tokens[sender] -= tokens
                self.queue((sender, receiver), "tokens", tokens)
            case TakeSnapshot(initiator):
                self.overlaps += not all(map(self.is_complete, range(len(self.states))))
                self.states.append({})
                self.messages.append({channel: [] for channel in self.queues})
                self.open.append(set())
                self.record(len(self.states) - 1, initiator)
            case Tick(count):
                for _ in range(count):
                    self.tick()

    def queue(self, channel, kind, value):
        self.drawn.append(next(self.delays))
        self.queues[channel].append((self.time + 1 + self.drawn[-1], kind, value))

    def record(self, number, process):
        self.states[number][process] = self.tokens[process]
        self.open[number] |= {channel for channel in self.queues if channel[1] == process}
        for channel in self.queues:
            if channel[0] == process:
                self.queue(channel, "marker", number)

    def tick(self):
        self.time += 1
        for process in sorted(self.tokens):
            for channel in (channel for channel in self.queues if channel[0] == process):
                if self.queues[channel] and self.queues[channel][0][0] <= self.time:
                    self.deliver(channel, *self.queues[channel].pop(0)[1:])
                    break

    def deliver(self, channel, kind, value):
        receiver = channel[1]
        if kind == "tokens":
            self.tokens[receiver] += value
            for number, recording in enumerate(self.open):
                if channel in recording:
                    self.messages[number][channel].append(value)
            return
        if receiver not in self.states[value]:
            self.record(value, receiver)
        self.open[value].discard(channel)

    def is_complete(self, number):
        return len(self.states[number]) == len(self.tokens) and not self.open[number]

    def finish(self):
        while not all(map(self.is_complete, range(len(self.states)))):
            self.tick()


def random_topology(rng, *, strongly):
    names = [f"N{i}" for i in rng.sample(range(1, 15), rng.randint(1, 6))]
    if strongly:
        way = zip(names, names[1:] + names[:1], strict=True) if len(names) > 1 else ()
    else:
        way = ((names[rng.randrange(i)], names[i]) for i in range(1, len(names)))
    more = (pair for pair in itertools.permutations(names, 2) if rng.random() < 0.25)
    channels = list({*way, *more})
    rng.shuffle(channels)
    return Topology({name: rng.randint(0, 50) for name in names}, channels), names


def random_exercise(seed, *, strongly):
    """A topology, a script that fits it, and the textbook after it."""
    rng = random.Random(f"{seed} {strongly}")
    topology, names = random_topology(rng, strongly=strongly)
    delay_max = rng.choice([0, 1, 4, 20])
    book = Textbook(topology, iter(lambda: rng.randint(0, delay_max), None))
    script, snapshots = [], rng.randint(1, 6)
    for _ in range(rng.randint(5, 60)):
        channels = [channel for channel in topology.channels if book.tokens[channel[0]]]
        draw = rng.random()
        if draw < 0.6 and channels:
            sender, receiver = rng.choice(channels)
            event = SendTokens(sender, receiver, rng.randint(0, min(5, book.tokens[sender])))
        elif draw < 0.75 and len(book.states) < snapshots:
            event = TakeSnapshot(rng.choice(names) if strongly else names[0])
        else:
            event = Tick(rng.choice([0, 1, 1, 1, 2, 7]))
        script.append(event)
        book.do(event)
    book.finish()
    return topology, script, book


def by_channel(snapshot):
    """The messages of a snapshot, without the channels on which it recorded none."""
    return {f"{sender} to {receiver}": list(on) for (sender, receiver), on in snapshot.messages.items() if on}


def run_texts(topology, events, delays):
    return run_exercise(parse_topology(topology), parse_events(events), delays)


# By hand ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "states", "in_flight"),
    [
        ("snapshot p\nsend p q 1", {"p": 1, "q": 0}, {}),
        ("send p q 1\nsnapshot q", {"p": 0, "q": 0}, {"p to q": [1]}),
        ("send p q 1\nsnapshot p", {"p": 0, "q": 1}, {}),
        ("send p q 1\ntick\nsnapshot q", {"p": 0, "q": 1}, {}),
    ],
)
def test_the_papers_single_token_is_recorded_exactly_once(events, states, in_flight):
    """Section 2.1, the single-token conservation system: in p, on the channel, or in q."""
    (snapshot,) = run_texts("2\np 1\nq 0\np q\nq p", events, itertools.repeat(0))
    assert (snapshot.tokens, by_channel(snapshot)) == (states, in_flight)


@pytest.mark.parametrize("delays", [[0, 0, 5, 5, 0], [0, 0, 0, 0, 0], [3, 9, 0, 1, 2]], ids=str)
def test_money_on_its_way_back_belongs_to_the_channel(delays):
    """Whether A receives B's money before or after B's marker has left: A recorded first, so it is in flight."""
    (snapshot,) = run_exercise(
        Topology({"A": 10_000, "B": 5_000}, [("A", "B"), ("B", "A")]),
        [SendTokens("A", "B", 1_000), TakeSnapshot("A"), SendTokens("B", "A", 1_000), SendTokens("B", "A", 2_000)],
        delays,
    )
    assert (snapshot.number, snapshot.initiator) == (0, "A")
    assert snapshot.tokens == {"A": 9_000, "B": 3_000}
    assert snapshot.messages == {("A", "B"): (), ("B", "A"): (1_000, 2_000)}
    assert snapshot.total == 15_000


def test_two_snapshots_overlap_in_a_ring():
    """Each delay is 0. A tick is a line: who delivers what, and what follows.

    0. A -> B: 1, marker 0; B -> C: 2; C -> A: marker 1, 3. A recorded 9 in 0, C recorded 30 in 1.
    1. B has 19; C has 29, and the 2 is recorded in 1; marker 1 comes to A, which records 9 and sends it on.
    2. Marker 0 comes to B, which records 19 and sends it on; A has 12, and the 3 is recorded in 0, not in 1.
    3. Marker 1 comes to B, which records 19 and sends it on; marker 0 comes to C, which records 29.
    4. The last two markers close B -> C for 1 and C -> A for 0.
    """
    first, second = run_exercise(
        Topology({"A": 10, "B": 20, "C": 30}, [("A", "B"), ("B", "C"), ("C", "A")]),
        [
            SendTokens("A", "B", 1),
            TakeSnapshot("A"),
            SendTokens("B", "C", 2),
            TakeSnapshot("C"),
            SendTokens("C", "A", 3),
        ],
        [0] * 9,
    )
    assert (first.number, first.tokens, by_channel(first)) == (0, {"A": 9, "B": 19, "C": 29}, {"C to A": [3]})
    assert (second.number, second.tokens, by_channel(second)) == (1, {"A": 9, "B": 19, "C": 30}, {"B to C": [2]})
    assert first.total == second.total == 60


def test_a_process_delivers_one_message_a_tick_to_the_first_receiver_by_name():
    """Both are due at time 1, and N10 stands before N2."""
    channels = list(itertools.permutations(["N1", "N10", "N2"], 2))
    (snapshot,) = run_exercise(
        Topology({"N1": 9, "N10": 0, "N2": 0}, channels),
        [SendTokens("N1", "N2", 2), SendTokens("N1", "N10", 3), Tick(), TakeSnapshot("N2")],
        itertools.repeat(0),
    )
    assert snapshot.tokens == {"N1": 4, "N10": 3, "N2": 0}
    assert by_channel(snapshot) == {"N1 to N2": [2]}


def test_a_head_that_is_not_due_blocks_what_stands_behind_it():
    (snapshot,) = run_exercise(
        Topology({"A": 9, "B": 0}, [("A", "B"), ("B", "A")]),
        [SendTokens("A", "B", 2), SendTokens("A", "B", 3), Tick(8), TakeSnapshot("B")],
        [8, 0, 0, 0],
    )
    assert (snapshot.tokens, by_channel(snapshot)) == ({"A": 4, "B": 0}, {"A to B": [2, 3]})


def test_markers_take_their_delays_in_the_order_of_the_receivers_names():
    """A's marker to B takes 0 and the one to C takes 9: what B sends before its marker comes is not recorded by C."""
    topology = Topology({"A": 0, "B": 5, "C": 0}, [("A", "C"), ("A", "B"), ("B", "C"), ("C", "A")])
    script = [TakeSnapshot("A"), Tick(2), SendTokens("B", "C", 5), Tick(2), Tick(20)]
    (early,) = run_exercise(topology, script, [0, 9, *[0] * 9])
    (late,) = run_exercise(topology, script, [9, 0, *[0] * 9])
    assert early.tokens == {"A": 0, "B": 5, "C": 0}
    assert (late.tokens, by_channel(late)) == ({"A": 0, "B": 0, "C": 0}, {"B to C": [5]})


def test_a_process_alone_has_recorded_all_at_once():
    (snapshot,) = run_texts("1\nA 7", "snapshot A", [])
    assert (snapshot.tokens, snapshot.messages) == ({"A": 7}, {})


def test_a_script_without_a_snapshot_has_no_answer():
    assert run_texts("2\nA 7\nB 0\nA B", "send A B 3", [0]) == ()


def test_time_may_go_on_as_long_as_a_script_likes():
    """Ticks that deliver nothing cost nothing."""
    script = [SendTokens("A", "B", 2), Tick(10**15), TakeSnapshot("A"), Tick(10**15)]
    (snapshot,) = run_exercise(Topology({"A": 9, "B": 0}, [("A", "B")]), script, [10**14, 10**16])
    assert snapshot.tokens == {"A": 7, "B": 2}


# Against the textbook ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seeds", "strongly"), [(STRONGLY_CONNECTED, True), (FROM_A_ROOT, False)])
def test_every_snapshot_is_the_textbooks_and_keeps_all_tokens(seeds, strongly):
    seen = Counter()
    for seed in range(seeds):
        topology, script, book = random_exercise(seed, strongly=strongly)
        snapshots = run_exercise(topology, script, book.drawn)
        assert [snapshot.number for snapshot in snapshots] == list(range(len(book.states))), seed
        for snapshot, states, messages in zip(snapshots, book.states, book.messages, strict=True):
            assert list(snapshot.tokens.items()) == sorted(states.items()), seed
            assert list(snapshot.messages.items()) == [(c, tuple(on)) for c, on in messages.items()], seed
            assert snapshot.total == sum(topology.processes.values()), seed
            seen["snapshots"] += 1
            seen["channels with several messages"] += any(len(on) > 1 for on in messages.values())
            seen["snapshots with messages in flight"] += any(messages.values())
        seen["overlapping snapshots"] += book.overlaps
        if book.drawn and snapshots:
            seen["runs with a delay too few"] += 1
            with pytest.raises(ConfigError, match="used up"):
                run_exercise(topology, script, book.drawn[:-1])
    assert seen["snapshots"] > seeds
    assert seen["snapshots with messages in flight"] > seen["snapshots"] / 4
    assert seen["channels with several messages"] > seen["snapshots"] / 10
    assert seen["overlapping snapshots"] > seen["snapshots"] / 4
    assert seen["runs with a delay too few"] > seeds / 2


def test_when_all_has_arrived_and_all_snapshots_are_complete_nothing_is_kept():
    for seed in range(50):
        topology, script, book = random_exercise(seed, strongly=True)
        run = _Exercise(topology, iter(book.drawn))
        for event in [*script, Tick(10_000)]:
            run.do(event)
        assert not any(run.queues.values()), seed
        assert not any(run.answers.values()), seed
        assert not run.coordinator.collector.open_snapshots, seed
        for process in run.processes.values():
            kept = [*process.flight.values(), *process.outbox.values(), *process.mailbox.values()]
            assert not any(kept), seed
            assert not process.machine.open_snapshots, seed


# As texts ---------------------------------------------------------------------------------------------------------


def test_texts_may_have_comments_empty_lines_and_foreign_line_ends():
    topology = parse_topology("# two\r\n\r\n2 # of them\r\nA 3\r\n  B 0\r\n\r\nA B # one way\r\n")
    assert topology == Topology({"A": 3, "B": 0}, (("A", "B"),))
    events = parse_events("# first\n\nsend A B 2# so\n\ttick\ntick 3\nsnapshot A")
    assert events == (SendTokens("A", "B", 2), Tick(), Tick(3), TakeSnapshot("A"))
    assert [event.line for event in events] == [3, 4, 5, 6]


def test_a_snapshot_is_written_as_courses_write_it():
    snapshots = run_texts(
        "3\nN2 9\nN10 9\nN1 9\nN2 N10\nN10 N1\nN1 N2\nN2 N1",
        "snapshot N1\nsend N2 N1 3\nsend N2 N1 1\nsend N10 N1 2\nsnapshot N1\nsend N1 N2 4",
        itertools.repeat(0),
    )
    assert [render_snapshot(snapshot).splitlines() for snapshot in snapshots] == [
        ["0", "N1 9", "N10 7", "N2 5", "N10 N1 token(2)", "N2 N1 token(3)", "N2 N1 token(1)"],
        ["1", "N1 9", "N10 7", "N2 5", "N10 N1 token(2)", "N2 N1 token(3)", "N2 N1 token(1)"],
    ]


def test_the_page_prints_what_it_shows():
    ((code, promised),) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(PAGE), "exec"), {})
    assert printed.getvalue() == promised


# What is refused --------------------------------------------------------------------------------------------------


PAIR = "2\nA 5\nB 0\nA B"


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", 1, "the number of processes"),
        ("two\nA 1\nB 1", 1, "'two' is not a whole number"),
        ("-1", 1, "'-1' is not a whole number"),
        ("2 processes", 1, "the number of processes"),
        ("3\nA 1\nB 1", 1, "3 processes are to follow, but there are 2 lines"),
        ("2\nA 1\nB", 3, "process 2 of 2 as NAME TOKENS"),
        ("2\nA 1\n\nA 2", 4, "the process A is there already"),
        ("1\nA -2", 2, "'-2' is not a whole number"),
        ("1\nA " + "9" * 5_000, 2, "of at most 18 digits"),
        ("1\nA/B 2", 2, "cannot name a process"),
        ("1\ncoordinator 2", 2, "cannot name a process"),
        ("2\nA 1\nB 1\nA", 4, "a channel as SENDER RECEIVER"),
        ("2\nA 1\nB 1\nA C", 4, "no process 'C'; there is A, B"),
        ("2\nA 1\nB 1\nA A", 4, "a channel from A to itself"),
        ("2\nA 1\nB 1\nA B\nB A\nA B", 6, "A -> B is there already"),
    ],
)
def test_a_topology_that_cannot_be_is_refused_by_its_line(text, line, says):
    with pytest.raises(ConfigError) as error:
        parse_topology(text)
    assert error.value.message.startswith(f"line {line}: ")
    assert says in error.value.message


@pytest.mark.parametrize(
    ("processes", "channels"),
    [({"A": -1}, []), ({"A": True}, []), ({"A": 1}, [("A", "B")]), ({"": 1}, []), ({"coordinator": 1}, [])],
)
def test_a_topology_is_valid_once_built(processes, channels):
    with pytest.raises(ConfigError):
        Topology(processes, channels)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("jump A", "no event 'jump'; there is send, snapshot and tick"),
        ("send A B", "give send SENDER RECEIVER TOKENS"),
        ("send A B 1 2", "give send SENDER RECEIVER TOKENS"),
        ("send A B one", "'one' is not a whole number"),
        ("send A B -1", "'-1' is not a whole number"),
        ("snapshot", "give snapshot NAME"),
        ("snapshot A B", "give snapshot NAME"),
        ("tick 1 2", "give tick, or tick COUNT"),
        ("tick 1.5", "'1.5' is not a whole number"),
    ],
)
def test_a_malformed_event_is_refused_by_its_line(text, says):
    with pytest.raises(ConfigError, match="line 3: ") as error:
        parse_events(f"tick\n# next\n{text}\n")
    assert says in error.value.message
    assert error.value.evidence["line"] == 3


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("send A C 1", "no process 'C'; there is A, B"),
        ("send C A 1", "no process 'C'"),
        ("send B A 0", "no channel B -> A; those of B lead to none"),
        ("snapshot C", "no process 'C'"),
        ("snapshot B", "markers from B never reach A"),
    ],
)
def test_an_event_that_does_not_fit_is_refused_by_its_line_before_the_first_is_done(text, says):
    delays = itertools.count()
    with pytest.raises(ConfigError, match="line 2: ") as error:
        run_texts(PAIR, f"send A B 1\n{text}", delays)
    assert says in error.value.message
    assert next(delays) == 0, "a delay was taken"


@pytest.mark.parametrize(
    "event",
    [
        SendTokens("A", "B", -1),
        SendTokens("A", "B", True),
        SendTokens("A", ["B"], 1),
        Tick(-1),
        Tick("1"),
        TakeSnapshot(None),
        "tick",
        None,
    ],
    ids=str,
)
def test_an_event_that_was_not_read_from_a_text_is_refused_by_its_number(event):
    with pytest.raises(ConfigError, match="event 2: "):
        run_exercise(parse_topology(PAIR), [Tick(), event], [0])


def test_more_tokens_than_there_are_is_refused_before_they_are_sent():
    delays = itertools.count()
    with pytest.raises(ConfigError, match="line 3: A cannot send 2 tokens at time 1: it has 1") as error:
        run_texts(PAIR, "send A B 4\ntick\nsend A B 2", delays)
    assert error.value.evidence == {"process": "A", "tokens": 2, "balance": 1, "line": 3}
    assert next(delays) == 1, "a delay was taken for what was not sent"


def test_what_was_sent_to_a_process_is_not_there_before_it_is_delivered():
    script = "send A B 4\n{}\nsend B A 4\nsnapshot A"
    with pytest.raises(ConfigError, match="line 3: B cannot send 4"):
        run_texts(PAIR + "\nB A", script.format("tick 2"), [2, 0, 0, 0])
    (snapshot,) = run_texts(PAIR + "\nB A", script.format("tick 3"), [2, 0, 0, 0])
    assert snapshot.total == 5


def test_the_unreachable_are_named():
    with pytest.raises(ConfigError, match="never reach C, D") as error:
        run_texts("4\nD 1\nA 1\nB 1\nC 1\nA B\nB A\nC A\nD C", "snapshot A", [])
    assert error.value.evidence == {"initiator": "A", "unreachable": ["C", "D"], "line": 1}


@pytest.mark.parametrize(
    ("delays", "says"),
    [
        ([], "line 1: the delays are used up: after 0 of them A -> B needs one more at time 0"),
        ([0], "line 2: the delays are used up: after 1 of them A -> B needs one more at time 0"),
        ([0, 0], "the delays are used up: after 2 of them B -> A needs one more at time 2"),
        ([0, -1, 0], "line 2: -1, number 2 of the delays, is none"),
        ([0, None, 0], "line 2: None, number 2 of the delays, is none"),
        ([0, 0, 0.5], "0.5, number 3 of the delays, is none"),
    ],
)
def test_delays_that_are_used_up_or_none_are_refused(delays, says):
    with pytest.raises(ConfigError) as error:
        run_texts(PAIR + "\nB A", "send A B 1\nsnapshot A", delays)
    assert error.value.message.startswith(says)
