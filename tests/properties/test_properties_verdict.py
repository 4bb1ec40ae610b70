"""What a verdict says, and of which other snapshots; what predicates may and may not do."""

import pickle
import sys

import numpy as np
import pytest

from rayshot.errors import (
    ConfigError,
    Damaged,
    MissingChunk,
    NotStable,
    PredicateFailed,
    SnapshotDeleted,
    StoreError,
)
from rayshot.properties import Answer, conservation, conserved_sum, detect, invariant, judge, possibly, quantity, stable
from tests.properties.builders import Actor, History, Line, snapshot_of
from tests.snapshots.snapshot_builder import delete

AB, BA, DRIVER = ("alice", "bob"), ("bob", "alice"), ("driver:main", "alice")


@stable
def bob_has_done_330(state):
    return state.actor("bob")["done"] >= 330


@stable(conditions=("nobody pays back",), unless_a_driver_speaks=True)
def nothing_moves(state):
    return state.in_flight == 0


def done(alice, bob):
    return {"alice": Actor({"done": alice}), "bob": Actor({"done": bob})}


def overlapping():
    """One has bob ahead, the other alice: what a run with two initiators gave."""
    history = History()
    before = history.snapshot(done(300, 300), {AB: Line(300), BA: Line(300)})
    bob_ahead = history.snapshot(done(317, 334), {AB: Line(317), BA: Line(334, [b"\x91\xa1x"] * 17)})
    alice_ahead = history.snapshot(done(334, 317), {AB: Line(334, [b"\x91\xa1x"] * 17), BA: Line(317)})
    after = history.snapshot(done(340, 340), {AB: Line(340), BA: Line(340)})
    return history, before, bob_ahead, alice_ahead, after


def test_a_yes_is_good_for_what_can_be_reached_and_a_no_for_what_lies_before():
    _, before, bob_ahead, alice_ahead, after = overlapping()
    yes, no = judge(bob_has_done_330, bob_ahead), judge(bob_has_done_330, alice_ahead)
    assert (yes.holds, no.holds) == (True, False)
    assert [yes.says_of(one) for one in (before, bob_ahead, after)] == [None, True, True]
    assert [no.says_of(one) for one in (before, alice_ahead, after)] == [False, False, None]
    assert yes.meaning == "it holds from the moment when 1-coordinator-2 was complete, until a restore"
    assert no.meaning == "it did not hold when 1-coordinator-3 began"


def test_a_later_position_is_no_later_cut():
    _, _, bob_ahead, alice_ahead, _ = overlapping()
    assert alice_ahead.position > bob_ahead.position
    assert judge(bob_has_done_330, bob_ahead).says_of(alice_ahead) is None
    assert judge(bob_has_done_330, alice_ahead).says_of(bob_ahead) is None


def test_a_history_in_which_it_is_true_and_then_false_in_an_overlapping_snapshot_contradicts_nothing():
    history, _, bob_ahead, _, _ = overlapping()
    found = detect(history.system, bob_has_done_330)
    assert [one.holds for one in found.verdicts] == [False, True, False, True]
    assert found.contradictions == []
    assert found.decisive.snapshot == bob_ahead.id
    assert found.holds is True


def test_what_was_true_and_is_not_any_more_was_not_stable():
    history = History()
    history.snapshot(done(0, 400), {AB: Line(1)})
    history.snapshot(done(0, 10), {AB: Line(2)})
    found = detect(history.system, bob_has_done_330)
    ((yes, no),) = found.contradictions
    assert (str(yes.snapshot), str(no.snapshot)) == ("1-coordinator-1", "1-coordinator-2")
    assert (found.decisive, found.holds) == (None, None), "nothing follows of what was declared wrongly"


def test_a_restore_voids_all_verdicts():
    history = History()
    first = history.snapshot(done(0, 0), {AB: Line(1)})
    late = history.snapshot(done(0, 400), {AB: Line(2)})
    assert detect(history.system, bob_has_done_330).holds is True
    history.restore(first)
    assert detect(history.system, bob_has_done_330).holds is None, "nobody knows of the new life yet"
    again = history.snapshot(done(0, 0), {AB: Line(3)})
    assert judge(bob_has_done_330, late).says_of(again) is None
    found = detect(history.system, bob_has_done_330)
    assert (found.holds, found.contradictions) == (False, [])


def test_where_doors_must_be_closed_a_driver_that_spoke_ends_what_a_verdict_says():
    history = History()
    quiet = history.snapshot(done(0, 0), {DRIVER: Line(1)})
    same = history.snapshot(done(0, 0), {DRIVER: Line(1), AB: Line(1)})
    spoken = history.snapshot(done(0, 0), {DRIVER: Line(2, [b"\x91\xa1x"])})
    verdict = judge(nothing_moves, quiet)
    assert verdict.told == {"driver:main": 1}
    assert [verdict.says_of(one) for one in (same, spoken)] == [True, None]
    assert judge(nothing_moves, spoken).says_of(quiet) is None
    found = detect([quiet, spoken], nothing_moves)
    assert (found.holds, found.decisive, found.contradictions) == (False, None, [])
    assert verdict.meaning.endswith("as long as nobody pays back and no driver speaks from before the snapshot began")


def test_a_verdict_needs_its_snapshot_no_more():
    _, _, bob_ahead, _, after = overlapping()
    verdict = pickle.loads(pickle.dumps(judge(bob_has_done_330, bob_ahead)))
    assert (verdict.snapshot, verdict.life, verdict.says_of(after)) == (bob_ahead.id, 1, True)


def test_what_is_not_declared_stable_is_refused():
    def has_moved(state):
        return state.in_flight > 0

    for asked in (has_moved, possibly(has_moved), None):
        with pytest.raises(NotStable, match=r"is not declared stable|says something of one snapshot"):
            detect(overlapping()[0].system, asked)
    with pytest.raises(PredicateFailed, match="is not a property"):
        judge(has_moved, overlapping()[1])


def test_possibly_says_something_of_one_snapshot_alone():
    _, before, bob_ahead, _, after = overlapping()
    moving = possibly(lambda state: state.in_flight > 0, name="moving")
    yes, no = judge(moving, bob_ahead), judge(moving, before)
    assert (yes.holds, no.holds) == (True, False)
    assert yes.says_of(after) is None
    assert yes.meaning == "a run as good as the real one passed 1-coordinator-2, where it holds"
    assert no.meaning == "nothing follows: it may hold in other states"


def test_an_invariant_that_does_not_hold_is_a_bug_wherever_it_was_seen():
    history = History()
    history.snapshot(done(1, 2), {AB: Line(1)})
    history.snapshot(done(1, 2), {AB: Line(2)})
    found = detect(history.system, invariant(lambda state: state.channels[AB].sent != 1, name="two"))
    assert [one.holds for one in found.verdicts] == [False, True]
    assert (found.holds, str(found.decisive.snapshot)) == (False, "1-coordinator-1")
    assert "a bug" in found.decisive.meaning
    first, last = found.verdicts
    assert (first.says_of(last), last.says_of(first)) == (None, None), "it was broken for a while"


def test_another_driver_that_told_as_much_has_spoken_too():
    history = History()
    quiet = history.snapshot(done(0, 0), {DRIVER: Line(1)})
    spoken = history.snapshot(done(0, 0), {("driver:other", "alice"): Line(1)})
    assert quiet.relation(spoken).name == "before"
    assert judge(nothing_moves, quiet).says_of(spoken) is None


def test_snapshots_that_come_in_order_are_each_compared_with_the_last_one_alone(monkeypatch):
    from rayshot.properties import order

    history = History()
    for count in range(20):
        history.snapshot(done(0, 0), {AB: Line(count)})
    compared = []
    real = order.relate_clocks
    monkeypatch.setattr(order, "relate_clocks", lambda *cuts: compared.append(cuts) or real(*cuts))
    order.in_order(history.system)
    assert len(compared) == 19


def test_an_overlapping_snapshot_that_heard_a_driver_ends_what_needs_closed_doors():
    history = History()
    own, told = ("alice", "alice"), ("driver:main", "bob")
    heard = history.snapshot(done(0, 1), {own: Line(0), told: Line(1, [b"\x91\xa1x"])})
    quiet = history.snapshot(done(0, 0), {own: Line(1), told: Line(0)})
    assert heard.relation(quiet).name == "incomparable"
    assert judge(nothing_moves, quiet).holds is True
    assert detect(history.system, nothing_moves).decisive is None


def test_a_predicate_that_raises_is_named_with_the_snapshot_and_its_own_exception():
    broken = stable(lambda state: state.actor("bob")["missing"], name="broken")
    with pytest.raises(PredicateFailed, match="'broken', asked of 1-coordinator-1, raised KeyError") as caught:
        judge(broken, snapshot_of(done(1, 2)))
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.evidence == {"predicate": "broken", "snapshot": "1-coordinator-1"}
    nobody = stable(lambda state: state.actor("nobody") is None, name="nobody")
    with pytest.raises(PredicateFailed, match="has no actor 'nobody'"):
        judge(nobody, snapshot_of(done(1, 2)))


@pytest.mark.parametrize("code", [0, 1, "bye"])
def test_a_predicate_that_leaves_the_program_has_failed(code):
    def leaves(_):
        sys.exit(code)

    snapshot = snapshot_of(done(1, 2), {AB: Line(1, [b"\x91\xa1x"])})
    with pytest.raises(PredicateFailed, match=f"'leaves', asked of 1-coordinator-1, raised SystemExit: {code}"):
        judge(stable(leaves), snapshot)
    for what in (quantity(leaves), quantity("done", leaves)):
        with pytest.raises(PredicateFailed, match=f"SystemExit: {code}"):
            judge(conserved_sum(what, 3), snapshot)
        with pytest.raises(PredicateFailed, match=f"counting in 1-coordinator-1 .*SystemExit: {code}"):
            conservation([snapshot], what)


def test_a_function_that_leaves_the_program_while_accounts_are_kept_has_failed():
    seen = []

    def leaves_late(message):
        seen.append(message)
        return sys.exit(0) if len(seen) > 1 else 0

    history = History()
    history.snapshot(done(1, 2))
    history.snapshot(done(1, 3), {AB: Line(1, [b"\x91\xa1x"])})
    with pytest.raises(PredicateFailed, match="SystemExit: 0"):
        conservation(history.system, quantity("done", leaves_late))


def test_who_interrupts_is_obeyed():
    def interrupted(_):
        raise KeyboardInterrupt

    snapshot = snapshot_of(done(1, 2))
    with pytest.raises(KeyboardInterrupt):
        judge(stable(interrupted), snapshot)
    with pytest.raises(KeyboardInterrupt):
        conservation([snapshot], quantity(interrupted))


def other_is_gone():
    history = History()
    other = history.snapshot(done(1, 2))
    delete(history.repository, other.id)
    return other


@pytest.mark.parametrize("kind", [SnapshotDeleted, Damaged, StoreError, MissingChunk])
def test_an_error_of_the_store_that_the_predicate_itself_raised_is_its_own(kind):
    def raises(_):
        raise kind("mine")

    history = History()
    history.snapshot(done(1, 2))
    with pytest.raises(PredicateFailed, match=f"raised {kind.__name__}: mine"):
        detect(history.system, stable(raises))
    gone = other_is_gone()
    with pytest.raises(PredicateFailed, match="raised SnapshotDeleted"):
        detect(history.system, stable(lambda _: gone.state("bob")["done"] > 1))
    with pytest.raises(PredicateFailed, match=f"raised {kind.__name__}: mine"):
        conservation(history.system, quantity(raises))


@pytest.mark.parametrize(
    "read",
    [
        lambda state: state.actor("bob"),
        lambda state: list(state.messages()),
        lambda state: state.channels[AB].messages,
        lambda state: list(state.channels[AB].frames()),
        lambda state: state.channels[AB].check(),
    ],
)
def test_whatever_a_predicate_reads_damage_is_damage_and_a_deleted_snapshot_is_left_out(read):
    history = History()
    first = history.snapshot(done(1, 2), {AB: Line(1, [b"\x91\xa1x"])})
    asked = stable(lambda state: read(state) is None)
    for entry in list(history.store.list("bank/chunks")):
        history.store.delete(entry.key)
    with pytest.raises(Damaged):
        detect([first], asked)
    delete(history.repository, first.id)
    assert detect([first], asked).deleted == (first.id,)


@pytest.mark.parametrize("given", [1, "yes", [], NotImplemented, Answer(holds="yes"), Answer(holds=True, why=3)])
def test_what_is_no_answer_is_refused(given):
    with pytest.raises(PredicateFailed, match="gave"):
        judge(stable(lambda _: given, name="odd"), snapshot_of(done(1, 2)))


def test_a_truth_of_numpy_is_one():
    assert judge(stable(lambda _: np.bool_(1)), snapshot_of(done(1, 2))).holds is True


def test_damage_is_damage_and_no_fault_of_the_predicate():
    history = History()
    history.snapshot(done(1, 2))
    for entry in list(history.store.list("bank/chunks")):
        history.store.delete(entry.key)
    with pytest.raises(Damaged):
        detect(history.system, bob_has_done_330)


def test_a_snapshot_that_is_deleted_while_the_history_is_read_is_left_out_and_counted():
    history = History()
    first, second, third = [history.snapshot(done(0, n), {AB: Line(n)}) for n in (1, 2, 3)]

    @stable
    def deletes(state):
        if state.id == first.id:
            delete(history.repository, second.id)
        return state.actor("bob")["done"] == 3

    found = detect(history.system, deletes)
    assert [one.snapshot for one in found.verdicts] == [first.id, third.id]
    assert (found.deleted, found.holds) == ((second.id,), True)
    assert detect([first, second, third], bob_has_done_330).deleted == (second.id,)


def test_a_predicate_cannot_change_what_it_was_given():
    snapshot = snapshot_of({"bob": Actor({"done": 400, "list": [1]})})

    def assigns(state):
        state.id = None

    def writes(state):
        state.actor("bob").state["done"] = 0

    def adds(state):
        state.actors["eve"] = None

    for change in (assigns, writes, adds):
        with pytest.raises(PredicateFailed, match=r"AttributeError|TypeError"):
            judge(stable(change), snapshot)

    @stable
    def appends(state):
        state.actor("bob")["list"].append(2)
        return len(state.actor("bob")["list"]) == 1

    assert judge(appends, snapshot).holds is True, "what is read is read anew"
    assert judge(bob_has_done_330, snapshot).holds is True


def test_what_is_not_read_costs_nothing(monkeypatch):
    from rayshot.snapshots import snapshot as module

    read = []
    real = module.read_captured
    monkeypatch.setattr(module, "read_captured", lambda *args: read.append(1) or real(*args))
    judge(nothing_moves, snapshot_of(done(1, 2)))
    assert read == []
    judge(bob_has_done_330, snapshot_of(done(1, 2)))
    assert read == [1]


def test_no_property_can_be_declared_of_nothing():
    with pytest.raises(ConfigError, match="is not a predicate"):
        stable(3)
    assert stable(name="given")(lambda _: True).name == "given"
