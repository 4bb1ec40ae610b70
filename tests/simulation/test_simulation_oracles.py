"""The judges are judged: each sees the one thing that is wrong in an otherwise sound snapshot."""

from dataclasses import replace

import pytest

from rayshot.protocol.cut import ChannelCut, Cut
from rayshot.protocol.identity import Channel, SnapshotId
from rayshot.protocol.record import Record
from rayshot.simulation.bodies.application import AccountMessage, HandlerEnded, HandlerSent, Received, SimulatedAccount
from rayshot.simulation.world.failure import OracleFailure
from rayshot.simulation.world.packets import StoredCut
from tests.simulate.oracles import judge_advance, judge_cut, judge_rest
from tests.simulate.truth import Answer, Truth

K = SnapshotId(1, "coordinator", 1)
P_TO_Q = Channel("p", "q")
DRIVER = Channel("driver:0", "q")


class Run:
    """p sends 1, 2, 3 to q, which takes the first; a driver sends 5 to q, which takes it; then all record."""

    def __init__(self):
        self.truth = Truth({"p": SimulatedAccount("p", 10, ("q",)), "q": SimulatedAccount("q", 10, ())})
        self.live = {name: self.truth.account(name, 0).copy() for name in ("p", "q")}
        for amount in (1, 2, 3):
            self.step("p", HandlerSent("q", amount))
        self.truth.sent[DRIVER] = [AccountMessage("call", 5, 1)]
        self.step("q", Received("p", self.truth.sent[P_TO_Q][0]))
        self.step("q", Received("driver:0", self.truth.sent[DRIVER][0]))
        self.truth.begun_with[K] = frozenset({"p", "q"})
        for name in ("p", "q"):
            self.truth.captured(name, K)
        records = {name: Record(K, name) for name in ("p", "q")}
        channels = (ChannelCut(P_TO_Q, 3, 3, 1), ChannelCut(DRIVER, 1, 1, 1))
        states = {name: account.copy() for name, account in self.live.items()}
        self.stored = StoredCut(Cut(K, records, channels, ()), states, {P_TO_Q: tuple(self.truth.sent[P_TO_Q][1:])})

    def step(self, name, step):
        self.truth.happened(name, 1, step, self.live[name].apply(step))

    def judge(self, **changes):
        return judge_cut(replace(self.stored, **changes), self.truth, self.live)

    def judge_cut(self, **changes):
        return self.judge(cut=replace(self.stored.cut, **changes))


@pytest.fixture
def run():
    return Run()


def fails(oracle):
    return pytest.raises(OracleFailure, match=f"^{oracle}")


def test_a_sound_snapshot_passes_and_says_where_each_process_is(run):
    assert run.judge() == {"p": 3, "q": 2}


def test_messages_in_the_wrong_order_are_seen(run):
    with fails("channel state"):
        run.judge(messages={P_TO_Q: run.stored.messages[P_TO_Q][::-1]})


def test_a_missing_message_is_seen(run):
    with fails("channel state"):
        run.judge(messages={P_TO_Q: run.stored.messages[P_TO_Q][:1]})


def test_a_channel_that_is_missing_is_seen(run):
    with fails("cut equation"):
        run.judge_cut(channels=run.stored.cut.channels[1:])
    with fails("channels"):
        run.judge_cut(channels=run.stored.cut.channels[:1])


def test_a_channel_that_is_made_up_or_there_twice_is_seen(run):
    with fails("channels"):
        run.judge_cut(channels=(*run.stored.cut.channels, ChannelCut(Channel("q", "p"), 1, 1, 0)))
    with fails("channels"):
        run.judge_cut(channels=(*run.stored.cut.channels, run.stored.cut.channels[0]))


@pytest.mark.parametrize("numbers", [(2, 2, 1), (3, 3, 2), (3, 2, 0)])
def test_wrong_counters_are_seen(run, numbers):
    with fails("cut equation"):
        run.judge_cut(channels=(ChannelCut(P_TO_Q, *numbers), run.stored.cut.channels[1]))


def test_a_state_of_another_moment_is_seen(run):
    run.stored.states["q"].digest += 1
    with fails("theorem 1"):
        run.judge()


def test_money_that_is_too_much_is_seen(run):
    run.truth.initial["p"].balance += 1
    run.stored.states["p"].balance += 1
    run.live["p"].balance += 1
    run.truth.histories["p"].clear()
    with pytest.raises(OracleFailure):
        run.judge()


def test_a_member_that_is_missing_is_seen(run):
    with fails("membership|orphan"):
        run.judge_cut(records={"q": run.stored.cut.records["q"]})


def test_one_who_is_said_to_have_ended_and_has_not_is_seen(run):
    with fails("membership"):
        run.judge_cut(ended=("z",))


def test_an_orphan_is_seen(run):
    run.truth.recorded[K]["p"] = 0
    with fails("orphan"):
        run.judge()


def test_a_drivers_message_that_was_sent_after_it_saw_what_lies_behind_the_cut_is_seen(run):
    run.truth.answers["driver:0"].append(({"q": 0}, Answer("p", 4)))
    with fails("driver causality"):
        run.judge()


def test_a_live_state_that_does_not_follow_from_the_cut_is_seen(run):
    run.live["p"].balance -= 1
    with fails("theorem 1"):
        run.judge()


def test_messages_to_those_who_ended_are_lost_and_nothing_else(run):
    run.step("q", HandlerEnded(""))
    run.truth.process_ended("q", 1)
    stored = StoredCut(
        replace(run.stored.cut, records={"p": run.stored.cut.records["p"]}, channels=(), ended=("q",)),
        {"p": run.live["p"].copy()},
        {},
    )
    assert judge_cut(stored, run.truth, run.live) == {"p": 3, "q": 3}


def test_a_cut_that_lies_before_the_newest_one_and_is_said_to_advance_is_seen(run):
    newest, positions = run.stored.cut, run.judge()
    earlier = {"p": 3, "q": 1}
    shorter = replace(newest, channels=(newest.channels[0],))
    for cut, where in ((newest, earlier), (newest, {"p": 3}), (shorter, earlier)):
        judge_advance(replace(cut, advances=False), where, newest, positions, run.truth)
        with fails("advance"):
            judge_advance(cut, where, newest, positions, run.truth)


def test_a_cut_that_lies_behind_the_newest_one_and_is_said_not_to_advance_is_seen(run):
    newest, positions = run.stored.cut, run.judge()
    judge_advance(newest, positions, newest, positions, run.truth)
    with fails("advance"):
        judge_advance(replace(newest, advances=False), positions, newest, positions, run.truth)


def test_what_a_dead_driver_sent_and_was_taken_needs_no_channel_to_advance(run):
    newest, positions = run.stored.cut, run.judge()
    judge_advance(replace(newest, channels=(newest.channels[0],)), positions, newest, positions, run.truth)


def test_at_rest_everything_was_taken_once(run):
    with fails("exactly once"):
        judge_rest(run.truth, run.live)
    for message in run.truth.sent[P_TO_Q][1:]:
        run.step("q", Received("p", message))
    judge_rest(run.truth, run.live)
    with fails("order"):
        run.live["q"].apply(Received("p", run.truth.sent[P_TO_Q][2]))


def test_a_rollback_forgets_what_lies_behind_the_snapshot(run):
    positions = run.judge()
    run.step("p", HandlerSent("q", 9))
    run.truth.rolled_back(2, positions, set())
    assert len(run.truth.sent[P_TO_Q]) == 3
    assert run.truth.sent[DRIVER], "what drivers sent stays"
    run.truth.happened("p", 1, HandlerSent("q", 9), None)
    assert run.truth.position("p") == 3, "processes of the old incarnation do not count any more"
