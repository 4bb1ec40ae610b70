"""What changed between two snapshots: actors, their attributes, and channels."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from rayshot.format.entries import ActorEntry, ChannelEntry
from rayshot.format.manifest import Manifest
from rayshot.format.payloads import read_payload
from rayshot.inert.likeness import alike
from rayshot.inert.redaction import shown, shown_calls, shown_timers
from rayshot.protocol.identity import Channel, SnapshotId
from rayshot.snapshots.channel_state import ChannelState
from rayshot.snapshots.relation import Relation, require_comparable
from rayshot.snapshots.state import RecordedState

CALLS, TIMERS, PAYLOAD, FILES = "(calls)", "(timers)", "(payload)", "(files)"
WHOLE_STATE = "(state)"
"""Stands for the attribute if a state is not a dict of attributes."""


class _Absent:
    """The value of a missing attribute."""

    def __repr__(self) -> str:
        return "(absent)"


ABSENT = _Absent()


@dataclass(frozen=True, slots=True)
class ValueChange:
    """One value of an actor, before and after; ABSENT if it was missing.

    `name` is an attribute of the state, or one of "(state)", "(class)", "(status)", "(calls)", "(timers)", and of what
    the actor fixed outside "(payload)" and "(files)", a dict of paths with sizes and digests.
    """

    name: str
    old: Any
    new: Any

    @property
    def shown(self) -> tuple[Any, Any]:
        """Old and new for eyes, see `redaction`; ABSENT stays."""
        show = {CALLS: shown_calls, TIMERS: shown_timers}.get(self.name, partial(shown, self.name))
        old, new = (one if one is ABSENT else show(one) for one in (self.old, self.new))
        return old, new


@dataclass(frozen=True, slots=True)
class ActorChange:
    """An actor that both snapshots hold and that changed."""

    name: str
    values: tuple[ValueChange, ...]


@dataclass(frozen=True, slots=True)
class ChannelChange:
    """A channel that moved, appeared (`old` is None) or vanished (`new` is None), with its counters."""

    channel: Channel
    old: ChannelEntry | None
    new: ChannelEntry | None


@dataclass(frozen=True, slots=True)
class SnapshotDiff:
    """All differences, sorted by name. `relation`: the old cut is before, after or equal to the new one."""

    old: SnapshotId
    new: SnapshotId
    relation: Relation
    actors_added: tuple[str, ...]
    actors_removed: tuple[str, ...]
    actors_changed: tuple[ActorChange, ...]
    channels_changed: tuple[ChannelChange, ...]

    @property
    def same(self) -> bool:
        """Whether the snapshots do not differ."""
        return not (self.actors_added or self.actors_removed or self.actors_changed or self.channels_changed)


class Comparable(Protocol):
    """The parts of a Snapshot that are compared."""

    @property
    def id(self) -> SnapshotId: ...  # noqa: D102 - see Snapshot

    @property
    def manifest(self) -> Manifest: ...  # noqa: D102

    @property
    def channels(self) -> Mapping[Channel, ChannelState]: ...  # noqa: D102

    def recorded(self, actor: str) -> RecordedState: ...  # noqa: D102


def compare(old: Comparable, new: Comparable) -> SnapshotDiff:
    """Compare two snapshots. It does not read states and messages whose bytes both share.

    Raises Incomparable for cuts that no run leads from one to the other of, and what reading raises.
    """
    relation = require_comparable(old.manifest, new.manifest)
    before = {actor.name: actor for actor in old.manifest.actors}
    after = {actor.name: actor for actor in new.manifest.actors}
    changes = (
        ActorChange(name, tuple(actor_changes(before[name], after[name], old, new)))
        for name in sorted(before.keys() & after)
    )
    return SnapshotDiff(
        old.id,
        new.id,
        relation,
        actors_added=tuple(sorted(after.keys() - before)),
        actors_removed=tuple(sorted(before.keys() - after)),
        actors_changed=tuple(change for change in changes if change.values),
        channels_changed=tuple(_channels(old, new)),
    )


def actor_changes(
    before: ActorEntry | None, after: ActorEntry | None, old: Comparable, new: Comparable
) -> Iterator[ValueChange]:
    """The changes of one actor; all its values if only one of two snapshots holds it.

    Nothing is read where both have the same stretches of the same chunks; raises what reading raises.
    """
    for name, look in (("(class)", _class_of), ("(status)", _status_of), (PAYLOAD, _payload_of), (FILES, _files_of)):
        one, other = look(before), look(after)
        if one != other:
            yield ValueChange(name, one, other)
    if before is not None and after is not None and before.state == after.state:
        return
    yield from _values(_flat(before, old), _flat(after, new))


def _class_of(actor: ActorEntry | None) -> Any:
    return ABSENT if actor is None else f"{actor.class_module}.{actor.class_name}"


def _status_of(actor: ActorEntry | None) -> Any:
    return ABSENT if actor is None else actor.status


def _payload_of(actor: ActorEntry | None) -> Any:
    return ABSENT if actor is None or actor.outside is None else read_payload(actor.outside.payload)


def _files_of(actor: ActorEntry | None) -> Any:
    if actor is None or actor.outside is None:
        return ABSENT
    return {file.path: (file.size, file.digest) for file in actor.outside.files}


def _flat(actor: ActorEntry | None, snapshot: Comparable) -> dict[str, Any]:
    """All recorded values of an actor as one dict; empty if it has no state."""
    if actor is None or actor.state is None:
        return {}
    recorded = snapshot.recorded(actor.name)
    rest = {CALLS: recorded.calls, TIMERS: recorded.timers}
    if isinstance(recorded.state, dict) and all(isinstance(name, str) for name in recorded.state):
        return {**recorded.state, **rest}
    return {WHOLE_STATE: recorded.state, **rest}


def _values(before: dict[str, Any], after: dict[str, Any]) -> Iterator[ValueChange]:
    for name in sorted(before.keys() | after):
        one, other = before.get(name, ABSENT), after.get(name, ABSENT)
        if not alike(one, other):
            yield ValueChange(name, one, other)


def _channels(old: Comparable, new: Comparable) -> Iterator[ChannelChange]:
    for channel in sorted(old.channels.keys() | new.channels):
        before, after = old.channels.get(channel), new.channels.get(channel)
        if not (before and after and _same_channel(before, after)):
            yield ChannelChange(channel, _entry(before), _entry(after))


def _entry(channel: ChannelState | None) -> ChannelEntry | None:
    return None if channel is None else channel.entry


def _same_channel(before: ChannelState, after: ChannelState) -> bool:
    """Whether counters and messages agree; equal numbers mean equal messages only within one life of a system."""
    if (before.sent, before.arrived, before.received) != (after.sent, after.arrived, after.received):
        return False
    return before.entry.all_blobs() == after.entry.all_blobs() or alike(before.messages, after.messages)
