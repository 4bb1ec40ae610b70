"""The machine of a driver: a process outside the system that sends into it (the environment of the 1985 paper).

A driver never records. The receiver fixes the cut of a driver's channel: the highest number that arrived without a
gap. A driver has three duties. (a) It passes on the news of snapshots: an answer may show effects from behind a cut, so
everything that the driver sends afterwards carries the answer's tags. (b) It keeps messages that no durable snapshot
covers, because a rollback throws them away: then it sends everything behind the restored cut again, under the same
numbers. (c) It sends each message again only when all that it had seen answered before this message is answered again.
Otherwise messages of different channels could change their order, and a payment could overtake the opening of its
account.

For (c) the machine has a list of all answers that the driver saw, in the order in which they came. Each kept message
has a place in this list: it waits for the answers before its place. Prompt answers of its own receiver at the end of
the list do not count, because a receiver handles the messages of a channel in their order anyway. A late answer counts:
its receiver may owe it still when it handles what came after the call.

In a new life a pointer goes through the list. It passes an answer if the restored cut holds it, if it comes again, or
if it cannot come, because its receiver ended. The driver sends a message when the pointer has reached its place. The
order in which the driver had sent everything meets all these conditions, so nothing waits for ever; only a late answer
may not come again, if what it waits for comes to somebody else in the new life. The receiver then says that it has
waited long enough. In a healthy system the pointer is always at the end of the list, and nothing waits.

A driver may be able to keep no more, while no snapshot succeeds. Then it offers to evict messages that have arrived
and answers that were given in this life. If the system agrees, it goes back to no cut without them.

A program may see an answer of a later life before its driver hears that this life began. The machine holds such an
answer back until SystemRolledBack. Until then nothing gets a number: otherwise a message that the program sent after
that answer would get a place before it, and could overtake it.

A life may answer a call otherwise than the one before. The driver says so if it sent anything behind the answer that
its program got, see `seen_answers`.

A message may mention an actor that the driver made. It leaves, with all behind it on its channel, when the creation of
that actor has arrived in this life. Otherwise its receiver could send the actor a message, and a cut could hold this
message without the actor.

The code that runs this machine drops acknowledgements and ends of receivers that are news of an earlier life.
"""

from collections import deque
from collections.abc import Collection, Iterable, KeysView, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple, assert_never

from rayshot.protocol.answer_order import AnswerOrder
from rayshot.protocol.driver_events import (
    ActorMade,
    ActorsMentioned,
    AnswerArrived,
    CallMade,
    CutCommitted,
    DriverEffect,
    DriverEvent,
    EvictionOffer,
    FetchAgain,
    MessagesHanded,
    OfferTaken,
    OutcomeCame,
    OutcomeLost,
    ReleaseMessages,
    SendTagged,
    SystemRolledBack,
)
from rayshot.protocol.events import BatchAcknowledged, BatchTaken, ReceiverEnded, SnapshotEnded
from rayshot.protocol.identity import Owed, SnapshotId
from rayshot.protocol.retained_calls import RetainedCalls
from rayshot.protocol.tombstones import Tombstones

ENDED_KEPT_MAX = 1000
"""A driver remembers the ends of this many snapshots. It is seldom told of floors. If it forgets an end, it is like a
driver that was never told: it passes the tag on. The receiver decides for itself, and tells the driver of the end."""


class _Retained(NamedTuple):
    """Messages of a channel up to number `last`. They wait for the first `behind` answers in the list.

    The first of them mentions these `actors`, of those that the driver made; those behind it wait with it.
    """

    last: int
    behind: int
    actors: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Channel:
    """`released <= acknowledged <= transported`: messages above `released` are kept for a rollback.

    Messages up to `sent` were handed to the transport in this life; those above are in `unsent`, and wait for answers
    or for actors that start. `mentions` has those of the messages above `transported` that mention actors.
    """

    transported: int = 0
    acknowledged: int = 0
    released: int = 0
    sent: int = 0
    retained: deque[_Retained] = field(default_factory=deque)
    unsent: deque[_Retained] = field(default_factory=deque)
    mentions: deque[tuple[int, frozenset[str]]] = field(default_factory=deque)

    def number(self, count: int, behind: int) -> list[_Retained]:
        """Number the next `count` messages. A message that mentions actors begins a new piece."""
        last, actors, pieces = self.transported + count, frozenset[str](), []
        while self.mentions and self.mentions[0][0] <= last:
            number, mentioned = self.mentions.popleft()
            if number - 1 > self.transported:
                pieces.append(_Retained(number - 1, behind, actors))
            self.transported, actors = number - 1, mentioned
        self.transported = last
        return [*pieces, _Retained(last, behind, actors)]

    def keep(self, pieces: Iterable[_Retained]) -> None:
        """Keep these messages for a rollback."""
        for piece in pieces:
            if self.retained and self.retained[-1].behind == piece.behind and not piece.actors:
                self.retained[-1] = self.retained[-1]._replace(last=piece.last)
            else:
                self.retained.append(piece)

    def release(self, last: int) -> None:
        """Release the messages up to `last`, which have arrived, whether or not this driver has heard so."""
        self.released, self.acknowledged = last, max(self.acknowledged, last)
        while self.retained and self.retained[0].last <= last:
            self.retained.popleft()

    def roll_back(self, n: int) -> None:
        """The receiver has the messages up to n; all later ones are to be sent again."""
        self.acknowledged = self.sent = n
        self.unsent = deque(retained for retained in self.retained if retained.last > n)


@dataclass(slots=True)
class Driver:
    """The machine of one driver. `handle` is its only mutator.

    Where a system never goes back to a snapshot, a driver ends with the life, and `retains` nothing.
    """

    name: str
    incarnation: int = 1
    retains: bool = True
    _channels: dict[str, _Channel] = field(default_factory=dict)
    _tags: dict[SnapshotId, None] = field(default_factory=dict)
    _tombstones: Tombstones = field(default_factory=lambda: Tombstones(ENDED_KEPT_MAX))
    _order: AnswerOrder = field(default_factory=AnswerOrder)
    """The answers that the driver saw and no durable cut holds, and how many this life has given again."""
    _waiting: list[tuple[int, str]] = field(default_factory=list)
    """A heap of the channels with unsent messages: the place that the pointer must reach, and the receiver."""
    _early: list[AnswerArrived] = field(default_factory=list)
    """Answers of later lives."""
    _made: dict[str, int] = field(default_factory=dict)
    """The actors that this driver made and whose creations it keeps, in the order in which it made them. For each, how
    many answers stood in the list then: what follows from the actor may be told before its creation is numbered."""
    _starting: dict[str, int] = field(default_factory=dict)
    """Those whose creation has not arrived in this life, with numbers that grow in the order of making."""
    _mentioning: dict[str, list[str]] = field(default_factory=dict)
    """Starting actor -> the receivers whose first unsent message waits for it."""
    _makings: int = 0
    _calls: RetainedCalls = field(default_factory=RetainedCalls)

    def unacknowledged(self, receiver: str) -> int:
        """How many transported messages `receiver` has not acknowledged."""
        channel = self._channels.get(receiver)
        return channel.transported - channel.acknowledged if channel else 0

    def kept_up_to(self, receiver: str, last: int) -> int:
        """The number of the last message to `receiver`, not above `last`, that this driver still keeps; 0 if none."""
        channel = self._channels.get(receiver)
        retained = 0 if channel is None else min(last, channel.transported)
        return retained if channel is not None and retained > channel.released else 0

    @property
    def may_number(self) -> bool:
        """Whether BatchTaken may come. It may not while an answer of a later life is held back."""
        return not self._early

    @property
    def starting(self) -> KeysView[str]:
        """The actors that this driver made and whose creations have not arrived in this life."""
        return self._starting.keys()

    def missing(self, sent: Mapping[str, int], ended: Collection[str]) -> list[str]:
        """The actors that a cut does not hold, in the order in which this driver made them.

        The cut has the driver's messages up to the numbers `sent`, and the `ended` processes have ended in it.
        """
        return [name for name in self._made if sent.get(name, 0) == 0 and name not in ended]

    @property
    def due(self) -> Collection[str]:
        """The receivers that must be asked for outcomes again, see MessagesHanded."""
        return self._calls.due

    @property
    def tags(self) -> tuple[SnapshotId, ...]:
        """The open snapshots whose effects this driver may have seen: messages that it sends now must carry them."""
        return tuple(self._tags)

    def offer(self) -> EvictionOffer:
        """What this driver could evict now. Of a receiver that has ended in this life that is all that was sent."""
        lasts = {
            receiver: channel.sent if receiver in self._order.gone else channel.acknowledged
            for receiver, channel in self._channels.items()
        }
        given, received = {*self._order.given}, dict[str, int]()
        for receiver, number in given:
            received[receiver] = max(received.get(receiver, 0), number)
        owed = {
            receiver: [n for n in self._calls.numbers(receiver) if n < last and (receiver, n) not in given]
            for receiver, last in received.items()
        }
        return EvictionOffer(
            {receiver: last for receiver, last in lasts.items() if last > self._channels[receiver].released},
            received,
            {receiver: numbers for receiver, numbers in owed.items() if numbers},
        )

    @property
    def awaits(self) -> tuple[str, int] | None:
        """The answer for which messages wait now: receiver, and number of the answered message; None if none wait."""
        return self._order.awaited

    def handle(self, event: DriverEvent) -> tuple[DriverEffect, ...]:
        """Take one fact; return the orders that follow from it, in order."""
        match event:
            case BatchTaken(receiver, count):
                return self._batch_taken(receiver, count)
            case BatchAcknowledged(receiver, last):
                return self._acknowledged(receiver, last)
            case ReceiverEnded(receiver):
                return self._receiver_ended(receiver)
            case AnswerArrived():
                return self._answer_arrived(event)
            case ActorMade(name):
                self._made[name] = self._order.end
                self._starts(name)
                return ()
            case ActorsMentioned(receiver, number, actors):
                self._channels.setdefault(receiver, _Channel()).mentions.append((number, actors))
                return ()
            case CallMade(receiver, call_id, number):
                assert self.retains, f"{self.name} counts no calls"
                self._calls.made(receiver, call_id, number, self.incarnation)
                return ()
            case OutcomeCame():
                return self._outcome_came(event)
            case OutcomeLost(receiver, call_id):
                self._calls.fetched(receiver, call_id, 0, self.incarnation)
                return ()
            case MessagesHanded(receiver, last):
                asked = self._calls.ask(receiver, last, self.incarnation)
                return tuple(FetchAgain(receiver, call_id, number) for number, call_id in asked)
            case SnapshotEnded(snapshot, floor):
                self._end(snapshot, floor)
                return ()
            case CutCommitted(snapshot):
                self._end(snapshot, 0)
                ours = snapshot.incarnation == self.incarnation
                return tuple(self._release(event)) if ours else ()
            case OfferTaken(incarnation, offer):
                if incarnation != self.incarnation:
                    return ()
                self._calls.forget(offer.received, offer.owed, ())
                return tuple(self._release_messages(offer.sent, offer.received, offer.owed))
            case SystemRolledBack():
                return tuple(self._roll_back(event)) if event.incarnation > self.incarnation else ()
            case _:
                assert_never(event)

    def validate(self) -> None:
        """Assert what holds between any two events, computed again from what is counted here; for tests."""
        self._order.validate()
        waiting = {receiver for _, receiver in self._waiting}
        waiting.update(*(self._mentioning.get(name, ()) for name in self._starting))
        for receiver, channel in self._channels.items():
            assert channel.released <= channel.acknowledged <= channel.transported, f"{receiver}: {channel}"
            assert channel.released <= channel.sent <= channel.transported, f"{receiver}: {channel}"
            assert not channel.unsent or receiver in waiting, f"{receiver} waits for nothing: {channel}"
            lasts = [retained.last for retained in channel.retained]
            assert lasts == sorted(set(lasts)), f"{receiver} keeps {lasts}"

    def _batch_taken(self, receiver: str, count: int) -> tuple[DriverEffect, ...]:
        assert self.may_number, f"{receiver}: a message is numbered behind {self._early}"
        channel = self._channels.setdefault(receiver, _Channel())
        changed = self._order.seen.sent(receiver, channel.transported + 1)
        pieces = []
        if channel.transported == 0 and receiver in self._made:
            pieces, count = channel.number(1, self._made[receiver]), count - 1
        if count:
            pieces += channel.number(count, self._order.place(receiver))
        if self.retains:
            channel.keep(pieces)
        waits = bool(channel.unsent)
        channel.unsent.extend(pieces)
        return changed if waits else (*changed, *self._send_unsent(receiver))

    def _send_ready(self) -> list[DriverEffect]:
        """Send all messages whose place the pointer has reached."""
        effects: list[DriverEffect] = []
        while self._waiting and self._waiting[0][0] <= self._order.confirmed:
            _, receiver = heappop(self._waiting)
            effects += self._send_unsent(receiver)
        return effects

    def _send_unsent(self, receiver: str) -> list[DriverEffect]:
        """Send what may leave on a channel. The rest waits for the next answer, or for an actor that starts."""
        channel = self._channels.get(receiver)
        if channel is None or not channel.unsent:  # its receiver has ended
            return []
        before = channel.sent
        while channel.unsent:
            last, behind, actors = channel.unsent[0]
            if behind > self._order.confirmed:
                heappush(self._waiting, (behind, receiver))
                break
            if actors and (starting := actors & self._starting.keys()):
                last_made = max(starting, key=self._starting.__getitem__)  # the others start before, as a rule
                self._mentioning.setdefault(last_made, []).append(receiver)
                break
            channel.sent = last
            channel.unsent.popleft()
        count = channel.sent - before
        return [SendTagged(receiver, self.incarnation, before + 1, count, self.tags)] if count else []

    def _starts(self, name: str) -> None:
        self._makings += 1
        self._starting[name] = self._makings

    def _started(self, name: str) -> list[DriverEffect]:
        """An actor has its creation, or needs none any more: messages that mention it may leave."""
        if self._starting.pop(name, None) is None:
            return []
        return [effect for receiver in self._mentioning.pop(name, ()) for effect in self._send_unsent(receiver)]

    def _acknowledged(self, receiver: str, last: int) -> tuple[DriverEffect, ...]:
        channel = self._channels.get(receiver)
        if channel is None:  # the receiver has ended
            return ()
        started = self._started(receiver) if last else []
        if last <= channel.acknowledged:  # a cut that holds it has said so before
            return tuple(started)
        assert last <= channel.transported, f"{receiver} acknowledged {last}: {channel}"
        channel.acknowledged = last
        if self.retains:
            return tuple(started)
        channel.released = last
        self._made.pop(receiver, None)
        return (ReleaseMessages(receiver, last), *started)

    def _receiver_ended(self, receiver: str) -> tuple[DriverEffect, ...]:
        if not self.retains:  # before anything leaves: it may mention itself
            self._channels.pop(receiver, None)
            self._made.pop(receiver, None)
        started = self._started(receiver)
        if receiver not in self._channels:
            return tuple(started)
        self._order.gone.add(receiver)  # for this life: a rollback may undo an end
        return (*started, *self._confirm())

    def _outcome_came(self, came: OutcomeCame) -> tuple[DriverEffect, ...]:
        if not self.retains:
            self._hear(came.tags)
            return ()
        number = self._calls.number(came.receiver, came.call_id)
        life = self._calls.fetched(came.receiver, came.call_id, came.incarnation, self.incarnation)
        channel = self._channels.get(came.receiver)
        if channel is None or number > channel.transported:
            number = 0  # a receiver that has ended answers what was not sent to it yet
        more = came.late, came.answer, came.again
        return self._answer_arrived(AnswerArrived(came.tags, came.receiver, number, life, *more))

    def _answer_arrived(self, answer: AnswerArrived) -> tuple[DriverEffect, ...]:
        if answer.incarnation > self.incarnation and self.retains:
            self._early.append(answer)
            return ()
        self._hear(answer.tags)
        receiver, number = answer.receiver, answer.number
        if not self.retains or number == 0 or receiver not in self._channels:
            return ()
        changed = self._order.add(answer, of_this_life=answer.incarnation == self.incarnation)
        return (*changed, *self._confirm())

    def _confirm(self) -> list[DriverEffect]:
        """Move the pointer, and send what waited for this."""
        self._order.advance()
        return self._send_ready()

    def _hear(self, tags: tuple[SnapshotId, ...]) -> None:
        if tags:
            self._tags.update((tag, None) for tag in tags if self._is_news(tag))

    def _is_news(self, tag: SnapshotId) -> bool:
        return tag.incarnation == self.incarnation and tag not in self._tombstones

    def _end(self, snapshot: SnapshotId, floor: int) -> None:
        if snapshot.incarnation == self.incarnation:
            self._tombstones.add(snapshot)
            self._tombstones.raise_floor(snapshot.initiator, floor)
            self._tags = {tag: None for tag in self._tags if tag not in self._tombstones}

    def _retire(self, ended: frozenset[str]) -> list[DriverEffect]:
        """Release all that was sent to processes that have ended for ever, and forget them."""
        effects: list[DriverEffect] = []
        for receiver in sorted(self._channels.keys() & ended):
            channel = self._channels.pop(receiver)
            if channel.transported > channel.released:
                effects.append(ReleaseMessages(receiver, channel.transported))
            self._order.retire(receiver)
        for name in self._made.keys() & ended:
            del self._made[name]
        return effects

    def _release(self, cut: CutCommitted) -> list[DriverEffect]:
        self._calls.forget(cut.received, cut.owed, cut.ended)
        self._order.hold(self._channels.keys(), cut.received, cut.owed)
        effects = self._retire(cut.ended)
        for name in sorted(self._starting.keys() & cut.ended):
            effects += self._started(name)
        return effects + self._release_messages(cut.sent, cut.received, cut.owed)

    def _release_messages(self, sent: Mapping[str, int], received: Mapping[str, int], owed: Owed) -> list[DriverEffect]:
        """No later life can need messages up to these numbers, or answers of those that are processed and not owed."""
        effects: list[DriverEffect] = []
        for receiver, n in sent.items():
            channel = self._channels.get(receiver)
            if channel is not None and n > channel.released:
                channel.release(n)
                self._made.pop(receiver, None)
                effects.append(ReleaseMessages(receiver, n))
        self._order.release(received, owed, self._channels.keys())
        return effects + self._confirm()

    def _roll_back(self, back: SystemRolledBack) -> list[DriverEffect]:
        self.incarnation = back.incarnation
        self._tags.clear()
        self._tombstones = Tombstones(ENDED_KEPT_MAX)
        effects = self._retire(back.ended)
        self._order.roll_back()
        self._order.hold(self._channels.keys(), back.received, back.owed)
        self._starting.clear()
        for name in self.missing(back.sent, back.ended):
            self._starts(name)
        self._mentioning.clear()
        self._waiting.clear()
        for receiver, channel in self._channels.items():
            n = back.sent.get(receiver, 0)
            assert channel.released <= n, f"{receiver} went back to {n}, {channel.released} are released already"
            channel.roll_back(n)
            if channel.unsent:
                heappush(self._waiting, (channel.unsent[0].behind, receiver))
        early, self._early = self._early, []
        self._calls.forget(back.received, back.owed, back.ended)
        self._calls.roll_back({(one.receiver, one.number) for one in early if one.incarnation >= self.incarnation})
        effects += self._confirm()
        return effects + [effect for answer in early for effect in self._answer_arrived(answer)]
