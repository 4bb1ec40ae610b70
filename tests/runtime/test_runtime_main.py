"""Classes of `__main__`: scripts and notebooks, alive and restored, each in processes and clusters of its own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rayshot
from rayshot.audit import prove
from tests.processes import search_path

pytestmark = [pytest.mark.ray, pytest.mark.acceptance("X2")]

SCRIPT = Path(__file__).with_name("stamps.py")
CHANGES = {
    'value: int = 0\n\n    def age(self):\n        return "old"': (
        'value: int = 0\n    price: int = 5\n\n    def age(self):\n        return f"new {self.price}"'
    ),
    "class Foreign(Stamp)": "class Exotic(Stamp)",
    "Foreign(8)": "Exotic(8)",
    "class Clerk": "class Manager",
    "@rayshot.actor\nclass Collector:": "@rayshot.actor(version=2)\nclass Collector:",
    'def age(self):\n        return "old"\n\n\n': (
        "def age(self):\n        return self.edition\n\n    @staticmethod\n    def migrate(state, from_version):\n"
        '        stamps = isinstance((state["given"] or state["kept"] or [Stamp()])[0], Stamp)\n'
        '        return {**state, "edition": f"new, from {from_version}, with stamps: {stamps}"}\n\n\n'
    ),
}


NOTHING_IS_WRONG = {"facts": [], "outside": {}, "inside": {}}
"""Facts, values as the driver has them, and values as actors have them."""


def run(script, *steps):
    """What each step of the script says."""
    done = subprocess.run(
        [sys.executable, str(script), *map(str, steps)],
        capture_output=True, text=True, timeout=240, check=False, env=os.environ | search_path(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()[-(len(steps) // 2) :]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("stamps")


@pytest.fixture(scope="module")
def said(folder):
    """By a first process, which leaves a snapshot in `first`."""
    return run(SCRIPT, "alive", folder / "alive", "notebook", folder / "notebook", "first", folder / "first")


@pytest.fixture
def storage(said, folder, tmp_path):
    return shutil.copytree(folder / "first", tmp_path / "first")


def of(storage):
    return rayshot.open(storage).systems["album"]


@pytest.mark.wide("slow")
def test_a_class_of_a_script_is_one_class_in_results_messages_errors_and_tasks(said):
    held = {"one": ["kept", "put"], "two": ["arrived"], "three": ["arrived"]}
    assert said[0] == {**NOTHING_IS_WRONG, "held": held}


def test_the_last_definition_of_a_class_in_a_notebook_counts_at_a_restore(said):
    editions_before, equal, editions_after = said[1]
    assert editions_before == [1, 2]
    assert equal
    assert editions_after == [4, 4]


@pytest.mark.wide("slow")
def test_a_script_that_is_started_anew_has_its_own_classes_in_states_messages_and_actors(said, storage):
    assert said[2] == ["call", "create", "reply", "tell"]
    (restored,) = run(SCRIPT, "second", storage)
    assert {key: restored[key] for key in NOTHING_IS_WRONG} == NOTHING_IS_WRONG
    assert restored["held"]["one"] == ["asked", "heard", "kept", "put", "rung"]
    assert restored["held"]["three"] == ["arrived"]
    assert restored["held"]["four"] == ["given"]
    assert restored["ages"] == ["old", "old", "old"]
    before, after = of(storage).snapshots()
    assert after.states()["counter"]["alike"] == 2
    findings = {finding.name: finding for finding in prove(after, [before], replay=True).findings}
    assert findings["replay"].holds is None, "a replay that cannot know what moved is not judged"


@pytest.mark.wide("slow")
def test_a_script_that_was_changed_runs_its_new_code_on_what_was_recorded(storage, tmp_path):
    text = SCRIPT.read_text()
    for old, new in CHANGES.items():
        assert old in text
        text = text.replace(old, new)
    changed = tmp_path / "stamps.py"
    changed.write_text(text)
    (restored,) = run(changed, "second", storage)
    assert {key: restored[key] for key in NOTHING_IS_WRONG} == NOTHING_IS_WRONG
    assert restored["ages"] == ["new, from 1, with stamps: True", "new 5", "new 5"]
    clerk, local = (of(storage).latest().states()[name] for name in ("clerk", "locals"))
    assert clerk == {}
    assert [one.class_name for one in local["kept"]] == [
        "__main__.Stamp", "__main__.Foreign", "__main__.local_ones.<locals>.Stamp", "__main__.local_ones.<locals>.Torn",
    ]  # fmt: skip


READ_WITHOUT_RAY = """
import sys
sys.modules["ray"] = None
import rayshot
snapshot = rayshot.open(sys.argv[1]).systems["album"].latest()
print(snapshot.states()["one"]["kept"][0])
for channel in snapshot.channels.values():
    for message in channel.messages:
        print(message.kind, message.method, message.args)
"""


def test_a_snapshot_with_classes_of_a_script_is_read_where_ray_cannot_be_imported(storage):
    done = subprocess.run(
        [sys.executable, "-c", READ_WITHOUT_RAY, storage], capture_output=True, text=True, timeout=60, check=False,
        env=os.environ | search_path(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, *messages = done.stdout.splitlines()
    assert first == "<__main__.Stamp value=1>"
    with_stamps = {" ".join(message.split()[:2]) for message in messages if "<__main__.Stamp value=1>" in message}
    assert {"call give", "create __init__", "tell take"} < with_stamps
    assert any(message.startswith("reply") for message in with_stamps)


def test_no_stored_pickle_names_the_copy_of_cloudpickle_that_ray_has(storage):
    snapshot = of(storage).latest()
    blobs = [blob for channel in snapshot.manifest.channels for blob in channel.blobs()]
    for actor in snapshot.manifest.actors:
        blobs += [actor.class_pickle, *([actor.state.stream, *actor.state.buffers] if actor.state else [])]
    stored = [snapshot.read(blob) for blob in blobs if blob is not None]
    assert sum(b"cloudpickle.cloudpickle" in one for one in stored) > 5
    assert not [one for one in stored if b"ray.cloudpickle" in one]


def test_who_goes_on_with_a_system_whose_classes_were_edited_is_told_that_it_runs_the_old_code(tmp_path):
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("edited.py")), str(tmp_path)],
        capture_output=True, text=True, timeout=240, check=False, env=os.environ | search_path(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    quiet, given = zip(*(said[when] for when in ("begun", "nothing", "restart")), strict=True)
    assert (quiet, given) == (([], [], []), ([1, 1], [1, 1], [2, 2]))
    (account,), given = said["class of the program"]
    assert account == (
        "system 'notebook' runs with another code of class Account than this program has: alice, bob. Its actors go on "
        "with theirs. system.restart() stops the system with a savepoint and goes on from it with this program's code"
    )
    assert given == [1, 1]
    warned, given = said["both"]
    assert (warned[0], "another code of class Book" in warned[1], given) == (account, True, [1, 1])
