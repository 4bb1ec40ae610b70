"""A snapshot of a simulated world: the contents of the records, with the interface of a stored `rayshot.Snapshot`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rayshot.errors import ActorNotFound, InconsistentCut, NotFound
from rayshot.format.classes_by_value import Names
from rayshot.format.codec import Frame, RecordedMessage, read_messages
from rayshot.format.pickled_state import PickledState
from rayshot.format.slots import SlottedMessage
from rayshot.inert import reader
from rayshot.inert.reader import read_slots
from rayshot.model.dead_letter import DeadLetter
from rayshot.model.outside import Folder
from rayshot.model.specification import ActorSpecification
from rayshot.protocol.identity import Channel, SnapshotId


@dataclass(frozen=True, slots=True)
class RecordedActor:
    """One actor: `state` is None if the actor is not born yet, and exists only as messages to it.

    `version` is the version of the class that recorded the state; None means the specification's. `payload` is what its
    class gave for what is outside, as JSON, None if it gave nothing; `files` are those that it wrote.
    """

    specification: ActorSpecification | None
    state: PickledState | None
    version: int | None = None
    payload: str | None = None
    files: Folder | None = None


@dataclass(frozen=True, slots=True)
class RecordedChannel:
    """Where the snapshot cuts one channel; `bodies` are exactly the messages received+1 .. sent, encoded.

    `owed` are as in ChannelCut.
    """

    channel: Channel
    sent: int
    received: int
    bodies: tuple[bytes, ...] = field(repr=False)
    owed: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.received <= self.sent or len(self.bodies) != self.sent - self.received:
            raise InconsistentCut(
                f"channel {self.channel}: {self.sent} sent, {self.received} received, {len(self.bodies)} recorded",
                channel=tuple(self.channel),
                sent=self.sent,
                received=self.received,
            )

    @property
    def count(self) -> int:
        """How many messages were in flight."""
        return self.sent - self.received

    @property
    def messages(self) -> list[RecordedMessage]:
        """The messages in flight, decoded inertly, as a stored snapshot shows them."""
        frame = Frame(self.received + 1, self.count, b"".join(self.bodies))
        return list(read_messages(frame, lambda number: _contents(self.bodies[number - self.received - 1])))


def _contents(message: bytes) -> Sequence[Any]:
    """The values beside a message."""
    slots = message.slots if isinstance(message, SlottedMessage) else ()
    return read_slots([(parts[0], parts[1:]) for parts in (slot.content.parts for slot in slots)])


@dataclass(frozen=True)
class WorldSnapshot:
    """A committed snapshot of a SimulatedSystem; it is read inertly, as `rayshot.Snapshot` is.

    So what a test says about it can also be said about a snapshot of the real system. `taken_at` is the world's virtual
    time in seconds. `ended` are the actors that had ended. `advances` says whether a rollback may go to it. `names` are
    moved globals of its pickles. `dead_letters` are the messages in flight to actors that are left out.
    """

    id: SnapshotId
    system: str
    actors: Mapping[str, RecordedActor]
    channels: Mapping[Channel, RecordedChannel]
    ended: tuple[str, ...] = ()
    advances: bool = True
    taken_at: float = 0.0
    names: Names = field(default_factory=dict)
    dead_letters: tuple[DeadLetter, ...] = ()

    def __repr__(self) -> str:
        return f"<WorldSnapshot {self.id} of {self.system!r}: {len(self.actors)} actors, {self.in_flight} in flight>"

    @property
    def in_flight(self) -> int:
        """Messages in flight on all channels together."""
        return sum(channel.count for channel in self.channels.values())

    def states(self) -> dict[str, Any]:
        """The recorded state of every actor that has one, by name."""
        return {name: self.state(name) for name, actor in self.actors.items() if actor.state is not None}

    def state(self, actor: str) -> Any:
        """The recorded state of one actor. Raises ActorNotFound if there is none."""
        found = self.actors.get(actor)
        if found is None or found.state is None:
            fate = "no actor" if found is None else "no state yet of the actor"
            raise ActorNotFound(f"{self.id} has {fate} {actor!r}; it has {', '.join(self.actors) or 'none'}")
        return reader.read(found.state.stream, found.state.buffers)["state"]

    def payload(self, actor: str) -> Any:
        """What an actor gave for what it fixed outside; None if it gave nothing. Raises ActorNotFound."""
        if actor not in self.actors:
            raise ActorNotFound(f"{self.id} has no actor {actor!r}; it has {', '.join(self.actors) or 'none'}")
        packed = self.actors[actor].payload
        return None if packed is None else json.loads(packed)

    def channel(self, sender: str, receiver: str) -> RecordedChannel:
        """The channel from `sender` to `receiver`. Raises NotFound if no message was ever sent on it."""
        found = self.channels.get(Channel(sender, receiver))
        if found is None:
            there = ", ".join(map(str, self.channels)) or "none"
            raise NotFound(f"{self.id} has no channel {sender} -> {receiver}; it has {there}")
        return found
