"""The system as a graph: which actor sends to which, and places on the page, computed here, not in the browser."""

import math
from collections.abc import Collection
from typing import Any

import networkx as nx

from rayshot.explorer.window import busiest
from rayshot.format.manifest import Manifest
from rayshot.protocol.identity import is_driver

NODES_MAX = 40
EDGES_MAX = 200
ON_A_CIRCLE_MAX = 14
"""So few nodes get places on a circle, where no edge hides behind a node."""


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
