"""What the records of a snapshot say together: which processes belong to it, and where it cuts each channel.

`records` are the records at hand, by process; `ended` are the names of all processes that have ended. If the snapshot
has no record of an ended process, the last record of that process takes its place.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from rayshot.errors import InconsistentCut
from rayshot.protocol.cut import ChannelCut
from rayshot.protocol.identity import Channel, is_driver, label_of
from rayshot.protocol.record import Record


def close_membership(members: Iterable[str], records: Mapping[str, Record], ended: AbstractSet[str]) -> set[str]:
    """Return the members and all other processes that, as the records prove, are also inside the cut.

    These are: ended processes whose last records are at hand; processes that are born or were sent something; the
    receivers of transported messages; and the senders of messages that were received or had arrived. A process is left
    out if it is not born and nothing inside the cut is addressed to it: its creation is behind the cut.
    """
    closed: set[str] = set()
    waiting = {name for name, record in records.items() if record.born or _holds_messages(record)} | set(members)
    while waiting:
        name = waiting.pop()
        closed.add(name)
        if record := records.get(name):
            waiting |= (_reached(record, ended) | _heard(record, ended)) - closed
    unborn = {name for name in closed if name in records and not records[name].born}
    return closed - {name for name in unborn if not _is_addressed(name, closed, records)}


def _holds_messages(record: Record) -> bool:
    """Whether the record itself proves that its process was sent something before the cut."""
    return any(n > 0 for n in (*record.environment.values(), *record.closed.values()))


def _reached(record: Record, ended: AbstractSet[str]) -> set[str]:
    return {receiver for receiver, n in record.transported.items() if n > 0} - ended


def _heard(record: Record, ended: AbstractSet[str]) -> set[str]:
    """The processes whose records must show that they sent what this process received or has in its mailbox."""
    got = (*record.received.items(), *record.arrived.items())
    heard = {sender for sender, m in got if m > 0} | record.closed.keys()
    over = ended if record.ended else ended & record.closed.keys()
    return {sender for sender in heard - over if not is_driver(sender)}


def _is_addressed(name: str, members: AbstractSet[str], records: Mapping[str, Record]) -> bool:
    if _holds_messages(records[name]):
        return True
    return any(records[other].sent.get(name, 0) > 0 for other in members if other in records)


def cut_channels(records: Mapping[str, Record], ended: AbstractSet[str]) -> list[ChannelCut]:
    """Return where the records cut all channels. Raises InconsistentCut if they contradict each other.

    Two kinds of channels are left out: channels to ended processes, whose remaining messages are dead letters, and
    channels from ended processes with no message left in flight.
    """
    cuts = []
    for sender, record in records.items():
        for receiver, n in record.sent.items():
            theirs = records.get(receiver)
            dead = receiver in ended and (theirs is None or theirs.ended)
            if n == 0 or dead:
                continue
            received = theirs.received.get(sender, 0) if theirs else 0
            if not record.ended or received < n:
                cuts.append(_cut(Channel(sender, receiver), n, record.released.get(receiver, 0), theirs))
    for record in records.values():
        if not record.ended:
            cuts += _cuts_fixed_by_receiver(record, records)
            cuts += _orphans(record, records)
    return cuts


def _cuts_fixed_by_receiver(record: Record, records: Mapping[str, Record]) -> list[ChannelCut]:
    """Channels from drivers, and from senders that are gone and have no record that shows the same.

    A program with a name that is gone may come back, so its numbers are always in the cut.
    """
    received = record.received
    living = [(sender, n) for sender, n in record.environment.items() if n > 0]
    gone = [
        (sender, n)
        for sender, n in record.closed.items()
        if sender not in records and n > (0 if label_of(sender) else received.get(sender, 0))
    ]
    return [_cut(Channel(sender, record.process), n, n, record) for sender, n in living + gone]


def _cut(channel: Channel, sent: int, released: int, receiver: Record | None) -> ChannelCut:
    """Cut one channel. Raises InconsistentCut if some of its messages are with neither end."""
    received = receiver.received.get(channel.sender, 0) if receiver else 0
    arrived = receiver.arrived.get(channel.sender, received) if receiver else 0
    if released > arrived:
        raise InconsistentCut(
            f"channel {channel}: messages {arrived + 1} .. {released} are at neither of its ends",
            channel=tuple(channel),
            released=released,
            arrived=arrived,
        )
    return ChannelCut(channel, sent, arrived, received, receiver.owed.get(channel.sender, ()) if receiver else ())


def _orphans(record: Record, records: Mapping[str, Record]) -> list[ChannelCut]:
    """Channels whose messages have arrived although the sender's record shows none sent."""
    got = {**record.received, **record.arrived}
    return [
        ChannelCut(Channel(sender, record.process), 0, n, record.received.get(sender, 0))
        for sender, n in got.items()
        if n > 0 and sender in records and records[sender].sent.get(record.process, 0) == 0
    ]


def check_ends(records: Mapping[str, Record]) -> None:
    """Raise InconsistentCut if an ended process received a message that was not sent."""
    for receiver, record in records.items():
        for sender, m in record.received.items() if record.ended else ():
            n = records[sender].sent.get(receiver, m) if sender in records else m
            ChannelCut(Channel(sender, receiver), n, n, m)  # raises where m is more than n


def check_alignment(cuts: Iterable[ChannelCut], records: Mapping[str, Record]) -> None:
    """Raise InconsistentCut if a message is in flight on a channel that its receiver says was aligned."""
    for cut in cuts:
        sender, receiver = cut.channel
        if receiver in records and sender in records[receiver].aligned and cut.received != cut.sent:
            raise InconsistentCut(
                f"channel {cut.channel} was aligned, but {cut.received} of {cut.sent} messages were received",
                channel=tuple(cut.channel),
            )
