"""The part of a large snapshot that a page shows: which actors and drivers, their graph, and which messages in flight.

Places on the page are computed here, not in the browser.
"""

import math
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Any

import networkx as nx

from rayshot.documents.snapshots import counters
from rayshot.documents.words import message as told
from rayshot.format.entries import ChannelEntry
from rayshot.format.manifest import Manifest
from rayshot.protocol.identity import Channel, is_driver
from rayshot.snapshots.channel_state import ChannelState

LANES_MAX = 12
MESSAGES_MAX = 100
NODES_MAX = 40
EDGES_MAX = 200
ON_A_CIRCLE_MAX = 14
"""So few nodes get places on a circle, where no edge hides behind a node."""
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
    return [{"sender": one.sender, "receiver": one.receiver, **counters(one)} for one in full[:count]]


def system_graph(manifest: Manifest, chosen: Collection[str] = ()) -> dict[str, Any]:
    """Nodes with places from 0 to 1, and the edges between them by the nodes' indexes, the fullest last."""
    some = busiest(manifest, NODES_MAX)
    names = list(dict.fromkeys([*busiest(manifest, NODES_MAX, chosen), *some]))[:NODES_MAX]
    index = {name: place for place, name in enumerate(names)}
    between = [one for one in manifest.channels if one.sender in index and one.receiver in index]
    between.sort(key=lambda one: (one.sent - one.received, one.sent))
    shown = between[-EDGES_MAX:]
    status = {actor.name: actor.status for actor in manifest.actors}
    places = _places(names, [(one.sender, one.receiver) for one in shown])
    return {
        "nodes": [
            {"name": name, "driver": is_driver(name), "status": status.get(name), "x": x, "y": y}
            for name, (x, y) in zip(names, places, strict=True)
        ],
        "edges": [
            {
                "from": index[one.sender],
                "to": index[one.receiver],
                "sent": one.sent,
                "received": one.received,
                "in_flight": one.sent - one.received,
            }
            for one in shown
        ],
        "channel_count": len(manifest.channels),
    }


def _places(names: list[str], ends: list[tuple[str, str]]) -> list[tuple[float, float]]:
    if len(names) <= ON_A_CIRCLE_MAX:
        angles = [2 * math.pi * place / max(1, len(names)) - math.pi / 2 for place in range(len(names))]
        return [(round(0.5 + 0.5 * math.cos(a), 3), round(0.5 + 0.5 * math.sin(a), 3)) for a in angles]
    graph = nx.Graph()
    graph.add_nodes_from(names)
    graph.add_edges_from(ends)
    found = nx.spring_layout(graph, seed=1, k=3 / math.sqrt(len(names)), iterations=60, scale=0.5)
    return [(round(0.5 + float(found[name][0]), 3), round(0.5 + float(found[name][1]), 3)) for name in names]
