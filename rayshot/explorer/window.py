"""The part of a large snapshot that a page shows: which actors and drivers, and which messages in flight."""

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Any

from rayshot.format.manifest import ChannelEntry, Manifest
from rayshot.format.wording import message as told
from rayshot.protocol.identity import Channel, is_driver
from rayshot.snapshots.channel_state import ChannelState

LANES_MAX = 12
MESSAGES_MAX = 100
CALL_LENGTH_MAX = 160
CHANNEL_READ_BYTES_MAX = 4 << 20
"""A page does not read a channel with more bytes in flight: a few lines of a table are not worth it."""


def busiest(manifest: Manifest, count: int, chosen: Collection[str] = ()) -> list[str]:
    """At most `count` actors and drivers: the chosen ones, or those with most messages in flight between them.

    Drivers come first, then the actors by name. Only drivers with messages in flight are taken.
    """
    beside: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for channel in manifest.channels:
        in_flight = channel.sent - channel.received
        if in_flight:
            beside[channel.sender][channel.receiver] += in_flight
            beside[channel.receiver][channel.sender] += in_flight
    names = {actor.name for actor in manifest.actors} | beside.keys()
    wanted = [name for name in chosen if name in names] or _together(names, beside, count)
    return sorted(wanted[:count], key=lambda name: (not is_driver(name), name))


def _together(names: Collection[str], beside: Mapping[str, Counter[str]], count: int) -> list[str]:
    """The busiest one, then repeatedly the one with most messages in flight from and to those already chosen."""
    total = {name: sum(beside.get(name, Counter()).values()) for name in names}
    alone = deque(sorted(names, key=lambda name: (-total[name], name)))
    found: list[str] = []
    near: Counter[str] = Counter()
    while len(found) < min(count, len(names)):
        name = min(near, key=lambda one: (-near[one], one), default=None)
        while name is None or name in found:
            name = alone.popleft()
        found.append(name)
        near.update(beside.get(name, {}))
        for known in found:
            near.pop(known, None)
    return found


def messages(
    channels: Mapping[Channel, ChannelState], wanted: Mapping[Channel, Collection[int]]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Messages in flight as rows, and notes about what could not be read.

    First come those that are `wanted`, by their numbers; then as many of others as a table has room for, a few of each
    of the fullest channels.
    """
    rows: list[dict[str, Any]] = []
    too_large: list[str] = []
    plan: dict[Channel, Collection[int]] = dict(wanted)
    full = sorted((one for one in channels.values() if one.count), key=lambda one: (-one.count, one.channel))
    left = MESSAGES_MAX - sum(map(len, wanted.values()))
    share = max(3, left // max(1, len(full)))
    for one in full:
        if left <= 0:
            break
        known = set(plan.get(one.channel, ()))
        more = list(islice((n for n in range(one.received + 1, one.sent + 1) if n not in known), min(left, share)))
        left -= len(more)
        plan[one.channel] = known | set(more)
    for channel, numbers in plan.items():
        if not numbers:
            continue
        if channels[channel].size_bytes > CHANNEL_READ_BYTES_MAX:
            too_large.append(str(channel))
        else:
            rows += _rows(channels[channel], numbers)
    return rows, too_large


def _rows(channel: ChannelState, numbers: Collection[int]) -> list[dict[str, Any]]:
    return [
        {
            "sender": channel.channel.sender,
            "receiver": channel.channel.receiver,
            "number": message.number,
            "call": told(message)[:CALL_LENGTH_MAX],
            "waits_in": "mailbox" if message.number <= channel.arrived else "outbox",
        }
        for frame in channel.frames(min(numbers), max(numbers))
        for message in channel.decode(frame)
        if message.number in numbers
    ]


def bars(channels: Sequence[ChannelEntry], chosen: Collection[str], count: int) -> list[dict[str, Any]]:
    """The counters of the fullest channels, only from and to the `chosen` ones if any: the whole cut of each."""
    between = [one for one in channels if not chosen or one.sender in chosen or one.receiver in chosen]
    full = sorted(between, key=lambda one: (one.received - one.sent, one.sender, one.receiver))
    return [
        {
            "sender": one.sender,
            "receiver": one.receiver,
            "received": one.received,
            "arrived": one.arrived,
            "sent": one.sent,
            "aligned": one.aligned,
        }
        for one in full[:count]
    ]
