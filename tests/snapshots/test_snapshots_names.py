"""Actors with names of any text in a storage: their snapshots' keys, and what manifests and logs give back of them."""

import itertools
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from rayshot.cli import main
from rayshot.errors import BadManifest
from rayshot.format.bounds import check_actor, check_initiator, check_process, check_system, is_intent
from rayshot.log.layout import (
    chunk_folder,
    copy_folder,
    manifest_key,
    manifest_name,
    snapshot_of,
    writer_of,
)
from rayshot.log.records import CommitRecord, decode_record, encode_record
from rayshot.places.local import LocalStore
from rayshot.places.memory import MemoryStore
from rayshot.places.store import is_key
from rayshot.protocol.identity import NAME_LENGTH_MAX, SnapshotId, initiator_of
from tests.protocol.test_protocol_identity import NAMES, names
from tests.snapshots.snapshot_builder import KEY, Bank, Flow, make_snapshot, open_bank

pytestmark = pytest.mark.acceptance("X3")
FILE_NAME_BYTES_MAX = 255
NUMBER_MAX = 2**63 - 1


@given(names, st.sampled_from([1, 41, NUMBER_MAX]))
def test_the_keys_of_a_snapshot_stay_in_their_folders_and_tell_which_it_is(name: str, number: int) -> None:
    snapshot = SnapshotId(number, initiator_of(name), number)
    chunk = f"{chunk_folder('bank')}/00/{'0' * 64}-{snapshot}"
    keys = [
        manifest_key("bank", snapshot),
        f"bank/{manifest_name(snapshot, resealed_for=number)}",
        f"bank/intents/{snapshot}",
        f"bank/{copy_folder(snapshot, attempt=7)}",
    ]
    for key in (*keys, chunk):
        assert is_key(key)
        assert max(len(part.encode()) for part in key.split("/")) <= FILE_NAME_BYTES_MAX
    for key in keys:
        assert snapshot_of(key.rpartition("/")[2]) == snapshot
    assert is_intent(str(snapshot))
    assert snapshot_of(writer_of(chunk)) == snapshot
    assert {key.count("/") for key in keys} == {2}, "nothing in a name makes a folder"


@given(names)
def test_a_record_of_the_log_gives_its_snapshot_back(name: str) -> None:
    snapshot = SnapshotId(1, initiator_of(name), 1)
    record = CommitRecord(0, "w", 1, snapshot, manifest_name(snapshot), "0" * 64, 1.0)
    assert decode_record(encode_record(record), 0) == record


@settings(max_examples=20, deadline=None)
@given(st.lists(names, min_size=2, max_size=2, unique=True))
def test_a_manifest_gives_names_back_as_they_are(actors: list[str]) -> None:
    one, other = actors
    states = {one: {"value": 1}, other: {"value": 2}}
    flows = {(one, other): Flow(sent=3, received=1), ("driver:main", one): Flow(sent=2, received=2)}
    snapshot = make_snapshot(open_bank(MemoryStore()), Bank(states=states, flows=flows))
    assert dict(snapshot.states()) == states
    assert set(snapshot.channels) == set(flows)
    assert [message.number for message in snapshot.channel(one, other).messages] == [2, 3]
    snapshot.verify()


@pytest.mark.parametrize(
    "name", ["", "a\n", "\0", "\x1b[2J", "\u2028", "driver:x", "x" * (NAME_LENGTH_MAX + 1), 7, None]
)
def test_a_name_that_no_actor_can_have_is_damage(name: object) -> None:
    with pytest.raises(BadManifest):
        check_actor(name, "an actor")


@pytest.mark.parametrize("name", ["driver:", "driver:a/b", "driver:driver:x", "driver:\n"])
def test_a_driver_has_a_name_that_rayshot_gives(name: str) -> None:
    assert check_process("driver:0a1b", "a sender") == "driver:0a1b"
    with pytest.raises(BadManifest):
        check_process(name, "a sender")


@pytest.mark.parametrize("text", ["", "-a", ".a", "a/b", "a b", "ü", "a\n", "x" * (NAME_LENGTH_MAX + 1), 7])
def test_an_initiator_can_be_a_part_of_a_key(text: object) -> None:
    with pytest.raises(BadManifest):
        check_initiator(text)
    with pytest.raises(BadManifest):
        check_system(text)


# On the command line ---------------------------------------------------------------------------------------------


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAYSHOT_SIGNING_KEY", KEY.secret.decode())
    states = {name: {"n": number} for number, name in enumerate(NAMES)}
    flows = {(one, other): Flow(sent=2, received=1) for one, other in itertools.pairwise(NAMES)}
    repository = open_bank(LocalStore(tmp_path))
    make_snapshot(repository, Bank(states=states, flows=flows), 1)
    make_snapshot(repository, Bank(states={name: {"n": -1} for name in NAMES}, flows=flows), 2)
    return tmp_path


def run(*arguments: object) -> str:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == (1 if arguments[0] == "diff" else 0), result.output
    return result.stdout


@pytest.mark.parametrize("command", ["show", "topology", "diff"])
def test_the_command_line_shows_names_as_they_are_and_obeys_nothing_in_them(storage: Path, command: str) -> None:
    shown = run(command, storage, "--all")
    for name in ("[bold]x", "worker:0", "a/b", "../x", "käse 🧀", "%2F", "make.<locals>.Cell-1", "a\\b"):
        assert f" {name} " in shown
    assert "\\u202egnp.exe" in shown
    assert "\u202e" not in shown
    assert not [char for char in shown if not char.isprintable() and char != "\n"]


@pytest.mark.parametrize("command", ["show", "topology", "diff"])
def test_documents_hold_names_as_they_are(storage: Path, command: str) -> None:
    text = run(command, storage, "--json")
    assert text.isascii()

    def texts(tree: object) -> set[str]:
        if isinstance(tree, dict):
            return {str(key) for key in tree} | {text for item in tree.values() for text in texts(item)}
        return {text for item in tree for text in texts(item)} if isinstance(tree, list) else {str(tree)}

    assert texts(json.loads(text)) >= set(NAMES)
