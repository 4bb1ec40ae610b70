"""Messages that arrived at an actor and were not yet processed. It has no lock: its host's lock covers it."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from rayshot.format.codec import END, REPLY, Codec, Frame, creation_of, cut_frame
from rayshot.format.slots import Slot


class Delivery:
    """Consecutive messages of one sender, in the order of their numbers.

    `is_spent`: short answers stand here for others, which were handed over before their turn.
    """

    __slots__ = ("frame", "is_spent", "sender")

    def __init__(self, sender: str, frame: Frame, *, is_spent: bool = False) -> None:
        self.sender = sender
        self.frame = frame
        self.is_spent = is_spent

    def may_join(self, behind: "Delivery") -> bool:
        """Whether these, which are spent as those behind them, are not more: so no message is copied often."""
        return self.is_spent and self.frame.count <= behind.frame.count

    def joined(self, behind: "Delivery") -> "Delivery":
        """These and those behind them, as one."""
        assert self.frame.last + 1 == behind.frame.first, "nothing is between them"
        body = bytes(self.frame.body) + bytes(behind.frame.body)
        frame = Frame(self.frame.first, self.frame.count + behind.frame.count, body)
        return Delivery(self.sender, frame, is_spent=True)


class Mailbox:
    """Deliveries in the order of arrival.

    `current` is the delivery that is being processed, and `position` the number of its last processed message.
    `processed` counts, per sender, the messages of finished deliveries. `slots` are the slots of messages that are not
    handled yet, by (sender, number).
    """

    def __init__(self) -> None:
        self.current: Delivery | None = None
        self.position = 0
        self.processed: dict[str, int] = {}
        self.slots: dict[tuple[str, int], tuple[Slot, ...]] = {}
        self._waiting: deque[Delivery] = deque()
        self._held: dict[tuple[str, int], Frame] = {}
        self._watched: list[Delivery] | None = None
        """From the first wait of a handler on: deliveries in which no answer was looked for yet, or not in all."""

    def __len__(self) -> int:
        return sum(delivery.frame.count for delivery in self._waiting if not delivery.is_spent)

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, sender: str, frame: Frame) -> None:
        """Add messages that came in order."""
        delivery = Delivery(sender, frame)
        self._waiting.append(delivery)
        watched = self._watched  # the worker sets it without the lock
        if watched is not None:
            watched.append(delivery)

    def hold(self, sender: str, frame: Frame) -> None:
        """Keep messages that came too early."""
        self._held[sender, frame.first] = frame

    def release(self, sender: str, first: int, last: int) -> None:
        """Add messages `first` .. `last`, which were held."""
        for key in sorted(key for key in self._held if key[0] == sender and key[1] <= first):
            frame = self._held[key]
            if frame.last >= last:
                self.put(sender, cut_frame(frame, first, last))
            if frame.last <= last:
                del self._held[key]

    def drop_held(self, sender: str) -> None:
        """Drop the held messages of a sender: the messages that they wait for never come."""
        for key in [key for key in self._held if key[0] == sender]:
            frame = self._held.pop(key)
            for number in range(frame.first, frame.last + 1):
                self.slots.pop((sender, number), None)

    def put_slots(self, sender: str, slots: Mapping[int, tuple[Slot, ...]], first: int, last: int) -> None:
        """Keep the slots of the messages `first` .. `last`, where they have any."""
        for number, of_message in slots.items():
            if first <= number <= last:
                self.slots[sender, number] = of_message

    def take(self, limits: Mapping[str, int]) -> Delivery | None:
        """Begin with the next delivery up to the `limits` per sender; None if all waiting messages are behind them."""
        if not limits:
            return self._begin(self._waiting.popleft())
        for index, delivery in enumerate(self._waiting):
            frame = delivery.frame
            limit = limits.get(delivery.sender, frame.last)
            if frame.last <= limit:
                del self._waiting[index]
                return self._begin(delivery)
            if frame.first <= limit:
                self._waiting[index] = Delivery(delivery.sender, cut_frame(frame, limit + 1, frame.last))
                return self._begin(Delivery(delivery.sender, cut_frame(frame, frame.first, limit)))
        return None

    def take_creation(self, limits: Mapping[str, int]) -> Delivery | None:
        """Begin with the delivery that creates the actor; None if it has not arrived, or is behind the limits."""
        for delivery in self._waiting:
            if creation_of(delivery.frame) is not None:
                self._waiting.remove(delivery)
                self._waiting.appendleft(delivery)
                return self.take(limits) if limits.get(delivery.sender, 1) > 0 else None
        return None

    def cut_to_one(self) -> Delivery:
        """Of the delivery that was just begun, handle only the first message now; the others wait before all others."""
        assert self.current is not None
        sender, frame = self.current.sender, self.current.frame
        if frame.count == 1:
            return self.current
        self._waiting.appendleft(Delivery(sender, cut_frame(frame, frame.first + 1, frame.last)))
        return self._begin(Delivery(sender, cut_frame(frame, frame.first, frame.first)))

    def put_back(self) -> None:
        """Of the delivery that is being processed, handle nothing more now: what is left waits before all others."""
        assert self.current is not None
        sender, frame = self.current.sender, self.current.frame
        if self.position < frame.last:
            self._waiting.appendleft(Delivery(sender, cut_frame(frame, self.position + 1, frame.last)))
        self.finish()

    def _begin(self, delivery: Delivery) -> Delivery:
        self.current = delivery
        self.position = delivery.frame.first - 1
        return delivery

    def finish(self) -> None:
        """The current delivery was processed up to `position`."""
        assert self.current is not None
        self.processed[self.current.sender] = self.position
        self.current = self._watched = None

    def received(self) -> dict[str, int]:
        """Per sender, the number of the last processed message."""
        if self.current is None:
            return dict(self.processed)
        return {**self.processed, self.current.sender: self.position}

    def senders(self) -> set[str]:
        """All senders of messages that are or were here, the early ones too; not those that were forgotten."""
        waiting = {delivery.sender for delivery in self._waiting}
        return {*self.received(), *waiting, *(sender for sender, _ in self._held)}

    @property
    def size_bytes(self) -> int:
        """Bytes of the messages that are not processed. A batch counts fully until all of it is processed."""
        waiting = sum(len(delivery.frame.body) for delivery in self._waiting)
        if self.slots:
            waiting += sum(slot.size for slots in tuple(self.slots.values()) for slot in slots)
        return waiting + (len(self.current.frame.body) if self.current is not None else 0)

    def message(self, sender: str, number: int) -> bytes:
        """One message that waits here; empty if it does not wait here."""
        for delivery in self._waiting:
            if delivery.sender == sender and delivery.frame.first <= number <= delivery.frame.last:
                return bytes(cut_frame(delivery.frame, number, number).body)
        return b""

    def current_message(self, number: int) -> bytes:
        """A message of the delivery that is being processed."""
        assert self.current is not None
        return bytes(cut_frame(self.current.frame, number, number).body)

    def pass_over(self, sender: str, spent: dict[int, int], codec: Codec) -> None:
        """These answers of a sender, by number the ids of their calls, were handed over; the dict is empty then.

        They count as processed if nothing else of the sender waits before them. Else a short answer stands for each.
        """
        while (index := next((i for i, one in enumerate(self._waiting) if one.sender == sender), None)) is not None:
            delivery = self._waiting[index]
            frame, last = delivery.frame, delivery.frame.first - 1
            while last < frame.last and (delivery.is_spent or last + 1 in spent):
                last += 1
                spent.pop(last, None)
                self.slots.pop((sender, last), None)
            if last < frame.first:
                break
            self.processed[sender] = last
            del self._waiting[index]
            if last < frame.last:
                self._waiting.insert(index, Delivery(sender, cut_frame(frame, last + 1, frame.last)))
        if spent:
            self._shorten(sender, spent, codec)
            spent.clear()

    def _shorten(self, sender: str, spent: Mapping[int, int], codec: Codec) -> None:
        kept: list[Delivery] = []
        of_sender: list[int] = []
        for delivery in self._waiting:
            for part in _parts(delivery, spent, codec) if delivery.sender == sender else (delivery,):
                if part.sender == sender:
                    while part.is_spent and of_sender and kept[of_sender[-1]].may_join(part):
                        part = kept.pop(of_sender.pop()).joined(part)  # noqa: PLW2901 - with the one before it
                    of_sender.append(len(kept))
                kept.append(part)
        for number in spent:
            self.slots.pop((sender, number), None)
        self._waiting = deque(kept)

    def watch(self) -> None:
        """Until the current delivery is finished, `answers` finds what waits here, and what arrives."""
        if self._watched is None:
            self._watched = [Delivery(sender, frame) for sender, frame in self.unhandled()]

    def answers(
        self, behind: dict[str, int], limits: Mapping[str, int], codec: Codec
    ) -> Iterator[tuple[str, int, list[Any], tuple[Slot, ...]]]:
        """Each answer to a question, and each order to end, that waits here up to the `limits`.

        Each is a sender, a number, a message as `Codec.unpacker` yields it, and its slots. `behind` has, per sender,
        the number of the last message that was looked at. It is kept up to date.
        """
        assert self._watched is not None, "a handler waits"
        watched, self._watched = self._watched, []
        for delivery in watched:
            sender, frame = delivery.sender, delivery.frame
            first, last = behind.get(sender, 0) + 1, min(frame.last, limits.get(sender, frame.last))
            if last < frame.last:
                self._watched.append(delivery)
            if first <= last:
                behind[sender] = last
                for number, message in enumerate(codec.unpacker(frame.body), frame.first):
                    if first <= number <= last and (message[0] == END or (message[0] == REPLY and message[1] < 0)):
                        yield sender, number, message, self.slots.get((sender, number), ())

    def unprocessed_slots(self, ends: Mapping[str, int]) -> dict[str, dict[int, tuple[Slot, ...]]]:
        """Per sender in `ends`, the slots of the messages that wait here up to that number."""
        found: dict[str, dict[int, tuple[Slot, ...]]] = {}
        for (sender, number), slots in sorted(self.slots.items(), key=lambda item: item[0]):
            if number <= ends.get(sender, 0):  # slots of handled messages are not here any more
                found.setdefault(sender, {})[number] = slots
        return found

    def unhandled(self) -> Iterator[tuple[str, Frame]]:
        """All messages that wait here, with their senders."""
        if self.current is not None:
            frame = self.current.frame
            yield self.current.sender, cut_frame(frame, self.position + 1, frame.last)
        for delivery in self._waiting:
            yield delivery.sender, delivery.frame

    def unprocessed(self, ends: Mapping[str, int]) -> dict[str, list[Frame]]:
        """Per sender in `ends`, the messages that wait here up to that number, not decoded."""
        frames: dict[str, list[Frame]] = {sender: [] for sender in ends}
        if self.current is not None and self.current.sender in ends:
            last = ends[self.current.sender]
            frames[self.current.sender].append(cut_frame(self.current.frame, self.position + 1, last))
        for delivery in self._waiting:
            if delivery.frame.first <= ends.get(delivery.sender, 0):
                frames[delivery.sender].append(cut_frame(delivery.frame, delivery.frame.first, ends[delivery.sender]))
        return {sender: [frame for frame in found if frame.count] for sender, found in frames.items()}


def _parts(delivery: Delivery, spent: Mapping[int, int], codec: Codec) -> Iterator[Delivery]:
    """A delivery, with short answers in place of those that are spent."""
    sender, frame = delivery.sender, delivery.frame
    if delivery.is_spent or spent.keys().isdisjoint(range(frame.first, frame.last + 1)):
        yield delivery
        return
    first = frame.first
    for number in sorted(number for number in spent if frame.first <= number <= frame.last):
        if first < number:
            yield Delivery(sender, cut_frame(frame, first, number - 1))
        yield Delivery(sender, Frame(number, 1, codec.reply(spent[number], None, ok=True)), is_spent=True)
        first = number + 1
    if first <= frame.last:
        yield Delivery(sender, cut_frame(frame, first, frame.last))
