"""What is made of what was seen: for each thing a case that is ok, and those that are not."""

from dataclasses import replace

import pytest

from rayshot.doctor.findings import FAIL, OK, WARN, ClusterFacts, judge
from rayshot.doctor.node import NodeFacts

GIB = 1 << 30
NODE = NodeFacts(
    ray="2.60.0",
    lacks=(),
    rayshot="1.0",
    python="3.11.7",
    clock=1000.0,
    open_files=65536,
    shm_bytes=8 * GIB,
    keys=("k1",),
    key_error="",
    storage_error="",
    control_store="memory",
    asks_for_token=True,
    stop_wait_s=60.0,
    hash_seed="",
    asked_at=999.0,
    answered_at=1001.0,
)
FINE = ClusterFacts(
    address="10.0.0.5:6379",
    driver=NODE,
    nodes={"a": NODE, "b": NODE},
    silent={},
    object_store_bytes={"a": 4 * GIB, "b": 4 * GIB},
    takes_metrics={"a": True, "b": True},
    systems=("bank",),
    token=True,
    storage="s3://shots",
    storage_error="",
    storage_is_local=False,
    state_bytes=GIB,
    stop_wait_s=60.0,
)


_SEEDED_NODE = replace(NODE, hash_seed="0")
SEEDED = replace(FINE, driver=_SEEDED_NODE, nodes={"a": _SEEDED_NODE, "b": _SEEDED_NODE})


def with_node(**changes):
    return replace(FINE, nodes={"a": NODE, "b": replace(NODE, **changes)})


def levels(facts):
    return {one.what: one.level for one in judge(facts)}


def test_a_fine_cluster_has_nothing_to_do():
    found = judge(FINE)
    assert {one.level for one in found} == {OK}
    assert not [one for one in found if one.advice]


@pytest.mark.parametrize(
    ("facts", "what", "level", "says"),
    [
        (replace(FINE, silent={"c": "no answer"}), "nodes", FAIL, "c runs no task of this program: no answer"),
        (replace(FINE, token=False), "token", WARN, "run programs there"),
        (with_node(ray="2.61.0"), "ray", FAIL, "2.60.0 here, 2.61.0 on b"),
        (with_node(rayshot="0.9"), "rayshot", FAIL, "0.9 on b"),
        (with_node(python="3.12.1"), "python", FAIL, "3.12.1 on b"),
        (replace(FINE, storage=None), "storage", WARN, "not looked at"),
        (replace(FINE, storage_error="overwrites objects"), "storage", FAIL, "overwrites objects"),
        (with_node(storage_error="no such key"), "storage", FAIL, "not there for all nodes: b: no such key"),
        (with_node(key_error="not hexadecimal"), "keys", FAIL, "b: not hexadecimal"),
        (with_node(keys=("k2",)), "keys", WARN, "k1 here, and others on b"),
        (with_node(keys=()), "keys", OK, "none on 1 node: this program hands them out"),
        (replace(FINE, driver=replace(NODE, keys=())), "keys", WARN, "this program has none"),
        (with_node(clock=900.0), "clocks", WARN, "b by -99 s"),
        (with_node(clock=1100.0), "clocks", WARN, "b by +99 s"),
        (with_node(shm_bytes=64 << 20), "shared memory", WARN, "less than the object store of b"),
        (with_node(shm_bytes=None), "object store", OK, "8.0 GiB in all"),
        (replace(FINE, state_bytes=9 * GIB), "object store", FAIL, "are 9.0 GiB"),
        (replace(FINE, state_bytes=5 * GIB), "object store", WARN, "two snapshots do not fit"),
        (replace(FINE, state_bytes=None), "object store", OK, "no snapshot to compare it with"),
        (with_node(open_files=1024), "open files", WARN, "1,024 on b"),
        (with_node(open_files=-1), "open files", OK, "or more everywhere"),
        (replace(FINE, takes_metrics={"a": False, "b": True}), "metrics", WARN, "none on a"),
        (replace(FINE, takes_metrics={"a": None, "b": None}), "metrics", OK, "does not say it"),
        (replace(FINE, driver=replace(NODE, lacks=("no tokens",))), "missing in Ray", WARN, "no tokens"),
        (replace(FINE, stop_wait_s=3.0), "grace period", WARN, "gives a job 3 s"),
        (replace(FINE, stop_wait_s=None), "grace period", WARN, "the head does not answer"),
        (with_node(control_store="RAY_gcs_storage=rocksdb"), "control service", OK, "RAY_gcs_storage=rocksdb"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(facts, what, level, says):
    (found,) = [one for one in judge(facts) if one.what == what]
    assert (found.level, says in found.seen) == (level, True), found
    assert bool(found.advice) == (level != OK)


@pytest.mark.acceptance("S8")
@pytest.mark.parametrize(
    ("facts", "level", "says"),
    [
        (FINE, OK, "differs in each process"),
        (SEEDED, OK, "0 everywhere"),
        (with_node(hash_seed="0"), WARN, "none on this program, none on a, 0 on b"),
        (replace(SEEDED, driver=NODE), WARN, "none on this program, 0 on a, 0 on b"),
    ],
)
def test_whether_a_text_has_one_hash_everywhere_is_said(facts, level, says):
    (found,) = [one for one in judge(facts) if one.what == "hash seed"]
    assert (found.level, says in found.seen, bool(found.advice)) == (level, True, level != OK)


def test_one_fault_hides_no_other():
    facts = replace(with_node(ray="2.61.0", open_files=10), storage=None, token=False)
    assert {what for what, level in levels(facts).items() if level != OK} == {"ray", "open files", "storage", "token"}
