"""The judges of a run. They read the ground truth and what a snapshot holds, and raise OracleFailure.

No judge uses a counter of the protocol to find out what should be there: where each process recorded is a position in
its history of steps, and what was in flight follows from where the histories up to these positions lead to.
"""

from collections.abc import Iterable, Mapping

from rayshot.protocol.cut import Cut
from rayshot.protocol.identity import Channel, is_driver
from rayshot.simulation.bodies.application import SimulatedAccount
from rayshot.simulation.world.failure import OracleFailure
from rayshot.simulation.world.packets import StoredCut
from tests.simulate.truth import Truth


def judge_cut(stored: StoredCut, truth: Truth, live: Mapping[str, SimulatedAccount]) -> dict[str, int]:
    """Judge a snapshot that is about to be stored; return the position of each process that it holds.

    Theorem 1 splits the steps into those before the cut and those behind it, each part in the order in which it
    happened, and asks that the run in this new order is one of the application, that its first part leads to the
    recorded states and its second to the live ones. Messages were sent before they were taken as it happened; so they
    are in the new order too unless the cut divides a receipt from its sending, which then lies behind it (m > n).
    Where the steps lead to, the truth finds out on the bare application.
    """
    cut = stored.cut
    positions = _positions(cut, truth)
    accounts = truth.accounts(positions)
    _judge_orphans(cut, accounts)
    _judge_membership(cut, truth, accounts)
    _judge_states(stored, accounts, positions)
    _judge_channels(stored, truth, accounts)
    _judge_drivers(cut, truth, positions)
    _judge_conservation(stored, truth, accounts)
    _judge_live("theorem 1", truth, live)
    return positions


def judge_advance(
    cut: Cut, positions: Mapping[str, int], newest: Cut, newest_positions: Mapping[str, int], truth: Truth
) -> None:
    """Judge a cut that is committed behind `newest`, the newest one in the log that advances.

    It advances as well exactly if no process stands before where `newest` has it, and no driver's channel ends before
    where `newest` ends it: what lies between, drivers and sinks have evicted, and a rollback to it would lose that.
    """
    behind = sorted(process for process, position in newest_positions.items() if positions.get(process, -1) < position)
    ends = {c.channel: c.sent for c in cut.channels}
    for channel, n in ((one.channel, one.sent) for one in newest.channels):
        receiver = channel.receiver
        if is_driver(channel.sender) and receiver not in cut.ended and ends.get(channel, 0) < n:
            account = truth.account(receiver, positions.get(receiver, 0))
            if account is None or account.seen.get(channel.sender, 0) < n:  # else its driver died and all was taken
                behind.append(str(channel))
    if cut.advances == bool(behind):
        raise OracleFailure("advance", f"{cut.snapshot} is said to advance: {cut.advances}; {behind} lie before")


def _positions(cut: Cut, truth: Truth) -> dict[str, int]:
    """Where the snapshot has each process: in its recording, at its end, or - not being there - at its beginning."""
    positions = {process: truth.recorded[cut.snapshot].get(process, -1) for process in cut.records}
    if -1 in positions.values():
        raise OracleFailure("membership", f"{cut.snapshot}: a member never recorded: {positions}")
    return positions | {process: truth.position(process) for process in cut.ended if process in truth.ended}


def _judge_orphans(cut: Cut, accounts: Mapping[str, SimulatedAccount]) -> None:
    """No process took what was sent behind the cut."""
    for receiver, account in accounts.items():
        for sender, m in account.seen.items():
            n = accounts[sender].sent.get(receiver, 0) if sender in accounts else 0
            if m > n and not is_driver(sender):
                raise OracleFailure("orphan", f"{cut.snapshot}: {receiver} took {m} of {sender}, which sent {n}")


def _judge_live(oracle: str, truth: Truth, live: Mapping[str, SimulatedAccount]) -> None:
    """The steps of each process lead to its present state."""
    for process, account in live.items():
        found = truth.account(process, truth.position(process))
        if found != account:
            raise OracleFailure(oracle, f"{process} is {account}, its steps lead to {found}")


def _judge_membership(cut: Cut, truth: Truth, accounts: Mapping[str, SimulatedAccount]) -> None:
    """Who was there at the beginning is in it, unless it ended, or is not born and nothing in the cut is for it."""
    recorded = truth.recorded[cut.snapshot]
    unborn = {name for name, position in recorded.items() if position == 0 and name not in accounts}
    missing = truth.begun_with[cut.snapshot] - cut.records.keys() - set(cut.ended) - unborn
    if missing:
        raise OracleFailure("membership", f"{cut.snapshot} lacks {sorted(missing)}")
    wrong = set(cut.ended) - truth.ended
    if wrong:
        raise OracleFailure("membership", f"{cut.snapshot} says that {sorted(wrong)} ended")


def _judge_states(stored: StoredCut, accounts: Mapping[str, SimulatedAccount], positions: Mapping[str, int]) -> None:
    for process, record in stored.cut.records.items():
        state = stored.states[process]
        if record.born != (process in accounts) or record.born != (state is not None):
            raise OracleFailure("birth", f"{stored.cut.snapshot}: {process} at step {positions[process]}")
        if state is not None and state != accounts[process]:
            raise OracleFailure(
                "theorem 1", f"{stored.cut.snapshot}: {process} is {state}, replayed {accounts[process]}"
            )


def _judge_channels(stored: StoredCut, truth: Truth, accounts: Mapping[str, SimulatedAccount]) -> None:
    """Every channel holds exactly what was sent and not yet taken, in order; none is missing or made up."""
    snapshot, ended = stored.cut.snapshot, set(stored.cut.ended)
    channels = {cut.channel: cut for cut in stored.cut.channels}
    if len(channels) != len(stored.cut.channels):
        raise OracleFailure("channels", f"{snapshot}: a channel twice")
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
    _judge_receivers(stored, truth, accounts, channels.keys())


def _judge_receivers(
    stored: StoredCut, truth: Truth, accounts: Mapping[str, SimulatedAccount], channels: Iterable[Channel]
) -> None:
    """What a process took from a driver lies inside the cut; what it gets has a place to go to."""
    snapshot, known = stored.cut.snapshot, set(channels)
    for process in stored.cut.records.keys() & accounts.keys():
        for sender, m in accounts[process].seen.items():
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


def _judge_conservation(stored: StoredCut, truth: Truth, accounts: Mapping[str, SimulatedAccount]) -> None:
    """Money: what there was at first and what drivers paid in is in states, in flight, or lost with the ended."""
    ended = set(stored.cut.ended)
    there = sum(state.balance for state in stored.states.values() if state is not None)
    there += sum(message.amount for messages in stored.messages.values() for message in messages)
    lost = sum(accounts[process].balance for process in ended if process in accounts)
    for sender, account in accounts.items():
        for receiver, n in account.sent.items():
            if receiver in ended:
                taken = accounts[receiver].seen.get(sender, 0) if receiver in accounts else 0
                lost += sum(message.amount for message in truth.sent[Channel(sender, receiver)][taken:n])
    paid = sum(account.balance for account in truth.initial.values())
    covered = {c.channel: c.sent for c in stored.cut.channels if is_driver(c.channel.sender)}
    for receiver, account in accounts.items():
        for sender, m in account.seen.items():
            if is_driver(sender):
                covered.setdefault(Channel(sender, receiver), m)
    paid += sum(message.amount for channel, n in covered.items() for message in truth.sent[channel][:n])
    if there + lost != paid:
        raise OracleFailure("conservation", f"{stored.cut.snapshot}: {there} there, {lost} lost, {paid} paid in")


def judge_rest(truth: Truth, live: Mapping[str, SimulatedAccount]) -> None:
    """Judge a system at rest: of every channel all was taken, once and in order, by whoever was there to take it.

    Drivers that died may have left a gap: of theirs a beginning was taken.
    """
    _judge_live("exactly once", truth, live)
    for channel, messages in truth.sent.items():
        receiver = live.get(channel.receiver)
        if receiver is None or receiver.ending or channel.sender in truth.dead_drivers:
            continue
        taken = receiver.seen.get(channel.sender, 0)
        if taken != len(messages):
            raise OracleFailure("exactly once", f"{channel}: {taken} of {len(messages)} were taken")
