"""Attaching by name: to systems that run, over real heads that are there, dead, deaf, or want another token."""

import json
import os
import re
import socket
import sys
import threading
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import pytest
import ray
from ray._raylet import InnerGcsClient

import rayshot
from rayshot.errors import (
    ClusterRefused,
    ClusterUnreachable,
    ConfigError,
    NotReady,
    RayshotError,
    SystemNotFound,
    SystemStopped,
)
from rayshot.runtime.door.cluster import connected_to
from rayshot.runtime.door.private_names import AuthenticationError
from rayshot.runtime.opening.attach import naming
from tests.certificates import make_certificates
from tests.pods import Pod, free_port
from tests.runtime.conftest import shut_down, systems_of_this_program
from tests.runtime.healed import STOPS
from tests.runtime.workloads import Account

pytestmark = pytest.mark.ray
ATTACHER = Path(__file__).with_name("attacher.py")
LEAVER = Path(__file__).with_name("leaver.py")
TOKEN = "the-token-of-this-cluster-alone"


@pytest.fixture(scope="module")
def pods():
    """A head that asks for nothing, and one that asks for a token."""
    started = [Pod(), Pod(TOKEN)]
    try:
        yield [pod.wait() for pod in started]
    finally:
        for pod in started:
            pod.end()


@pytest.fixture
def deaf():
    """A port where somebody listens who never says anything."""
    with socket.create_server(("", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.fixture
def web():
    """A port where somebody speaks something else."""
    server = HTTPServer(("", 0), SimpleHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()


def attempts(pod, *asked, before=(), **variables):
    """How it goes to attach to each of these; nothing of it may reach a terminal but what the program prints."""
    command = [*before, sys.executable, str(ATTACHER)]
    done = pod.run(
        "-c",
        f"import subprocess, sys; sys.exit(subprocess.run({command!r}).returncode)",
        stdin="".join(f"{json.dumps(one)}\n" for one in asked),
        **variables,
    )
    assert (done.returncode, done.stderr) == (0, "")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert all("\n" not in answer["message"] for answer in answers if "message" in answer)
    return [(answer.get("kind"), answer.get("message") or answer["state"]) for answer in answers]


def refused(pod, asked, **variables):
    ((kind, message),) = attempts(pod, asked, **variables)
    return kind, message


@pytest.mark.wide("slow")
def test_what_is_no_cluster_is_said_in_one_line(pods, deaf, web):
    raylet = next(iter(ray_nodes(pods[0]))).node_manager_port
    dead = free_port()
    addresses = [f"127.0.0.1:{port}" for port in (dead, deaf, web, raylet)]
    asked = [*addresses, "ray://127.0.0.1:10001", "http://127.0.0.1:8265", "here", "127.0.0.1:99999", "local"]
    found = attempts(pods[0], *({"address": one} for one in asked))
    for (kind, message), (expected, words) in zip(
        found,
        [
            ("cluster_unreachable", rf"no Ray cluster runs at \S+:{dead} \(Connection refused\): start it, or give"),
            ("cluster_unreachable", rf"no Ray cluster answers at \S+:{deaf} within 3 s"),
            ("cluster_unreachable", rf"what answers at \S+:{web} is not a Ray head: its port is that of `ray start"),
            ("cluster_unreachable", rf"what answers at \S+:{raylet} is not a Ray head"),
            ("cluster_refused", "ray://127.0.0.1:10001 is Ray Client, .* set RAY_ADDRESS to host:port"),
            ("config_error", "'http://127.0.0.1:8265' is the address of a dashboard, for `ray job submit`, not"),
            ("config_error", "'here' is not the address of a Ray head: give"),
            ("config_error", "'127.0.0.1:99999' is not the address"),
            ("config_error", "'local' is not the address"),
        ],
        strict=True,
    ):
        assert (kind, bool(re.search(words, message))) == (expected, True), message


@pytest.mark.wide("slow")
def test_a_wrong_token_and_none_say_what_to_set(pods):
    asked, mode = {"address": pods[1].address}, {"RAY_AUTH_MODE": "token"}
    wrong = refused(pods[1], asked, **mode, RAY_AUTH_TOKEN="of-another-cluster")
    assert wrong[0] == "cluster_refused"
    assert "refuses this program's token: set RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH to the cluster's own" in wrong[1]
    none = refused(pods[1], asked, RAY_AUTH_MODE="disabled")
    assert none[0] == "cluster_refused"
    assert "this program shows none: set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or" in none[1]
    elsewhere = {"HOME": "/nonexistent", "RAY_AUTH_TOKEN": ""}
    for missing in ({}, {"RAY_AUTH_TOKEN_PATH": "/nonexistent/token"}):
        kind, message = refused(pods[1], asked, **mode, **elsewhere, **missing)
        assert kind == "cluster_refused"
        assert "finds none that can be read: set RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH to the cluster's own" in message
    right = refused(pods[1], asked)
    assert right[0] == "system_not_found"
    assert TOKEN not in "".join(f"{wrong}{none}{right}")


@pytest.mark.wide("slow")
def test_a_program_that_would_begin_a_system_is_told_at_once_how_to_get_the_token(pods, tmp_path):
    program = f"""
import rayshot
try:
    rayshot.init('bank', storage={str(tmp_path / "shots")!r})
except rayshot.errors.ClusterRefused as error:
    print(error)
"""

    def said(**variables):
        done = pods[1].run("-c", f"import rayshot.errors\n{program}", **variables)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    ours = "RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH to the cluster's own, which `ray get-auth-token` prints on its head"
    asked = {"RAY_AUTH_MODE": "token"}
    for joined in ({}, {"RAY_ADDRESS": pods[1].address}):  # {}: Ray finds it by itself
        wrong = said(**asked, RAY_AUTH_TOKEN="of-another-cluster", **joined)
        assert f"refuses this program's token: set {ours}" in wrong
        assert f"shows none: set RAY_AUTH_MODE=token, and {ours}" in said(RAY_AUTH_MODE="disabled", **joined)
    nowhere = {"RAY_AUTH_TOKEN": "", "RAY_AUTH_TOKEN_PATH": "/nonexistent/token", "RAY_TMPDIR": str(tmp_path)}
    own = said(**asked, **nowhere)
    assert own.startswith("RAY_AUTH_MODE=token asks for a token, and this program finds none that can be read")


def test_a_program_with_tls_is_told_that_the_cluster_has_none(pods, tmp_path):
    certificates = make_certificates(tmp_path / "certificates")
    kind, message = refused(pods[0], {"address": pods[0].address}, **certificates)
    assert kind == "cluster_refused"
    assert re.match(rf"what runs at \S+:{pods[0].port} speaks no TLS: set RAY_USE_TLS=0", message)


def test_one_of_several_local_clusters_is_never_chosen(pods):
    for asked in ({}, {"address": "auto"}, {"name": "bank"}):
        kind, message = refused(pods[0], asked)
        assert kind == "config_error"
        assert "Ray clusters run on this machine, at " in message
        assert [pod.port for pod in pods if f":{pod.port}" not in message] == [], message


def test_a_cluster_that_answers_late_counts_so_that_no_other_one_is_chosen(pods, deaf, tmp_path):
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text(f"127.0.0.1:{deaf}")
    kind, message = refused(pods[0], {}, RAY_TMPDIR=str(tmp_path))
    assert (kind, f":{deaf}" in message) == ("config_error", True), message


def test_where_no_cluster_runs_none_is_started(pods, tmp_path):
    alone = ["unshare", "-pf", "--mount-proc", "--kill-child"]  # it sees no other processes
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text(f"127.0.0.1:{free_port()}")  # of one that is gone
    with_none = refused(pods[0], {}, before=alone, RAY_TMPDIR=str(tmp_path))
    assert with_none[0] == "cluster_unreachable"
    assert "no Ray cluster runs on this machine: give the address" in with_none[1]
    elsewhere = refused(pods[0], {"address": pods[0].address}, before=alone)
    assert elsewhere[0] == "cluster_unreachable"
    assert "no node of the Ray cluster at" in elsewhere[1]


def test_a_cluster_of_another_version_is_refused_by_both_versions(pods):
    client = InnerGcsClient.standalone(pods[0].address, cluster_id=None, timeout_ms=3000)
    key, space = b"CLUSTER_METADATA", b"cluster"
    own = client.internal_kv_get(key, space, 3.0)
    try:
        for theirs in ({"ray_version": "2.59.0"}, {"python_version": "3.12.1"}):
            other = json.loads(own) | theirs
            client.internal_kv_put(key, json.dumps(other).encode(), True, space, 3.0)
            kind, message = refused(pods[0], {"address": pods[0].address})
            assert kind == "cluster_refused"
            assert f"runs Ray {other['ray_version']} on Python {other['python_version']}, this program Ray" in message
    finally:
        client.internal_kv_put(key, own, True, space, 3.0)


@pytest.mark.wide("slow")
def test_a_program_that_leaves_the_cluster_and_joins_another_is_told_so_and_comes_back(pods, tmp_path):
    done = pods[0].run(str(LEAVER), str(tmp_path / "shots"), RAY_ADDRESS=pods[0].address)
    assert (done.returncode, done.stderr) == (0, "")
    before, told, status, made, ended, back, attached = json.loads(done.stdout)
    assert told.startswith("system 'savings' does not run in this cluster: restore it")
    assert status.startswith("this program was a driver of system 'savings' until it called ray.shutdown(). Attach")
    assert made.startswith("this process belongs to no rayshot system")
    assert (before, ended, back, attached) == ("101", "None", "102", "103")


def test_a_head_that_was_killed_is_gone(pods, tmp_path):  # the last one that needs it
    pods[0].kill()
    kind, message = refused(pods[0], {"name": "bank"}, RAY_ADDRESS=pods[0].address)
    assert kind == "cluster_unreachable"
    assert re.search(rf"no Ray cluster runs at \S+:{pods[0].port} \(Connection refused\): .* set RAY_ADDRESS", message)
    program = f"import rayshot; rayshot.init('bank', storage={str(tmp_path)!r})"
    begun = pods[0].run("-c", program, RAY_ADDRESS=pods[0].address)
    assert "rayshot.errors.ClusterUnreachable: no Ray cluster runs at" in begun.stderr


@pytest.mark.wide("slow")
def test_a_head_that_was_replaced_at_its_address_is_gone_for_whoever_knew_the_one_before():
    heads = [Pod().wait()]
    attacher = heads[0].open(str(ATTACHER), RAY_ADDRESS=heads[0].address)
    try:
        for kind in ("system_not_found", "cluster_unreachable"):
            print(json.dumps({"name": "bank"}), file=attacher.stdin, flush=True)
            answer = json.loads(attacher.stdout.readline())
            assert answer["kind"] == kind, answer
            if kind == "system_not_found":
                heads[0].kill()
                heads.append(Pod(port=heads[0].port).wait())
        assert "is gone: call ray.shutdown(), and try again" in answer["message"]
    finally:
        attacher.communicate(timeout=60)
        for head in heads:
            head.end()


def ray_nodes(pod):
    client = InnerGcsClient.standalone(pod.address, cluster_id=None, timeout_ms=3000)
    return client.get_all_node_info(3).values()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ray.exceptions.ActorUnavailableError("it restarts", None), NotReady),
        (ray.exceptions.ActorDiedError(), SystemStopped),
        (AuthenticationError("another token"), ClusterUnreachable),
    ],
)
def test_what_ray_raises_where_something_has_gone_is_ours_and_names_the_cluster(error, expected):
    with pytest.raises(RayshotError, match=r"10\.0\.0\.5:6379") as raised, naming("10.0.0.5:6379"):
        raise error
    assert type(raised.value) is expected


# In a cluster --------------------------------------------------------------------------------------------------------


def test_attaching_needs_a_name_and_nothing_else(new_system):
    system = new_system("bank")
    Account.options(name="alice").remote(7)
    attached = rayshot.attach("bank")
    assert (attached.incarnation, attached.storage) == (system.incarnation, system.storage)
    assert ray.get(attached.get_actor("alice").read.remote()) == 7
    assert rayshot.attach().name == "bank"
    assert rayshot.attach("bank", address=connected_to()).name == "bank"


def test_a_name_that_is_missing_or_ambiguous_lists_what_runs_and_where(new_system):
    with pytest.raises(SystemNotFound, match=f"^no system runs in the Ray cluster at {connected_to()}"):
        rayshot.attach()
    new_system("bank")
    with pytest.raises(
        SystemNotFound, match=f"no system 'bnak' runs in the Ray cluster at {connected_to()}; there run bank"
    ):
        rayshot.attach("bnak")
    new_system("shop")
    with pytest.raises(ConfigError, match=rf"at {connected_to()}: bank \(running\), shop \(running\). Name one"):
        rayshot.attach()
    with pytest.raises(ConfigError, match="cannot name a system"):
        rayshot.attach("ba nk")
    with pytest.raises(ConfigError, match=f"is connected to the Ray cluster at {connected_to()}, not to 10.0.0.5:6379"):
        rayshot.attach("bank", address="10.0.0.5:6379")


def test_the_only_system_that_lives_is_meant_where_another_one_is_stopped(new_system):
    stopped = new_system("shop", failure=STOPS)
    ray.get(Account.options(name="alice").remote(7).read.remote())
    os.kill(stopped.status().actors["alice"].pid, 9)
    new_system("bank")
    while stopped.status().state != "stopped":
        pass
    assert rayshot.attach().name == "bank"


def test_another_version_of_rayshot_is_refused_by_both_versions(new_system, monkeypatch):
    new_system("bank")
    monkeypatch.setattr(rayshot, "__version__", "0.9.7")
    with pytest.raises(
        ClusterRefused, match=r"runs with rayshot \d+\.\d+\.\d+, and this is rayshot 0.9.7: install the"
    ):
        rayshot.attach("bank")


def test_a_system_that_a_test_leaves_is_shut_down_behind_it_and_the_next_one_is_the_only_one(
    cluster, tmp_path, new_system
):
    before = systems_of_this_program()
    rayshot.init("left", storage=tmp_path)
    shut_down(systems_of_this_program() - before)
    new_system("bank")
    assert ray.get(Account.remote(7).read.remote()) == 7
