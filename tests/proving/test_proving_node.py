"""The proofs of a node: which states it tries, and what a snapshot is told of the others."""

import pytest

from rayshot.errors import StateNotSerializable
from rayshot.format.entries import Proof
from rayshot.model.specification import ActorSpecification
from rayshot.proving.prover import Prover
from rayshot.proving.surroundings import Surroundings
from rayshot.proving.trial import Answer
from rayshot.runtime.node import proofs as node
from tests.proving import kinds
from tests.proving.conftest import SPECIFICATION, record

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
    for patience in ("PATIENCE_S", "SAMPLES_S"):
        monkeypatch.setattr(node, patience, PATIENCE_S)
    made = node.Proofs(lambda _actor, _life: Surroundings.here())
    yield made
    for prover in made._provers.values():
        prover.close()


def take(proofs, values, life=1, specification=SPECIFICATION):
    """A snapshot of actors that have these values: what it is told of each."""
    states = [node.RecordedState(name, specification, record(value).parts, None) for name, value in values.items()]
    return proofs.begin(life, states).finish(PATIENCE_S)


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
    assert take(proofs, {"alice": {"a": [1, 2.0, "x"]}}) == {"alice": Proof("plain")}
    assert not tried


def test_another_life_begins_anew(proofs, tried):
    take(proofs, {"alice": kinds.Plain()}, life=1)
    take(proofs, {"bob": kinds.Plain()}, life=2)
    assert tried == ["alice", "bob"]


def test_a_refuted_state_is_an_error_that_names_actor_path_and_reason_until_it_is_mended(proofs):
    for _ in range(3):
        with pytest.raises(StateNotSerializable, match=r"^alice\['state'\]\['value'\] was recorded.*KeyError: 'one'"):
            take(proofs, {"alice": kinds.Registered("one"), "bob": 1})
    assert take(proofs, {"alice": 7, "bob": 1})["alice"] == Proof("plain")


def test_a_value_that_does_not_load_is_found_in_a_sample_although_its_kind_is_proved(proofs):
    take(proofs, {"alice": kinds.Plain(), "bob": kinds.Refusing(OSError())})
    for _ in range(2):
        with pytest.raises(StateNotSerializable, match="alice"):
            take(proofs, {"alice": kinds.Refusing(ValueError("v"))})


def test_what_is_not_to_be_proved_says_so(proofs, tried):
    unwilling = ActorSpecification.of(kinds.Actor, {"prove": False}).pack()
    found = take(proofs, {"alice": kinds.Registered("one")}, specification=unwilling)
    assert found == {"alice": Proof("unproved", "prove=False")}
    assert not tried


def test_a_trial_that_takes_too_long_keeps_no_snapshot_waiting(proofs, monkeypatch):
    monkeypatch.setattr(node, "PATIENCE_S", 0.0)
    assert take(proofs, {"alice": kinds.Hanging()}) == {"alice": Proof("unproved", node.LATE)}


def test_an_actor_that_does_not_say_where_it_runs_is_not_proved():
    proofs = node.Proofs(lambda _actor, _life: None)
    assert take(proofs, {"alice": kinds.Plain()})["alice"].word == "unproved"


def test_a_pickle_that_is_too_large_is_left_to_the_drill(proofs, monkeypatch):
    monkeypatch.setattr(node, "STREAM_BYTES_MAX", 10)
    assert "rayshot drill" in take(proofs, {"alice": kinds.Plain()})["alice"].reason


def test_an_answer_is_what_it_says():
    assert Answer.unpack(Answer("refuted", "why", "KeyError", "alice").pack()).reason == "why"
    with pytest.raises(ValueError, match="not an answer"):
        Answer.unpack(b"\x90")
