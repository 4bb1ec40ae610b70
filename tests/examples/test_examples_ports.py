"""Programs that people write for Ray, and the same on rayshot, of which an actor is killed in the middle."""

import ast
import contextlib
import difflib
import importlib
import os
import re
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import networkx as nx
import pytest
import ray

import rayshot
from examples.notebooks.stores import prompts
from tests.examples.dying import die_after, held
from tests.examples.elsewhere import EDGES, IN_THE_MIDDLE, JOURNEYS
from tests.processes import ROOT, kill_marked
from tests.runtime.healed import HEALS, until_it_runs
from tests.waiting import eventually

CHANGED_MAX = 50
DIFF = re.compile(r"```diff\n(.*?)```", re.DOTALL)
ROW = re.compile(r"^\| `(\w+)\.py` \|.*\| (\d+) \|", re.MULTILINE)
TEXT = "the actors of a tree ask their children and the children ask theirs until a leaf is asked which counts"
ARTICLES = ["to be or not to be", "that is the question", "whether it is nobler in the mind", "to suffer"]
WORDS = "it was the best of times it was the worst of times"
POINTS = [(x / 10, 3 * x / 10 - 1) for x in range(-10, 11)]

SNAPSHOTS = rayshot.SnapshotConfig(interval_s=0.3)
WIDE = pytest.mark.wide("one more program that came over")


def as_it_is(result):
    return result


class Port(NamedTuple):
    """A program, and who is killed.

    Attributes:
        args: Of its function `run`.
        actors: How many it makes.
        victim: How the name of the one begins that is killed; it is none that the program calls, as such a call fails.
        messages: After how many messages of its own that happens.
        exact: What of the result does not depend on the order in which actors run.
        right: What that must be; None: only plain Ray says.
    """

    name: str
    args: tuple[Any, ...]
    actors: int
    victim: str
    messages: int
    exact: Callable[[Any], Any] = as_it_is
    right: Any = None


def trained_once(samples):
    """What was trained, in order; the version of each depends on who was faster."""
    assert all(answer == 1_000 * version + prompt for prompt, version, answer in samples)
    return [prompt for prompt, _, _ in samples]


def learned(result):
    """Floats, in an order that nobody fixes."""
    weights, steps = result
    assert weights == pytest.approx((3.0, -1.0), abs=1e-3)
    return steps


def site(size):
    """How many of its pages links lead to, and what is on them."""
    found, ahead = {}, [0]
    while ahead:
        page = ahead.pop()
        if page not in found:
            links = sorted({(3 * page + 1) % size, (5 * page + 2) % size, page // 2})
            found[page] = f"page {page}, with {len(links)} links", links
            ahead += links
    return len(found), found


def groups(edges):
    """The smallest vertex of each vertex's group."""
    return {vertex: min(group) for group in nx.connected_components(nx.Graph(edges)) for vertex in group}


def training(count):
    return Port("training", (count,), 9, "trainer", 100, trained_once, [*range(count)])


def crawler(size):
    return Port("crawler", (size,), 7, "crawler", 40, right=site(size))


def rollouter(count):
    return Port("rollouter", (count,), 6, "rollouter", 100, sorted, [(k, k * k) for k in range(count)])


PORTS = [
    training(80),
    crawler(150),
    rollouter(120),
    Port("union_find", (EDGES,), 6, "buffer", 8, right=groups(EDGES)),
    Port("tree", (TEXT, 60), 7, "node", 20),
    Port("parameter_server", (POINTS, 60), 4, "server", 500, learned),
    Port("pool", (10,), 4, "worker", 10),
    Port("pi", (3, 50), 1, "progress", 40),
    Port("word_count", (ARTICLES, 60), 4, "mapper", 50),
    Port("life", (), 4, "stripe", 80),
    Port("replay", (60,), 5, "buffer", 80, lambda result: result[:2]),
    Port("bandits", (20,), 4, "policy", 300),
    Port("agents", (8,), 3, "model", 500),
    Port("batcher", (8,), 6, "batcher", 60),
    Port("streaming", (), 2, "model", 30),
]
ORDINARY = 4
OTHERS = {"generator": 120, "engine": 30, "semaphoreactor": 60, "queueactor": 30, "prompts": 15}
"""Who else of the training is killed, and after how many messages."""


def program(name, form):
    return importlib.import_module(f"examples.ports.{form}.{name}")


def lines(name, form):
    """Those of a program that are not empty, without indentation."""
    text = (ROOT / "examples" / "ports" / form / f"{name}.py").read_text()
    return [line.strip() for line in text.splitlines() if line.strip()]


def changed(name):
    """How many lines of a program were changed, taken away or added."""
    steps = difflib.SequenceMatcher(None, lines(name, "plain"), lines(name, "moved"), autojunk=False).get_opcodes()
    return sum(max(i2 - i1, j2 - j1) for step, i1, i2, j1, j2 in steps if step != "equal")


def states_of(snapshot, beginning):
    """The states of the actors of that class, by name."""
    return {name: state for name, state in snapshot.states().items() if name.startswith(f"{beginning}-")}


@contextlib.contextmanager
def at_work(port, storage, monkeypatch):
    """The system in which the program runs, on a thread, which puts its result into a list; who is killed will be."""
    found = []

    def run():
        try:
            found.append(program(port.name, "moved").run(*port.args))
        except (rayshot.errors.SystemDown, ray.exceptions.RayActorError) as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    system = rayshot.init(system_of(port), storage=storage, failure=HEALS, snapshots=SNAPSHOTS)
    with system, held(monkeypatch) as gate:
        thread.start()
        eventually(lambda: len(system.status().actors) == port.actors, 60)
        system.snapshot()  # from now on no call is lost with an actor that must be made again
        yield system, thread, found, gate


def system_of(port):
    return f"port-{port.name.replace('_', '-')}"


def is_below(state):
    """The program calls the root of the tree."""
    return not state.get("children")


def test_each_program_comes_over_by_few_lines_and_the_page_says_how_many():
    counts = {port.name: changed(port.name) for port in PORTS}
    assert {path.stem for path in (ROOT / "examples/ports/plain").glob("[a-z]*.py")} == set(counts)
    assert max(counts.values()) <= CHANGED_MAX
    rows = ROW.findall((ROOT / "examples/ports/README.md").read_text())
    assert {name: int(count) for name, count in rows} == counts


def test_the_conversions_of_the_guide_are_lines_of_the_programs():
    """Each names its program before its lines; one without such lines is a whole program, which tests/pages runs."""
    sides = {"-": ("plain",), "+": ("moved",), " ": ("plain", "moved")}
    _, *conversions = (ROOT / "docs/moving.md").read_text().split("\n### ")
    assert conversions
    for conversion in conversions:
        if not (diffs := [*DIFF.finditer(conversion)]):
            assert "```python" in conversion
            continue
        *_, name = re.findall(r"`(\w+)\.py`", conversion[: diffs[0].start()])
        steps = [step for diff in diffs for step in diff[1].splitlines()]
        strange = [step for step in steps if any(step[1:].strip() not in lines(name, form) for form in sides[step[0]])]
        assert (strange, {"-", "+"} - {step[0] for step in steps}) == ([], set()), conversion


@pytest.mark.ray
@pytest.mark.acceptance("A5")
@pytest.mark.parametrize(
    "port",
    [
        *(pytest.param(port, id=port.name, marks=() if k < ORDINARY else WIDE) for k, port in enumerate(PORTS)),
        *(
            pytest.param(training(80)._replace(victim=who, messages=count), id=f"training-{who}", marks=WIDE)
            for who, count in OTHERS.items()
        ),
    ],
)
def test_a_program_that_came_over_is_killed_and_ends_as_the_plain_one(cluster, tmp_path, monkeypatch, port):
    before = (tmp_path,) if port.name == "training" else ()  # where it writes its checkpoint
    expected = port.exact(program(port.name, "plain").run(*before, *port.args))
    assert port.right in (None, expected)
    with at_work(port, tmp_path / "shots", monkeypatch) as (system, thread, found, gate):
        states = states_of(system.snapshot(), port.victim)
        die_after(system, next(name for name, state in states.items() if is_below(state)), port.messages)
        gate.set()
        until_it_runs(system, 2)
        thread.join(120)
        assert system.status().aborted == 0
    (result,) = found
    assert port.exact(result) == expected


@pytest.mark.ray
@pytest.mark.acceptance("A5")
def test_the_training_goes_on_from_a_savepoint_without_whoever_began_it(cluster, tmp_path, monkeypatch):
    port = training(240)

    def kept(snapshot):
        (state,) = states_of(snapshot, "trainer").values()
        return trained_once(state["trained"])

    with at_work(port, tmp_path, monkeypatch) as (system, _, _, gate):
        gate.set()
        eventually(lambda: len(kept(system.snapshot())) >= 10, 60)
        middle = kept(system.stop_with_savepoint("the cluster is needed"))
    assert len(middle) < len(port.right), "it is over"
    with rayshot.restore(system_of(port), storage=tmp_path, snapshots=rayshot.SnapshotConfig()) as system:
        eventually(lambda: len(kept(system.snapshot())) == len(port.right), 60)
        last = system.snapshot()
    assert kept(last) == port.right
    made = [prompt for engine in states_of(last, "engine").values() for prompt in engine["generated"]]
    assert sorted(made) == port.right, "each prompt was generated once"


def kill_in_the_middle(name, storage):
    """Let a program of `elsewhere` work in a Ray cluster of its own, and kill it with all processes of that."""
    mark = f"elsewhere-{uuid.uuid4().hex}"
    with tempfile.TemporaryDirectory(prefix="re-", dir="/tmp", ignore_cleanup_errors=True) as folder:  # short
        begun = subprocess.Popen(
            [sys.executable, "-m", "tests.examples.elsewhere", "begin", name, storage],
            cwd=ROOT,
            env={**os.environ, "MARK": mark, "RAY_TMPDIR": folder},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert begun.stdout.readline().strip() == IN_THE_MIDDLE
        finally:
            kill_marked(mark)
            begun.communicate()


@pytest.mark.ray
@pytest.mark.acceptance("A5")
@pytest.mark.parametrize("name", [pytest.param(name, marks=() if k == 0 else WIDE) for k, name in enumerate(JOURNEYS)])
def test_a_program_that_came_over_ends_as_the_plain_one_in_a_new_cluster_when_its_own_was_killed(
    cluster, tmp_path, run_program, name
):
    kill_in_the_middle(name, tmp_path / "shots")
    (printed,) = run_program("-m", "tests.examples.elsewhere", "go_on", name, tmp_path / "shots")
    exact = next(port.exact for port in PORTS if port.name == name)
    before = (tmp_path,) if name == "training" else ()
    assert ast.literal_eval(printed) == exact(program(name, "plain").run(*before, *JOURNEYS[name].args))


@pytest.mark.ray
@pytest.mark.wide("three programs that loop")
@pytest.mark.parametrize("port", [training(80), crawler(150), rollouter(120)], ids=lambda port: port.name)
def test_a_program_that_came_over_keeps_nothing_in_locals_from_one_pass_to_the_next(cluster, tmp_path, port):
    with rayshot.init(system_of(port), storage=tmp_path, loops="anew"):
        result = program(port.name, "moved").run(*port.args)
    assert port.exact(result) == port.right


@pytest.mark.ray
@pytest.mark.wide("two trainings that are killed")
def test_a_checkpoint_loses_what_was_under_way_and_a_snapshot_does_not(cluster, tmp_path):
    plain, moved = prompts.kill_plain(tmp_path), prompts.kill_moved(tmp_path / "shots")
    assert plain.lost() == [*range(len(plain.before), plain.position)]
    assert 0 < len(plain.lost()) <= 2 * (prompts.AHEAD + 1)
    assert [*moved.before, *moved.behind] == [*range(prompts.COUNT)]
