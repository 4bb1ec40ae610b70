"""Metrics, which Ray exports."""

from collections.abc import Mapping, Sequence
from typing import Any

import ray

from rayshot.runtime.door import here
from rayshot.runtime.door.private_names import METRICS_PORT


def make_metric(kind: str, name: str, about: str, labels: Sequence[str], **more: Any) -> Any:
    """A metric; `kind` is the name of its class in `ray.util.metrics`, and `more` are further arguments of it."""
    from ray.util import metrics  # noqa: PLC0415 - only a coordinator needs it

    return getattr(metrics, kind)(name, about, tag_keys=tuple(labels), **more)


def takes_metrics(node: Mapping[str, Any]) -> bool | None:
    """Whether Ray exports metrics on a node of `ray.nodes()`: without the packages of `ray[default]` it drops them.

    None if this release of Ray does not say it. The port on which they are exported says nothing: if `ray start` was
    given a port, it is always set.
    """
    port = node.get(METRICS_PORT)
    return None if port is None else bool(port > 0)


def takes_metrics_here() -> bool:
    """Whether Ray exports metrics on the node of this process; a Ray that does not say it gets them in any case."""
    own = here.node()
    return any(node["NodeID"] == own and takes_metrics(node) is not False for node in ray.nodes())
