"""The proofs of a node: which states it tries, and what a snapshot is told of the others."""

import os
import threading
from contextlib import contextmanager

import pytest

from rayshot.errors import StateNotSerializable
from rayshot.format.entries import Proof
from rayshot.model.specification import ActorSpecification
from rayshot.proving import proofs as proving
from rayshot.proving.prover import Prover, spread
from rayshot.proving.surroundings import ProcessSurroundings
from rayshot.proving.trial import TrialAnswer
from rayshot.runtime.node import proofs as node
from tests.proving import kinds
from tests.proving.conftest import SPECIFICATION, record, record_actor

pytestmark = pytest.mark.acceptance("S2")

PATIENCE_S = 60.0


@pytest.fixture
def tried(monkeypatch):
    """The actors whose states a prover was asked for, in order."""
    asked = []
    ask = Prover.ask

    def counting(self, trial, file):
        asked.append(trial.actor)
        return ask(self, trial, file)

    monkeypatch.setattr(Prover, "ask", counting)
    return asked


@pytest.fixture
def proofs(monkeypatch):
    monkeypatch.setattr(proving, "PATIENCE_S", PATIENCE_S)
    made = node.NodeProofs(lambda _actor, _life: ProcessSurroundings.here())
    yield made
    for prover in made._provers.values():
        prover.close()


def begin(proofs, values, life=1, specification=SPECIFICATION):
    """Begin a snapshot of actors that have these values."""
    states = [proving.StateToProve(name, specification, record(value).parts, None) for name, value in values.items()]
    return proofs.begin(life, states)


def await_all(begun):
    """Wait until all trials of a snapshot have ended."""
    assert all(task.ended.wait(PATIENCE_S) for task in begun.tasks.values())


def take(proofs, values, life=1, specification=SPECIFICATION):
    """A snapshot of actors that have these values, behind all its trials: what it is told of each."""
    begun = begin(proofs, values, life, specification)
    await_all(begun)
    return begun.finish(PATIENCE_S)


@contextmanager
def held_back(monkeypatch):
    """Until its end no trial begins."""
    may_begin, ask = threading.Event(), Prover.ask

    def wait_first(self, trial, file):
        assert may_begin.wait(PATIENCE_S)
        return ask(self, trial, file)

    with monkeypatch.context() as patch:
        patch.setattr(Prover, "ask", wait_first)
        try:
            yield
        finally:
            may_begin.set()


def test_thirty_actors_of_one_class_with_the_same_types_are_one_trial(proofs, tried):
    found = take(proofs, {f"a{number:02}": kinds.Plain() for number in range(30)})
    assert tried == ["a00"]
    assert found["a00"] == Proof("proved")
    assert {str(found[name]) for name in found if name != "a00"} == {"proved by another of its class"}


def test_captures_1_2_4_and_8_of_an_actor_are_tried(proofs, tried):
    words = [take(proofs, {"alice": kinds.Plain()})["alice"].word for _ in range(9)]
    assert words == ["proved", "proved", "alike", "proved", "alike", "alike", "alike", "proved", "alike"]
    assert len(tried) == 4


def test_a_new_type_in_a_state_is_a_new_trial(proofs, tried):
    take(proofs, {"alice": kinds.Plain()})
    take(proofs, {"bob": [kinds.Plain(), kinds.Deadly]})
    assert tried == ["alice", "bob"]


def test_plain_values_need_no_trial(proofs, tried):
    assert take(proofs, {"alice": {"a": [1, 2.0, "x", {1}, frozenset(), range(3), 1j, b"", object()]}}) == {
        "alice": Proof("plain")
    }
    assert not tried


def test_a_state_that_refers_to_its_actor_or_calls_a_function_of_python_is_tried(proofs, tried):
    member = ActorSpecification.of(kinds.Choosy, {}).pack()
    parts = record_actor(kinds.Choosy("alice", lambda own: {own})).parts
    begun = proofs.begin(1, [proving.StateToProve("alice", member, parts, None)])
    await_all(begun)
    with pytest.raises(StateNotSerializable, match=r"^alice.* was recorded, but cannot be loaded again"):
        begun.finish(PATIENCE_S)
    with pytest.raises(StateNotSerializable, match=r"^bob\['state'\]\['value'\].*no attribute 'nothere'"):
        take(proofs, {"bob": kinds.Missing()})
    assert tried == ["alice", "bob"]


def test_another_life_begins_anew(proofs, tried):
    take(proofs, {"alice": kinds.Plain()}, life=1)
    take(proofs, {"bob": kinds.Plain()}, life=2)
    assert tried == ["alice", "bob"]


def test_a_refuted_state_is_an_error_that_names_actor_path_and_reason_until_it_is_mended(proofs):
    for _ in range(3):
        with pytest.raises(StateNotSerializable, match=r"^alice\['state'\]\['value'\] was recorded.*KeyError: 'one'"):
            take(proofs, {"alice": kinds.Registered("one"), "bob": 1})
    assert take(proofs, {"alice": 7, "bob": 1})["alice"] == Proof("plain")


def test_nobody_waits_for_a_sample_and_the_next_snapshot_is_aborted_if_it_was_refuted(proofs, monkeypatch):
    take(proofs, {"alice": kinds.Fussy(1), "bob": kinds.Fussy(1)})
    with held_back(monkeypatch):
        second = begin(proofs, {"alice": kinds.Fussy(-1), "bob": kinds.Fussy(2)})
        with monkeypatch.context() as patch:
            for task in second.tasks.values():
                patch.setattr(task, "ended", None)  # there is nothing to wait for
            assert second.finish(PATIENCE_S) == {"alice": Proof("alike"), "bob": Proof("alike")}
    await_all(second)
    for _ in range(2):
        with pytest.raises(StateNotSerializable, match=r"^alice\['state'\]\['value'\] was recorded.*ValueError: -1"):
            take(proofs, {"alice": kinds.Fussy(-1), "bob": kinds.Fussy(2)})
    assert take(proofs, {"alice": kinds.Fussy(3)}) == {"alice": Proof("proved")}
    assert take(proofs, {"alice": kinds.Fussy(3)}) == {"alice": Proof("alike")}


def test_a_snapshot_that_is_not_written_yet_is_aborted_for_its_own_sample(proofs):
    take(proofs, {"alice": kinds.Fussy(1)})
    with pytest.raises(StateNotSerializable, match="alice"):
        take(proofs, {"alice": kinds.Fussy(-1)})


def test_the_state_of_a_suspect_that_has_no_answer_in_time_is_not_proved(proofs, monkeypatch):
    take(proofs, {"alice": kinds.Fussy(1)})
    with pytest.raises(StateNotSerializable):
        take(proofs, {"alice": kinds.Fussy(-1)})
    monkeypatch.setattr(proving, "PATIENCE_S", 0.0)
    with held_back(monkeypatch):
        found = begin(proofs, {"alice": kinds.Fussy(-1)}).finish(PATIENCE_S)
    assert str(found["alice"]) == "not proved: an earlier state of it does not load: ValueError: -1"


def test_a_sample_of_an_older_life_says_nothing(proofs, monkeypatch, tried):
    take(proofs, {"alice": kinds.Fussy(1), "bob": kinds.Fussy(1)})
    with held_back(monkeypatch):
        old = begin(proofs, {"alice": kinds.Fussy(-1), "bob": kinds.Fussy(-1)})
        new = begin(proofs, {"alice": kinds.Fussy(1), "bob": kinds.Fussy(1)}, life=2)
    assert new.finish(PATIENCE_S)["alice"] == Proof("proved")
    await_all(old)
    take(proofs, {"alice": kinds.Fussy(1), "bob": kinds.Fussy(1)}, life=2)
    before = len(tried)
    assert take(proofs, {"alice": kinds.Fussy(1)}, life=2) == {"alice": Proof("alike")}
    assert len(tried) == before


def test_a_sample_has_its_file_for_itself(proofs, monkeypatch):
    take(proofs, {"alice": kinds.Fussy(1)})
    parts = record(kinds.Fussy(-1)).parts
    file = spread(parts)
    with held_back(monkeypatch):
        second = proofs.begin(1, [proving.StateToProve("alice", SPECIFICATION, parts, file)])
        second.finish(PATIENCE_S)
        os.close(file)
        other = spread(record(kinds.Fussy(1)).parts)
    await_all(second)
    os.close(other)
    assert second.tasks["alice"].answer.word == "refuted"


def test_what_is_awaited_is_tried_before_the_samples_that_wait(proofs, monkeypatch, tried):
    names = ("alice", "bob", "carol")
    take(proofs, {name: kinds.Fussy(1) for name in names})
    with held_back(monkeypatch):
        samples = begin(proofs, {name: kinds.Fussy(1) for name in names})
        new = begin(proofs, {"dave": kinds.Plain()})
    await_all(new)
    await_all(samples)
    assert tried.index("dave") < tried.index("carol")


def test_few_samples_wait_and_the_others_are_taken_later(proofs, monkeypatch, tried):
    names = [f"a{number}" for number in range(6)]
    take(proofs, {name: kinds.Fussy(1) for name in names})
    monkeypatch.setattr(node, "SAMPLES_MAX", 2)
    with held_back(monkeypatch):
        second = begin(proofs, {name: kinds.Fussy(1) for name in names})
    await_all(second)
    assert len(second.tasks) in {2, 3}  # one may be tried already
    for _ in range(2):
        take(proofs, {name: kinds.Fussy(1) for name in names if name not in tried[1:]})
    assert sorted(tried[1:]) == names


def test_what_is_not_to_be_proved_says_so(proofs, tried):
    unwilling = ActorSpecification.of(kinds.Actor, {"prove": False}).pack()
    found = take(proofs, {"alice": kinds.Registered("one")}, specification=unwilling)
    assert found == {"alice": Proof("unproved", "prove=False")}
    assert not tried


def test_a_trial_that_takes_too_long_keeps_no_snapshot_waiting(proofs, monkeypatch):
    monkeypatch.setattr(proving, "PATIENCE_S", 0.0)
    assert begin(proofs, {"alice": kinds.Hanging()}).finish(PATIENCE_S) == {"alice": Proof("unproved", proving.LATE)}


def test_an_actor_that_does_not_say_where_it_runs_is_not_proved():
    proofs = node.NodeProofs(lambda _actor, _life: None)
    assert take(proofs, {"alice": kinds.Plain()})["alice"].word == "unproved"


def test_a_pickle_that_is_too_large_is_left_to_the_drill(proofs, monkeypatch):
    monkeypatch.setattr(proving, "STREAM_BYTES_MAX", 10)
    assert "rayshot drill" in take(proofs, {"alice": kinds.Plain()})["alice"].reason


def test_an_answer_is_what_it_says():
    assert TrialAnswer.unpack(TrialAnswer("refuted", "why", "KeyError", "alice").pack()).reason == "why"
    with pytest.raises(ValueError, match="not an answer"):
        TrialAnswer.unpack(b"\x90")
