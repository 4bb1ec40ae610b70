"""S*: the recorded state of a snapshot, as predicates see it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

from rayshot.errors import (
    Damaged,
    EncryptionKeyNeeded,
    Incompatible,
    SnapshotNotFound,
    StoreError,
    Untrusted,
)
from rayshot.format.codec import Frame, RecordedMessage
from rayshot.protocol.identity import Channel, SnapshotId, is_driver
from rayshot.snapshots.channel_state import ChannelState
from rayshot.snapshots.snapshot import Snapshot
from rayshot.snapshots.state import ActorInfo, PendingCall, SetTimer, read_calls, read_owed, read_questions, read_timers

TIMER = "timer"
OF_THE_STORE = (Damaged, EncryptionKeyNeeded, Incompatible, SnapshotNotFound, StoreError, Untrusted)
"""Errors that reading raises for every reader: not the predicate's fault, unless it raises one of these itself."""


@dataclass(frozen=True, slots=True)
class ActorState:
    """One actor as it was recorded.

    `state` is its `__dict__`, read-only, or the result of its `__getstate__`; objects of unknown classes are inert
    records. `actor["balance"]` is one attribute of the state.
    """

    name: str
    class_name: str
    state: Any
    calls: tuple[PendingCall, ...]
    timers: tuple[SetTimer, ...]

    def __getitem__(self, attribute: str) -> Any:
        return self.state[attribute]

    def get(self, attribute: str, default: Any = None) -> Any:
        """An attribute; `default` if there is none, also if the state has no attributes."""
        return self.state.get(attribute, default) if isinstance(self.state, Mapping) else default


@dataclass(frozen=True, slots=True)
class Message:
    """A message in flight, or the message that a timer will send to its own actor: of kind "timer", with number 0.

    `kind` is "tell", "call", "reply", "create", "end" or "timer"; arguments are inert. `call_id` is the caller's number
    for a call; its reply has the same number.
    """

    sender: str
    receiver: str
    number: int
    kind: str
    method: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    call_id: int | None = None


@dataclass(frozen=True)
class _WatchedChannel(ChannelState):
    """A channel that notes the errors of reading its messages."""

    _reading: Callable[[], AbstractContextManager[None]] = field(repr=False, compare=False)

    def iterate(self) -> Iterator[RecordedMessage]:
        """See ChannelState."""
        with self._reading():
            yield from super().iterate()

    def frames(self, first: int | None = None, last: int | None = None) -> Iterator[Frame]:
        """See ChannelState."""
        with self._reading():
            yield from super().frames(first, last)


class GlobalState:
    """What one snapshot recorded. Nothing in it can be assigned; what is read is the reader's own copy.

    States and messages are read from the store each time they are asked for: a predicate costs what it reads. Reading
    raises what `Snapshot` raises.
    """

    _snapshot: Snapshot
    _raised: list[Exception]
    _questions: dict[str, Mapping[int, str]]

    def __init__(self, snapshot: Snapshot) -> None:
        self.__dict__.update(_snapshot=snapshot, _raised=[], _questions={})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a global state was recorded and cannot be changed: {name} was to be {value!r:.100}")

    def __repr__(self) -> str:
        return f"<GlobalState of {self.id}>"

    @property
    def id(self) -> SnapshotId:
        """The snapshot's id."""
        return self._snapshot.id

    @property
    def life(self) -> int:
        """The life of the system that took it; each restore begins a new one."""
        return self._snapshot.id.incarnation

    @property
    def actors(self) -> Mapping[str, ActorInfo]:
        """The actors by name, without their states: only the manifest is read."""
        return self._snapshot.actors

    @cached_property
    def ended(self) -> frozenset[str]:
        """The actors that had ended before the snapshot."""
        return frozenset(self._snapshot.manifest.ended)

    @cached_property
    def channels(self) -> Mapping[Channel, ChannelState]:
        """Counters by (sender, receiver): `sent`, `received`, `count` in flight. Drivers are senders too."""
        watched = (_WatchedChannel(one.entry, one._reader, self._reading) for one in self._snapshot.channels.values())  # noqa: SLF001
        return MappingProxyType({one.channel: one for one in watched})

    @property
    def in_flight(self) -> int:
        """Messages in flight on all channels together."""
        return self._snapshot.in_flight

    @property
    def left_out(self) -> Mapping[str, int]:
        """By receiver, how many messages told before are not inside; only for the program that just took it."""
        return MappingProxyType({name: count for name, count in self._snapshot.left_out.items() if count})

    @cached_property
    def told(self) -> Mapping[str, int]:
        """By driver, how many messages it had told. Drivers that died are left out."""
        told: dict[str, int] = {}
        for channel, state in self.channels.items():
            if is_driver(channel.sender):
                told[channel.sender] = told.get(channel.sender, 0) + state.sent
        return MappingProxyType(told)

    def actor(self, name: str) -> ActorState:
        """Read one actor. Raises ActorNotFound if there is no actor of that name, or only messages to it."""
        with self._reading():
            recorded = self._snapshot.recorded(name)
            calls = tuple(read_calls(name, recorded.calls, recorded.callees))
            timers = tuple(read_timers(name, recorded.timers))
        state = MappingProxyType(recorded.state) if type(recorded.state) is dict else recorded.state
        return ActorState(name, self.actors[name].class_name, state, calls, timers)

    def born(self) -> Iterator[ActorState]:
        """Read all actors that have a state, one after the other."""
        for name, info in self.actors.items():
            if info.status == "born":
                yield self.actor(name)

    def messages(self) -> Iterator[Message]:
        """Read all messages in flight, one after the other, but not those of timers, and no spent replies."""
        for channel, state in self.channels.items():
            for one in state.iterate():
                if self._is_spent(channel.receiver, one):
                    continue
                yield Message(channel.sender, channel.receiver, *one)

    def _is_spent(self, receiver: str, message: RecordedMessage) -> bool:
        """Whether it is a reply for which its handler waits no more: it had it before its turn, or gave it up."""
        if message.kind != "reply" or message.call_id is None or message.call_id >= 0:
            return False
        return message.call_id not in self.questions(receiver)

    def questions(self, name: str) -> Mapping[int, str]:
        """The calls of that actor whose replies its state holds without an outcome: ids below 0 -> the actor called."""
        if name not in self._questions:
            self._questions[name] = dict(read_questions(name, self._snapshot.recorded(name).questions))
        return self._questions[name]

    def owed(self, name: str) -> frozenset[tuple[str, int]]:
        """The calls that this actor has handled and not answered: the caller, and its number for the call."""
        owed = read_owed(name, self._snapshot.recorded(name).owed)
        return frozenset((caller, call_id) for caller, call_id, _ in owed)

    def has_raised(self, error: BaseException) -> bool:
        """Internal: whether reading this snapshot raised exactly this error, rather than the predicate."""
        return any(error is one for one in self._raised)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            with self._snapshot.or_deleted():
                yield
        except OF_THE_STORE as error:
            self._raised.append(error)
            raise


def timer_messages(actor: ActorState) -> Iterator[Message]:
    """The messages that an actor's timers will send to it."""
    for timer in actor.timers:
        yield Message(actor.name, actor.name, 0, TIMER, timer.method, timer.args, MappingProxyType({}))
