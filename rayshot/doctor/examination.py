"""Looks at a cluster, with a task on each of its nodes."""

import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rayshot.doctor.findings import ClusterFacts
from rayshot.doctor.node import PROBE, NodeFacts, examine
from rayshot.errors import ConfigError, Damaged, EncryptionKeyNeeded, NotFound, StoreError
from rayshot.places.kinds import open_store
from rayshot.places.store import PROBE_PREFIX, Store
from rayshot.runtime.door.metrics import takes_metrics
from rayshot.runtime.door.naming import running_systems
from rayshot.snapshots.catalog import Storage

ANSWER_S = 60.0
"""A node that has never run a task of this environment starts a worker first."""
HEAD = "node:__internal_head__"
"""The resource that only the head has."""


def examine_cluster(address: str, storage: str | None, tell: Callable[[str], None]) -> ClusterFacts:
    """Look at the cluster to which this process is connected, and at `storage`; `tell` is given what goes on now."""
    nodes = {_name(node): node for node in ray.nodes() if node["Alive"]}
    key = f"{PROBE_PREFIX}{uuid.uuid4().hex}"
    own = {name: f"{PROBE_PREFIX}{uuid.uuid4().hex}" for name in nodes}
    store, storage_error = None, ""
    if storage is not None:
        tell(f"trying {storage}")
        try:
            store = open_store(storage)
            store.check()
            store.create(key, PROBE)
        except (ConfigError, StoreError) as error:
            storage_error = error.message
    sound = store.url if store is not None and not storage_error else None
    try:
        tell(f"looking at {', '.join(nodes)}")
        answers, silent = _ask(nodes, sound, key, own)
        if store is not None and sound is not None:
            answers = {name: _written(store, own[name], facts) for name, facts in answers.items()}
    finally:
        if store is not None:
            _remove(store, key, *own.values())
    return ClusterFacts(
        address,
        examine(None, "", ""),
        answers,
        silent,
        {name: int(node["Resources"].get("object_store_memory", 0)) for name, node in nodes.items()},
        {name: takes_metrics(node) for name, node in nodes.items()},
        tuple(running_systems()),
        bool(answers) and all(facts.asks_for_token for facts in answers.values()),
        storage,
        storage_error,
        storage is not None and store is not None and store.url.startswith("file:"),
        None if sound is None else _state_bytes(sound),
        next((facts.stop_wait_s for name, facts in answers.items() if HEAD in nodes[name]["Resources"]), None),
    )


def _ask(
    nodes: Mapping[str, Any], storage: str | None, key: str, own: Mapping[str, str]
) -> tuple[dict[str, NodeFacts], dict[str, str]]:
    """What each node answers, and why those that do not."""
    task = ray.remote(num_cpus=0, max_retries=0)(examine)
    asked_at = time.time()
    refs = {
        name: task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote(
            storage, key, own[name]
        )
        for name, node in nodes.items()
    }
    ready, _ = ray.wait(list(refs.values()), num_returns=len(refs), timeout=ANSWER_S)
    answered_at = time.time()
    answers, silent = {}, {}
    for name, ref in refs.items():
        if ref not in ready:
            silent[name] = f"no answer within {ANSWER_S:g} s"
            continue
        try:
            answers[name] = replace(ray.get(ref), asked_at=asked_at, answered_at=answered_at)
        except ray.exceptions.RayError as error:
            silent[name] = str(error).strip().splitlines()[-1]
    return answers, silent


def _remove(store: Store, *keys: str) -> None:
    for key in keys:
        with suppress(StoreError):
            store.delete(key)


def _written(store: Store, key: str, facts: NodeFacts) -> NodeFacts:
    """What a node answered, held against what it wrote."""
    if facts.storage_error:
        return facts
    try:
        found = store.read(key)
    except StoreError as error:
        return replace(facts, storage_error=f"what it writes is not found here: {error.message}")
    return facts if found == PROBE else replace(facts, storage_error="what it writes is something else here")


def _state_bytes(storage: str) -> int | None:
    """All states of the largest latest snapshot that can be read."""
    found = []
    for system in Storage(open_store(storage)).systems.values():
        with suppress(NotFound, StoreError, Damaged, EncryptionKeyNeeded):
            found.append(int(system.latest().stats.get("state_bytes", 0)))
    return max(found, default=None)


def _name(node: Mapping[str, Any]) -> str:
    return f"{node['NodeManagerAddress']} ({node['NodeID'][:8]})"
