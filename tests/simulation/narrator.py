"""Puts what the machines order into sentences, in the words of the 1985 paper: a trace that a newcomer can read."""

from collections import defaultdict
from typing import assert_never

from rayshot.protocol.collector_events import (
    AnnounceEnd,
    CollectorEffect,
    SendBegin,
    StoreSnapshot,
)
from rayshot.protocol.driver_events import DriverEffect, SendTagged
from rayshot.protocol.effects import (
    AnnounceSnapshot,
    AwaitMarkers,
    CaptureState,
    DeliverBatch,
    DropBatch,
    Effect,
    ForgetSnapshot,
    HoldBatch,
    PauseHandlers,
    ReportEnd,
    ReportFailure,
    ReportQuiet,
    ReportRecord,
    SendBatch,
)
from rayshot.protocol.events import Marker
from rayshot.protocol.identity import STOP_THE_WORLD, Channel, SnapshotId
from rayshot.protocol.record import Record


class Narrator:
    """`trace` is what was told. `log` holds the amounts sent per channel: number n is at n - 1.

    Snapshots are called S1, S2 ... as they come up. `names` are words for balances (by process) and for amounts (by
    channel) where a story gave some.
    """

    def __init__(self):
        self.trace = []
        self.log = defaultdict(list)
        self.snapshots = {}
        self.names = defaultdict(dict)

    def say(self, line):
        self.trace.append(line)

    # Words -----------------------------------------------------------------------------------------

    def snapshot(self, snapshot: SnapshotId):
        return self.snapshots.setdefault(snapshot, f"S{len(self.snapshots) + 1}")

    def state(self, process, balance):
        return str(self.names[process].get(balance, balance))

    def amounts(self, channel, amounts):
        return f"[{', '.join(str(self.names[str(channel)].get(amount, amount)) for amount in amounts)}]"

    def messages(self, channel: Channel, first, last):
        """Say which messages, with what they carry."""
        which = f"message {first}" if first == last else f"messages {first}..{last}"
        return f"{which} {self.amounts(channel, self.log[channel][first - 1 : last])}"

    def marker(self, marker: Marker):
        where = f"after message {marker.sent}" if marker.sent else "before any message"
        return f"marker of {self.snapshot(marker.snapshot)} {where}"

    def packet(self, channel: Channel, first, count, markers, *, closing=False, tags=()):
        """Say what a batch carries."""
        parts = [self.messages(channel, first, first + count - 1)] if count else []
        parts += [self.marker(marker) for marker in markers]
        parts += [f"tag {self.snapshot(tag)}" for tag in tags]
        return ", ".join([*parts, "the end"] if closing else parts)

    def global_state(self, balances, channels):
        """Say a global state as the paper has it: all processes, all channels."""
        processes = ", ".join(f"{name} {self.state(name, balance)}" for name, balance in balances.items())
        return "; ".join([processes, *(f"{c} {self.amounts(c, amounts)}" for c, amounts in channels.items())])

    # What the machines order -----------------------------------------------------------------------

    def tell(self, name, effects, account):
        """What the machine of process `name` ordered."""
        for effect in effects:
            self.say(self._sentence(name, effect, account))

    def _sentence(self, name, effect: Effect, account):
        match effect:
            case CaptureState(snapshot, behind):
                first = " and ".join(f"message {n} of {sender}" for sender, n in behind.items() if n)
                return f"{name} is to record {self.snapshot(snapshot)}{f', once it took {first}' if first else ''}"
            case AwaitMarkers(snapshot):
                return f"{name} hears of {self.snapshot(snapshot)} and waits for its markers"
            case PauseHandlers(snapshot):
                return f"{name} is to stand still for {self.snapshot(snapshot)}"
            case ReportQuiet(snapshot):
                return f"{name} stands still for {self.snapshot(snapshot)}, and all that it sent has arrived"
            case SendBatch(receiver, first, count, markers, closing):
                channel = Channel(name, receiver)
                return f"{channel}: {self.packet(channel, first, count, markers, closing=closing)}"
            case DeliverBatch(sender, first, last):
                return f"{name}'s mailbox: {self.messages(Channel(sender, name), first, last)} of {sender}"
            case HoldBatch(sender, first):
                return f"{name} holds message {first} of {sender} back: one before it is missing"
            case DropBatch(sender, first, why):
                return f"{name} drops message {first} of {sender}: {why}"
            case ReportRecord(record):
                return self._record(record, account)
            case ReportFailure(snapshot):
                return f"{name} cannot record {self.snapshot(snapshot)}"
            case ReportEnd():
                return f"{name} ends"
            case AnnounceSnapshot(snapshot):
                return f"{name} begins {self.snapshot(snapshot)}"
            case ForgetSnapshot(snapshot):
                return f"{name} lets go of {self.snapshot(snapshot)}"
            case _:
                assert_never(effect)

    def _record(self, record: Record, account):
        name = record.process
        state = f"state {self.state(name, account.balance)}" if account else "not born yet"
        parts = []
        for receiver, sent in record.sent.items():
            if receiver != name and record.released[receiver] < sent:
                held = self.messages(Channel(name, receiver), record.released[receiver] + 1, sent)
                parts.append(f"{held} to {receiver}")
        for sender, last in record.arrived.items():
            waiting = self.messages(Channel(sender, name), record.received.get(sender, 0) + 1, last)
            parts.append(f"{waiting} of {sender} from its mailbox")
        told = f"{name} records {self.snapshot(record.snapshot)}: {state}"
        told += f"; hands in {', '.join(parts)}" if parts else ""
        return told + (f"; aligned with {' and '.join(record.aligned)}" if record.aligned else "")

    def tell_of_driver(self, name, effects: tuple[DriverEffect, ...]):
        """What the machine of a driver ordered; what it lets go of is told of nowhere."""
        for effect in effects:
            if isinstance(effect, SendTagged):
                channel = Channel(name, effect.receiver)
                self.say(f"{channel}: {self.packet(channel, effect.first, effect.count, (), tags=effect.tags)}")

    def tell_of_coordinator(self, effects: tuple[CollectorEffect, ...]):
        """What the coordinator's machine ordered."""
        for effect in effects:
            match effect:
                case SendBegin(process, snapshot, _, inputs, quiet):
                    stops = snapshot.mode == STOP_THE_WORLD
                    what = "all stand still, record" if quiet else "stand still for" if stops else "record"
                    told = f"coordinator to {process}: {what}"
                    behind = f", aligned with {', '.join(sorted(inputs))}" if inputs else ""
                    self.say(f"{told} {self.snapshot(snapshot)}{behind}")
                case StoreSnapshot():
                    pass  # told with what it holds: see `complete`
                case AnnounceEnd(snapshot, reason):
                    end = "is committed" if reason is None else f"is aborted: {reason.value}"
                    self.say(f"{self.snapshot(snapshot)} {end}")
                case _:
                    assert_never(effect)

    def complete(self, stored, opened):
        """What a snapshot that is complete holds: a global state. Of its channels `opened` are there from the start."""
        balances = {name: state.balance for name, state in stored.states.items() if state is not None}
        amounts = {c: [message.amount for message in messages] for c, messages in stored.messages.items()}
        total = sum(balances.values()) + sum(map(sum, amounts.values()))
        channels = {channel: amounts.get(channel, []) for channel in sorted(amounts.keys() | opened)}
        self.say(f"{self.snapshot(stored.cut.snapshot)} is complete: {self.global_state(balances, channels)}")
        if not any(self.names.values()):
            self.say(f"    {total} in all")
