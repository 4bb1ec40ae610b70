"""Metrics, which Ray exports."""

from collections.abc import Mapping, Sequence
from typing import Any

import ray

from rayshot.runtime.door import here


def make_metric(kind: str, name: str, about: str, labels: Sequence[str], **more: Any) -> Any:
    """A metric; `kind` is the name of its class in `ray.util.metrics`, and `more` are further arguments of it."""
    from ray.util import metrics  # noqa: PLC0415 - only a coordinator needs it

    return getattr(metrics, kind)(name, about, tag_keys=tuple(labels), **more)


def takes_metrics(node: Mapping[str, Any]) -> bool:
    """Whether Ray exports metrics on a node of `ray.nodes()`: without the packages of `ray[default]` it drops them.

    The port on which they are exported says nothing: if `ray start` was given a port, it is always set.
    """
    return bool(node["MetricsAgentPort"] > 0)


def takes_metrics_here() -> bool:
    """Whether Ray exports metrics on the node of this process."""
    own = here.node()
    return any(node["NodeID"] == own and takes_metrics(node) for node in ray.nodes())
