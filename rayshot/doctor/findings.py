"""From what was seen to what it means: one finding for each thing that a system needs, and what to do about it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from rayshot.doctor.node import NodeFacts

OK: Final = "ok"
WARN: Final = "warn"
FAIL: Final = "fail"
OPEN_FILES_MIN = 8192
SKEW_MAX_S = 2.0
STOP_WAIT_MIN_S = 30
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`what` was looked at, whether it is ok, warn or fail, what was `seen`, and `advice` where it is not ok."""

    what: str
    level: str
    seen: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What was seen of a cluster.

    `driver` is this process. `nodes` are those that answered, by a name for people, and `silent` says of the others why
    not. `object_store_bytes` and `takes_metrics` are by node; the latter is None if Ray does not say it. `systems` run
    there.

    `storage` is the address that was looked at, None where none was given. `storage_error` says why it keeps no
    promises, and is "" where it does. `storage_is_local`: it is a folder. `state_bytes` are all states of its largest
    latest snapshot, None where it has none. `token`: each node that answered asks for one. `stop_wait_s`
    is how long a job has when it is stopped, None where the head did not answer.
    """

    address: str
    driver: NodeFacts
    nodes: Mapping[str, NodeFacts]
    silent: Mapping[str, str]
    object_store_bytes: Mapping[str, int]
    takes_metrics: Mapping[str, bool | None]
    systems: tuple[str, ...]
    token: bool
    storage: str | None
    storage_error: str
    storage_is_local: bool
    state_bytes: int | None
    stop_wait_s: float | None


def judge(seen: ClusterFacts) -> list[Diagnosis]:
    """All findings, in the order in which they are to be read."""
    return [
        *_cluster(seen),
        *_versions(seen),
        *_names(seen),
        *_storage(seen),
        *_keys(seen),
        *_clocks(seen),
        *_memory(seen),
        *_limits(seen),
        *_hashes(seen),
        *_operation(seen),
    ]


def _cluster(seen: ClusterFacts) -> Iterator[Diagnosis]:
    runs = f"; {', '.join(seen.systems)} run there" if seen.systems else "; no system runs there"
    yield Diagnosis("cluster", OK, f"{seen.address}, {_nodes(len(seen.nodes) + len(seen.silent))}{runs}")
    for node, why in seen.silent.items():
        yield Diagnosis(
            "nodes", FAIL, f"{node} runs no task of this program: {why}", "install rayshot there, or look at its raylet"
        )
    if seen.token:
        yield Diagnosis("token", OK, "each node asks programs for a token")
    else:
        yield Diagnosis(
            "token",
            WARN,
            "anybody who reaches the cluster's port can run programs there and read states",
            "set RAY_AUTH_MODE=token on all nodes, or let a network policy keep others out",
        )


def _versions(seen: ClusterFacts) -> Iterator[Diagnosis]:
    for what in ("ray", "rayshot", "python"):
        own = getattr(seen.driver, what)
        others = {node: getattr(facts, what) for node, facts in seen.nodes.items() if getattr(facts, what) != own}
        if others:
            theirs = ", ".join(f"{version} on {node}" for node, version in others.items())
            yield Diagnosis(what, FAIL, f"{own} here, {theirs}", "run one image, or one environment, everywhere")
        else:
            yield Diagnosis(what, OK, f"{own} everywhere")


def _names(seen: ClusterFacts) -> Iterator[Diagnosis]:
    for lacked in seen.driver.lacks:
        yield Diagnosis(
            "missing in Ray", WARN, lacked, "install a newer Ray; `rayshot help support` says what each one lacks"
        )


def _storage(seen: ClusterFacts) -> Iterator[Diagnosis]:
    if seen.storage is None:
        yield Diagnosis("storage", WARN, "not looked at", "give --storage, or set RAYSHOT_STORAGE")
        return
    if seen.storage_error:
        yield Diagnosis("storage", FAIL, seen.storage_error, "`rayshot help storage` says what a storage must do")
        return
    bad = {node: facts.storage_error for node, facts in seen.nodes.items() if facts.storage_error}
    if bad:
        where = "; ".join(f"{node}: {why}" for node, why in bad.items())
        advice = (
            "mount the same folder on every node, or use object storage"
            if seen.storage_is_local
            else "give every node the credentials, and a way through the firewall"
        )
        yield Diagnosis("storage", FAIL, f"{seen.storage} is not there for all nodes: {where}", advice)
        return
    yield Diagnosis("storage", OK, f"{seen.storage}: keeps its promises, and is the same for all nodes")


def _keys(seen: ClusterFacts) -> Iterator[Diagnosis]:
    everybody = {"this program": seen.driver, **seen.nodes}
    broken = {node: facts.key_error for node, facts in everybody.items() if facts.key_error}
    if broken:
        where = "; ".join(f"{node}: {why}" for node, why in broken.items())
        yield Diagnosis("keys", FAIL, where, "`rayshot help security` says what a key looks like")
        return
    own = seen.driver.keys
    shown = ", ".join(own)
    missing = [node for node, facts in seen.nodes.items() if facts.keys != own]
    if not own:
        yield Diagnosis(
            "keys",
            OK if seen.storage_is_local else WARN,
            "this program has none",
            ""
            if seen.storage_is_local
            else "`rayshot keygen` makes one; without it rayshot writes nothing to a bucket",
        )
    elif missing and any(seen.nodes[node].keys for node in missing):
        yield Diagnosis(
            "keys", WARN, f"{shown} here, and others on {', '.join(missing)}", "mount the same keys on every node"
        )
    elif missing:
        yield Diagnosis(
            "keys",
            OK,
            f"{shown} here, none on {_nodes(len(missing))}: this program hands them out, in memory only",
        )
    else:
        yield Diagnosis("keys", OK, f"{shown} everywhere")


def _clocks(seen: ClusterFacts) -> Iterator[Diagnosis]:
    apart = {node: facts.skew_s for node, facts in seen.nodes.items() if abs(facts.skew_s) > SKEW_MAX_S}
    if apart:
        where = ", ".join(f"{node} by {skew_s:+.0f} s" for node, skew_s in apart.items())
        yield Diagnosis(
            "clocks", WARN, f"other than here: {where}", "run a time service, otherwise the times in logs differ"
        )
    else:
        yield Diagnosis("clocks", OK, f"less than {SKEW_MAX_S:g} s apart")


def _memory(seen: ClusterFacts) -> Iterator[Diagnosis]:
    store = sum(seen.object_store_bytes.values())
    small = [
        node
        for node, size in seen.object_store_bytes.items()
        if node in seen.nodes and (shm := seen.nodes[node].shm_bytes) is not None and shm < size
    ]
    if small:
        yield Diagnosis(
            "shared memory",
            WARN,
            f"less than the object store of {', '.join(small)}: Ray takes the disk instead, which is slow",
            "mount a larger /dev/shm (--shm-size, or an emptyDir of medium Memory)",
        )
    if seen.state_bytes is None:
        yield Diagnosis("object store", OK, f"{store / GIB:.1f} GiB in all; no snapshot to compare it with")
    elif seen.state_bytes > store:
        yield Diagnosis(
            "object store",
            FAIL,
            f"{store / GIB:.1f} GiB in all, and the states of the latest snapshot are {seen.state_bytes / GIB:.1f} GiB",
            "give Ray more (--object-store-memory): a snapshot holds all states there until they are written",
        )
    elif 2 * seen.state_bytes > store:
        yield Diagnosis(
            "object store",
            WARN,
            f"{store / GIB:.1f} GiB in all, states are {seen.state_bytes / GIB:.1f} GiB: two snapshots do not fit",
            "give Ray more (--object-store-memory), or take one snapshot at a time",
        )
    else:
        yield Diagnosis(
            "object store", OK, f"{store / GIB:.1f} GiB in all, states are {seen.state_bytes / GIB:.2f} GiB"
        )


def _limits(seen: ClusterFacts) -> Iterator[Diagnosis]:
    few = {node: facts.open_files for node, facts in seen.nodes.items() if 0 <= facts.open_files < OPEN_FILES_MIN}
    if few:
        where = ", ".join(f"{limit:,} on {node}" for node, limit in few.items())
        yield Diagnosis("open files", WARN, where, f"raise `ulimit -n` to {OPEN_FILES_MIN:,} before `ray start`")
    else:
        yield Diagnosis("open files", OK, f"{OPEN_FILES_MIN:,} or more everywhere")


def _hashes(seen: ClusterFacts) -> Iterator[Diagnosis]:
    """What a state may do with `hash()`. It is no fault that each process has its own seed: so it is in plain Ray."""
    seeds = {"this program": seen.driver.hash_seed, **{node: facts.hash_seed for node, facts in seen.nodes.items()}}
    if len({*seeds.values()}) > 1:
        where = ", ".join(f"{seed or 'none'} on {node}" for node, seed in seeds.items())
        advice = "start this program and Ray on each node with the same PYTHONHASHSEED, or none"
        yield Diagnosis("hash seed", WARN, f"PYTHONHASHSEED differs: {where}", advice)
    elif seed := seen.driver.hash_seed:
        yield Diagnosis("hash seed", OK, f"{seed} everywhere: hash() of a text is the same in all processes")
    else:
        why = "none: hash() of a text differs in each process, so no state may depend on it"
        yield Diagnosis("hash seed", OK, f"{why}; init(hash_seed=...) gives the actors of a system one")


def _operation(seen: ClusterFacts) -> Iterator[Diagnosis]:
    deaf = [node for node, takes in seen.takes_metrics.items() if takes is False]
    if deaf:
        where = "none" if len(deaf) == len(seen.takes_metrics) else f"none on {', '.join(deaf)}"
        yield Diagnosis("metrics", WARN, f"{where}: Ray drops them", "pip install 'rayshot[metrics]' on every node")
    else:
        unsaid = None in seen.takes_metrics.values()
        yield Diagnosis("metrics", OK, "this Ray does not say it" if unsaid else "Ray exports them on every node")
    if seen.stop_wait_s is None:
        yield Diagnosis("grace period", WARN, "not known: the head does not answer", "see what is said of nodes")
    elif seen.stop_wait_s < STOP_WAIT_MIN_S:
        yield Diagnosis(
            "grace period",
            WARN,
            f"`ray job stop` gives a job {seen.stop_wait_s:g} s (RAY_JOB_STOP_WAIT_TIME_S on the head)",
            "take a savepoint first, with `rayshot stop --savepoint`; or set it to what a savepoint needs",
        )
    else:
        yield Diagnosis("grace period", OK, f"`ray job stop` gives a job {seen.stop_wait_s:g} s")
    kept = {facts.control_store for facts in seen.nodes.values()} - {"memory"}
    if kept:
        yield Diagnosis("control service", OK, f"keeps its state ({', '.join(sorted(kept))}); no keys are in it")
    else:
        yield Diagnosis(
            "control service", OK, "in memory: all actors die with the head; then resume from the latest snapshot"
        )


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count:,} nodes"
