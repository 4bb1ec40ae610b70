"""What actors sent and processed of a quantity between two snapshots, as far as the snapshots show it.

For a channel the counters say which messages were sent and which were processed between the cuts. The content is known
for messages that are in flight in either snapshot. A message that was both sent and processed is in neither: nobody
knows what it carried, but what left one end came to the other. So the two ends of such messages are one account.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from rayshot.properties.global_state import GlobalState, Message
from rayshot.properties.quantity import Exact, Quantity, Sum, plain, size
from rayshot.protocol.identity import Channel, is_driver
from rayshot.snapshots.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Account:
    """An actor between two snapshots, or several actors that unseen messages join, or may have joined.

    `before` and `after` are what they held. `sent` and `processed` are what the messages carried that they sent and
    that they processed, as far as these messages were seen. `unseen` counts messages between them that are in neither
    snapshot. `appeared` = after - before + sent - processed: what came from nothing; below 0, what was lost.
    `told_unseen` counts unseen messages that drivers told them.
    """

    actors: tuple[str, ...]
    before: int | float
    after: int | float
    sent: int | float
    processed: int | float
    appeared: int | float
    unseen: int
    told_unseen: int

    @property
    def balanced(self) -> bool:
        """Whether nothing appeared or vanished."""
        return self.appeared == 0


class Books:
    """The accounts of two snapshots; the first is before the second.

    `told` is, by driver, how many messages it told in between; `brought_in` is what the seen ones of them carried.
    `drivers_gone` died in between: they had told actors that still live, whose channels no longer name them.
    """

    def __init__(self, what: Quantity, old: Snapshot, new: Snapshot, before: Sum, after: Sum) -> None:
        self._what = what
        self._before, self._after = before.held, after.held
        self._sent: defaultdict[str, Exact] = defaultdict(int)
        self._processed: defaultdict[str, Exact] = defaultdict(int)
        self._unseen: dict[Channel, int] = {}
        self.told: dict[str, int] = {}
        told = {ends for ends in old.channels if is_driver(ends.sender) and ends.receiver in new.actors}
        self.drivers_gone = tuple(sorted({ends.sender for ends in told - new.channels.keys()}))
        self._gone = set(new.manifest.ended) - set(old.manifest.ended)
        names = dict.fromkeys([*old.actors, *new.actors, *sorted(self._gone)])
        self._count(old, new)
        ends = {name for channel in {*before.moving, *after.moving} for name in channel}
        self._drivers_bring = any(is_driver(name) for name in ends)
        if self._drivers_bring:
            names |= dict.fromkeys((*self.told, *self.drivers_gone))
        self._leaders = {name: name for name in names}
        self._join()

    @property
    def brought_in(self) -> Exact:
        """What drivers told in between, as far as it was seen."""
        return sum(carried for name, carried in self._sent.items() if is_driver(name))

    def accounts(self, tolerance: Exact) -> tuple[Account, ...]:
        """The unbalanced accounts first, the largest of them first. An amount within `tolerance` counts as 0."""
        members: defaultdict[str, list[str]] = defaultdict(list)
        for name in self._leaders:
            members[self._leader(name)].append(name)
        found = [self._account(tuple(sorted(names)), tolerance) for names in members.values()]
        return tuple(sorted(found, key=lambda one: (-abs(one.appeared), one.actors)))

    def _account(self, names: tuple[str, ...], tolerance: Exact) -> Account:
        before, after, sent, processed = (
            sum(book.get(name, 0) for name in names)
            for book in (self._before, self._after, self._sent, self._processed)
        )
        appeared = after - before + sent - processed
        unseen = {channel: count for channel, count in self._unseen.items() if channel.receiver in names}
        told = sum(count for channel, count in unseen.items() if is_driver(channel.sender))
        return Account(
            names,
            plain(before),
            plain(after),
            plain(sent),
            plain(processed),
            plain(appeared) if size(appeared) > tolerance else 0,
            sum(unseen.values()) - told,
            told,
        )

    def _count(self, old: Snapshot, new: Snapshot) -> None:
        counters = {one.id: _counters(one) for one in (old, new)}
        then, now = counters[old.id], counters[new.id]
        for channel in {**then, **now}:
            sent, _ = then.get(channel, (0, 0))
            sent_now, received_now = now.get(channel, (sent, sent))  # a channel that is left out holds nothing
            if is_driver(channel.sender) and sent_now > sent:
                self.told[channel.sender] = self.told.get(channel.sender, 0) + sent_now - sent
            if received_now > sent:
                self._unseen[channel] = received_now - sent
            elif channel not in now and channel in then:
                self._unseen[channel] = 0  # more may have been sent and processed before its end
        for message in self._in_flight(old):
            if _ends(message) not in now or message.number <= now[_ends(message)][1]:
                self._processed[message.receiver] += self._what.carried(message)
        for message in self._in_flight(new):
            if message.number > then.get(_ends(message), (0, 0))[0]:
                self._sent[message.sender] += self._what.carried(message)

    def _in_flight(self, snapshot: Snapshot) -> Iterator[Message]:
        return GlobalState(snapshot).messages() if self._what.of_message is not None else iter(())

    def _join(self) -> None:
        if self._what.of_message is None:
            return  # messages carry nothing from one to the other
        for sender, receiver in (*self._unseen, *(pairwise(self._leaders) if self._gone else ())):
            if {sender, receiver} <= self._leaders.keys():
                self._leaders[self._leader(sender)] = self._leader(receiver)

    def _leader(self, name: str) -> str:
        while self._leaders[name] != name:
            self._leaders[name] = name = self._leaders[self._leaders[name]]
        return name


def _counters(snapshot: Snapshot) -> Mapping[Channel, tuple[int, int]]:
    return {channel: (state.sent, state.received) for channel, state in snapshot.channels.items()}


def _ends(message: Message) -> Channel:
    return Channel(message.sender, message.receiver)
