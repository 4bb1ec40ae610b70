"""How much an actor had done, in one number that never falls within a life.

A manifest leaves out the channels of actors that have ended and of drivers that died, and with them what an actor had
counted there. So this module keeps the highest known counts of all channels of a life, and the counts of a missing
channel still count. A driver that a manifest does not list has died, or has not come yet. It has not come yet if any
other count of the actor is lower than a known one, as then the snapshot is before one that was seen.

If all other counts equal the known ones, nothing in a manifest tells the two cases apart, and the driver counts as
dead. Ids do not help either: snapshots of one initiator may reach two actors in different order.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from rayshot.format.manifest import Manifest
from rayshot.protocol.identity import is_driver
from rayshot.snapshots.relation import clocks

_End = tuple[str, str]
"""("to" or "from", the other end) of an actor's channel."""


class LifeClocks:
    """The highest counts of all channels that one life ever had."""

    def __init__(self) -> None:
        self._known: defaultdict[str, dict[_End, int]] = defaultdict(dict)

    def learn(self, channels: Iterable[tuple[str, str, int, int]]) -> None:
        """Take in (sender, receiver, sent, received)."""
        for sender, receiver, sent, received in channels:
            if not is_driver(sender):
                self._raise(sender, ("to", receiver), sent)
            self._raise(receiver, ("from", sender), received)

    def gone(self, manifest: Manifest) -> Mapping[str, int]:
        """For each actor, what it had counted on channels that a snapshot of this life no longer has."""
        now = clocks(manifest)
        ended = set(manifest.ended)
        return {actor.name: self._gone(actor.name, now.get(actor.name, {}), ended) for actor in manifest.actors}

    def add(self, manifest: Manifest) -> None:
        """Learn the channels of a snapshot."""
        self.learn((one.sender, one.receiver, one.sent, one.received) for one in manifest.channels)

    def _gone(self, actor: str, own: Mapping[_End, int], ended: set[str]) -> int:
        known = self._known.get(actor, {})
        is_late = any(count < known.get(end, 0) for end, count in own.items())
        missing = {end: count for end, count in known.items() if end not in own}
        return sum(
            count for (_, other), count in missing.items() if other in ended or (is_driver(other) and not is_late)
        )

    def _raise(self, actor: str, end: _End, count: int) -> None:
        known = self._known[actor]
        known[end] = max(count, known.get(end, 0))
