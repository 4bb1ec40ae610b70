"""The judges of a run. They read the ground truth and what a snapshot holds, and raise OracleFailure.

No judge uses a counter of the protocol to find out what should be there: where each process recorded is a position in
its history of steps, and what was in flight follows from replaying the histories up to these positions.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from rayshot.protocol.cut import Cut
from rayshot.protocol.identity import Channel, is_driver
from rayshot.simulation.application import Account, Message, Received
from rayshot.simulation.failure import OracleFailure
from rayshot.simulation.truth import Happened, Truth


@dataclass(frozen=True, slots=True)
class Stored:
    """What a snapshot holds: the cut, each member's state (None before birth), each channel's messages in flight."""

    cut: Cut
    states: Mapping[str, Account | None]
    messages: Mapping[Channel, tuple[Message, ...]]


def judge_cut(stored: Stored, truth: Truth, live: Mapping[str, Account]) -> dict[str, int]:
    """Judge a snapshot that is about to be stored; return the position of each process that it holds."""
    cut = stored.cut
    positions = _positions(cut, truth)
    before = list(_steps(truth, positions, behind=False))
    replayed = _Replay(truth)
    replayed.run(before)
    _judge_membership(cut, truth, replayed)
    _judge_states(stored, replayed, positions)
    _judge_channels(stored, truth, replayed)
    _judge_drivers(cut, truth, positions)
    _judge_conservation(stored, truth, replayed)
    replayed.run(_steps(truth, positions, behind=True))
    for process, account in live.items():
        if replayed.accounts.get(process, account) != account:
            raise OracleFailure("theorem 1", f"{cut.snapshot}: {process} would not come to its present state")
    return positions


def _positions(cut: Cut, truth: Truth) -> dict[str, int]:
    """Where the snapshot has each process: in its recording, at its end, or - not being there - at its beginning."""
    positions = {process: truth.recorded[cut.snapshot].get(process, -1) for process in cut.records}
    if -1 in positions.values():
        raise OracleFailure("membership", f"{cut.snapshot}: a member never recorded: {positions}")
    return positions | {process: truth.position(process) for process in cut.ended if process in truth.ended}


def _steps(truth: Truth, positions: Mapping[str, int], *, behind: bool) -> Iterable[Happened]:
    """The steps before the cut, or those behind it, in the order in which they happened: the stable split."""
    parts = (
        history[positions.get(process, 0) :] if behind else history[: positions.get(process, 0)]
        for process, history in truth.histories.items()
    )
    return sorted(chain.from_iterable(parts))


class _Replay:
    """The bare application, run from recorded steps: messages are taken in order, and only after they were sent."""

    def __init__(self, truth: Truth) -> None:
        self.accounts: dict[str, Account] = {process: truth.account(process) for process in truth.initial}
        self._truth = truth
        self._flight: dict[Channel, list[Message]] = defaultdict(list)

    def run(self, steps: Iterable[Happened]) -> None:
        for _, process, step in steps:
            account = self.accounts.get(process)
            if account is None:
                account = self.accounts[process] = self._truth.account(process)
            if isinstance(step, Received) and not is_driver(step.sender):
                flight = self._flight[Channel(step.sender, process)]
                if step.message.sequence > len(flight) or flight[step.message.sequence - 1] != step.message:
                    raise OracleFailure("orphan", f"{process} took {step.message} of {step.sender} before it was sent")
            if emitted := account.apply(step):
                self._flight[Channel(process, emitted[0])].append(emitted[1])


def _judge_membership(cut: Cut, truth: Truth, replayed: _Replay) -> None:
    """Who was there at the beginning is in it, unless it ended, or is not born and nothing in the cut is for it."""
    recorded = truth.recorded[cut.snapshot]
    unborn = {name for name, position in recorded.items() if position == 0 and name not in replayed.accounts}
    missing = truth.begun_with[cut.snapshot] - cut.records.keys() - set(cut.ended) - unborn
    if missing:
        raise OracleFailure("membership", f"{cut.snapshot} lacks {sorted(missing)}")
    wrong = set(cut.ended) - truth.ended
    if wrong:
        raise OracleFailure("membership", f"{cut.snapshot} says that {sorted(wrong)} ended")


def _judge_states(stored: Stored, replayed: _Replay, positions: Mapping[str, int]) -> None:
    for process, record in stored.cut.records.items():
        state = stored.states[process]
        if record.born != (process in replayed.accounts) or record.born != (state is not None):
            raise OracleFailure("birth", f"{stored.cut.snapshot}: {process} at step {positions[process]}")
        if state is not None and state != replayed.accounts[process]:
            raise OracleFailure(
                "theorem 1", f"{stored.cut.snapshot}: {process} is {state}, replayed {replayed.accounts[process]}"
            )


def _judge_channels(stored: Stored, truth: Truth, replayed: _Replay) -> None:
    """Every channel holds exactly what was sent and not yet taken, in order; none is missing or made up."""
    snapshot, ended = stored.cut.snapshot, set(stored.cut.ended)
    channels = {cut.channel: cut for cut in stored.cut.channels}
    if len(channels) != len(stored.cut.channels):
        raise OracleFailure("channels", f"{snapshot}: a channel twice")
    accounts = replayed.accounts
    expected = {
        Channel(sender, receiver): n for sender, account in accounts.items() for receiver, n in account.sent.items()
    }
    for channel, cut in channels.items():
        if is_driver(channel.sender):
            expected[channel] = cut.sent
        elif channel not in expected:
            raise OracleFailure("channels", f"{snapshot}: {channel} never carried a message")
    for channel, n in expected.items():
        receiver = accounts.get(channel.receiver)
        m = receiver.seen.get(channel.sender, 0) if receiver else 0
        if m > n or n > len(truth.sent[channel]):
            raise OracleFailure("orphan", f"{snapshot}: {channel} took {m} of {n}")
        if channel.receiver in ended or (channel.sender in ended and m == n and channel not in channels):
            continue
        found = channels.get(channel)
        if found is None or (found.sent, found.received) != (n, m) or not m <= found.arrived <= n:
            raise OracleFailure("cut equation", f"{snapshot}: {channel} is {found}, took {m} of {n}")
        if stored.messages.get(channel, ()) != tuple(truth.sent[channel][m:n]):
            raise OracleFailure(
                "channel state",
                f"{snapshot}: {channel} holds {stored.messages.get(channel)}, not {truth.sent[channel][m:n]}",
            )
    _judge_receivers(stored, truth, replayed, channels.keys())


def _judge_receivers(stored: Stored, truth: Truth, replayed: _Replay, channels: Iterable[Channel]) -> None:
    """What a process took from a driver lies inside the cut; what it gets has a place to go to."""
    snapshot, known = stored.cut.snapshot, set(channels)
    for process in stored.cut.records.keys() & replayed.accounts.keys():
        for sender, m in replayed.accounts[process].seen.items():
            if is_driver(sender) and m and sender not in truth.dead_drivers and Channel(sender, process) not in known:
                raise OracleFailure("channels", f"{snapshot}: {sender} -> {process} is missing, {m} were taken")
    for channel in known:
        if channel.receiver not in stored.cut.records and channel.receiver not in stored.cut.unborn:
            raise OracleFailure("channels", f"{snapshot}: nobody is there to take {channel}")


def _judge_drivers(cut: Cut, truth: Truth, positions: Mapping[str, int]) -> None:
    """A driver's message inside the cut was sent before the driver saw anything from behind it."""
    for driver, answers in truth.answers.items():
        covered = {c.channel.receiver: c.sent for c in cut.channels if c.channel.sender == driver}
        for sent_before, answer in answers:
            if answer.position <= positions.get(answer.process, 0):
                continue
            for receiver, n in covered.items():
                if n > sent_before.get(receiver, 0):
                    raise OracleFailure(
                        "driver causality",
                        f"{cut.snapshot}: {driver} -> {receiver} {n} was sent after an answer of {answer.process}",
                    )


def _judge_conservation(stored: Stored, truth: Truth, replayed: _Replay) -> None:
    """Money: what there was at first and what drivers paid in is in states, in flight, or lost with the ended."""
    ended = set(stored.cut.ended)
    there = sum(state.balance for state in stored.states.values() if state is not None)
    there += sum(message.amount for messages in stored.messages.values() for message in messages)
    lost = sum(replayed.accounts[process].balance for process in ended if process in replayed.accounts)
    for sender, account in replayed.accounts.items():
        for receiver, n in account.sent.items():
            if receiver in ended:
                taken = replayed.accounts[receiver].seen.get(sender, 0) if receiver in replayed.accounts else 0
                lost += sum(message.amount for message in truth.sent[Channel(sender, receiver)][taken:n])
    paid = sum(account.balance for account in truth.initial.values())
    covered = {c.channel: c.sent for c in stored.cut.channels if is_driver(c.channel.sender)}
    for receiver, account in replayed.accounts.items():
        for sender, m in account.seen.items():
            if is_driver(sender):
                covered.setdefault(Channel(sender, receiver), m)
    paid += sum(message.amount for channel, n in covered.items() for message in truth.sent[channel][:n])
    if there + lost != paid:
        raise OracleFailure("conservation", f"{stored.cut.snapshot}: {there} there, {lost} lost, {paid} paid in")


def judge_rest(truth: Truth, live: Mapping[str, Account]) -> None:
    """Judge a system at rest: of every channel all was taken, once and in order, by whoever was there to take it.

    Drivers that died may have left a gap: of theirs a beginning was taken.
    """
    replayed = _Replay(truth)
    replayed.run(_steps(truth, {}, behind=True))
    for process, account in live.items():
        if replayed.accounts[process] != account:
            raise OracleFailure(
                "exactly once", f"{process} is {account}, its steps lead to {replayed.accounts[process]}"
            )
    for channel, messages in truth.sent.items():
        receiver = live.get(channel.receiver)
        if receiver is None or receiver.ending or channel.sender in truth.dead_drivers:
            continue
        taken = receiver.seen.get(channel.sender, 0)
        if taken != len(messages):
            raise OracleFailure("exactly once", f"{channel}: {taken} of {len(messages)} were taken")
