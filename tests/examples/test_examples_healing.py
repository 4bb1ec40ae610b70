"""The programs of docs/healing.md run while an actor is killed: the wrong ones go wrong, and hear it."""

import ast
import re

import pytest

from tests.processes import ROOT

pytestmark = pytest.mark.ray

BLOCKS = re.findall(r"```python[^\n]*\n(.*?)```", (ROOT / "docs/healing.md").read_text(), re.DOTALL)
PROGRAM = """
import os, random, signal, sys, time, uuid
import ray, rayshot

ray.init("local", num_cpus=4, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
paid, told = [], []
pay = paid.append


@rayshot.actor
class Oven:
    def heat(self, item):
        time.sleep(0.01)


{classes}

system = rayshot.init("shop", storage=sys.argv[1], snapshots=rayshot.SnapshotConfig(interval_s=None))
system.on_changed_answer(told.append)
{actors}
system.snapshot()
system.configure(rayshot.SnapshotConfig(interval_s={interval_s}))


class Items:
    def __iter__(self):
        for number in range(60):
            if number == 30:
                os.kill(system.status().actors[{victim!r}].pid, signal.SIGKILL)
            yield number


ITEMS = Items()
{body}
while system.incarnation < 2 or system._port.session.machine.awaits is not None:
    time.sleep(0.02)
while {is_wrong} and not told:
    time.sleep(0.02)
end = system.snapshot().states()
print("RESULT", repr(({result}, sum(one.count for one in told), system.status().changed_answers)))
system.shutdown()
"""
PRESS = 'press = Press.options(name="press").remote(Oven.options(name="oven").remote())'
DESK = 'desk, shelf = Desk.options(name="desk").remote(), Shelf.options(name="shelf").remote()'
LOTTERY = 'lottery = Lottery.options(name="lottery").remote(); Oven.options(name="oven").remote()'


def block(begin):
    (found,) = [one for one in BLOCKS if one.startswith(begin)]
    return found


@pytest.fixture
def run(run_program, tmp_path):
    """Run a program with the block that begins so; returns what the test looks at, and how many changes were told."""

    def run(begin, classes, actors, victim, result, interval_s=None):
        script = tmp_path / "program.py"
        is_wrong = "Wrong" in begin
        names = {"classes": block(classes), "actors": actors, "victim": victim, "result": result, "body": block(begin)}
        script.write_text(PROGRAM.format(**names, is_wrong=is_wrong, interval_s=interval_s))
        (line,) = [line for line in run_program(script, tmp_path / "shots") if line.startswith("RESULT ")]
        looked, heard, counted = ast.literal_eval(line.removeprefix("RESULT "))
        assert heard == counted
        assert (heard > 0) == is_wrong
        return looked

    return run


def overlaps(run, begin):
    return run(begin, "@rayshot.actor\nclass Press", PRESS, "oven", "end['press']['overlaps']")


def test_rounds_that_a_program_polls_for_overlap_behind_a_kill_and_it_is_told(run):
    assert overlaps(run, "# Wrong: after the kill, rounds overlap.") > 0


def test_rounds_whose_answers_a_program_waits_for_do_not_overlap(run):
    assert overlaps(run, "# Right: the answer says that the round is over.") == 0


def lost(run, begin):
    """Items that lie on the shelf under orders that the desk does not know."""
    unknown = "len(set(end['shelf']['items']) - end['desk']['orders'])"
    return run(begin, "@rayshot.actor\nclass Desk", DESK, "shelf", unknown)


def test_numbers_that_an_actor_draws_are_not_those_that_a_program_told_behind_a_kill_and_it_is_told(run):
    assert lost(run, "# Wrong: after the kill, items lie") > 0


def test_keys_that_a_program_makes_are_the_same_behind_a_kill(run):
    assert lost(run, "# Right: the message brings its key") == 0


def paid_for_nothing(run, begin, interval_s=None):
    """Tickets that were paid and have not won, or the other way round."""
    wrong = "len(set(paid) ^ set(end['lottery']['winners']))"
    return run(begin, "@rayshot.actor\nclass Lottery", LOTTERY, "oven", wrong, interval_s)


def test_who_pays_for_an_answer_that_may_change_pays_the_wrong_ones_and_is_told(run):
    assert paid_for_nothing(run, "# Wrong: after the kill, others have won") > 0


def test_who_pays_for_a_durable_answer_pays_the_right_ones(run):
    assert paid_for_nothing(run, "# Right: no rollback undoes", 0.5) == 0
