"""The relay of a node: a coordinator's call to many actors, and what they recorded, without a call of Ray for each."""

import os
import queue
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import ray

from rayshot.protocol.cut import Record
from rayshot.protocol.events import Begun, DeadlinePassed
from rayshot.protocol.identity import COORDINATOR, SnapshotId
from rayshot.protocol.participant import Participant
from rayshot.runtime import failpoints, relay
from rayshot.runtime.naming import NAMESPACE, vault_name
from rayshot.runtime.recording import Recording
from rayshot.runtime.relay import MESSAGE_BYTES_MAX, Relay, RelayEnd
from rayshot.runtime.reports import RecordBody, RecordReport, pack_report
from rayshot.runtime.wire import pack
from tests.runtime.test_runtime_messages import eventually
from tests.runtime.workloads import Account

SNAPSHOT = SnapshotId(1, COORDINATOR, 1)
NAMES = ("alice", "bob", "carol", "dave", "erin")


class Node:
    """One relay, and ends of actors; what comes to either side lies in queues."""

    def __init__(self):
        self.brought = queue.SimpleQueue()
        self.calls = queue.SimpleQueue()
        self.relay = Relay(self.brought.put)
        self.ends = {}

    def join(self, *names, take_call=None):
        for name in names:
            end = self.ends[name] = RelayEnd(name, take_call or (lambda call, name=name: self.calls.put((name, call))))
            end.connect(self.relay.address)
        eventually(lambda: self.relay._ends.keys() >= set(names))

    def call(self, *names, call=b"record"):
        return self.relay.call([(name, call) for name in names])


@pytest.fixture
def node():
    return Node()


def test_a_call_reaches_its_actors_and_their_reports_come_back(node):
    node.join("alice", "bob")
    assert node.relay.call([("alice", b"1"), ("bob", b"2")]) == []
    assert {node.calls.get(timeout=10) for _ in NAMES[:2]} == {("alice", b"1"), ("bob", b"2")}
    assert node.ends["alice"].send(b"report")
    assert node.brought.get(timeout=10) == [b"report"]


def test_reports_of_all_who_were_called_are_brought_together_at_once(node, monkeypatch):
    monkeypatch.setattr(relay, "GATHER_S", 3600.0)
    node.join(*NAMES)
    assert node.call(*NAMES) == []
    for name in NAMES:
        assert node.ends[name].send(name.encode())
    assert sorted(node.brought.get(timeout=10)) == sorted(name.encode() for name in NAMES)


def test_one_that_never_answers_holds_up_no_report_of_others(node):
    node.join("alice", "bob")
    node.call("alice", "bob")
    node.ends["alice"].send(b"report")
    assert node.brought.get(timeout=10) == [b"report"]


def test_whoever_is_not_there_or_has_gone_is_named(node, monkeypatch):
    monkeypatch.setattr(relay, "GATHER_S", 3600.0)
    node.join("alice", "bob")
    assert node.call("carol", "alice") == ["carol"]
    node.ends["alice"].send(b"report")  # nobody waits for carol
    assert node.brought.get(timeout=10) == [b"report"]
    node.ends["bob"]._socket.shutdown(socket.SHUT_RDWR)  # as of a process that was killed
    eventually(lambda: node.call("alice", "bob") == ["bob"])
    assert not node.ends["bob"].send(b"report")


def test_an_end_that_lost_its_relay_goes_to_the_next_one(node):
    node.join("alice")
    gone = node.ends["alice"]._socket
    gone.shutdown(socket.SHUT_RDWR)
    eventually(lambda: gone.fileno() == -1 and not node.relay._ends)
    node.ends["alice"].connect(node.relay.address)
    eventually(lambda: node.call("alice") == [])
    after = Node()
    node.ends["alice"].connect(after.relay.address)
    eventually(lambda: after.call("alice") == [])


def test_what_is_too_large_for_the_relay_is_left_to_ray(node):
    node.join("alice")
    assert not node.ends["alice"].send(bytes(MESSAGE_BYTES_MAX + 1))
    assert node.ends["alice"].send(bytes(MESSAGE_BYTES_MAX))
    assert node.brought.get(timeout=10) == [bytes(MESSAGE_BYTES_MAX)]
    assert node.call("alice", call=bytes(MESSAGE_BYTES_MAX + 1)) == ["alice"]


def test_an_actor_that_takes_no_calls_holds_nobody(node):
    go_on = threading.Event()
    node.join("alice", take_call=lambda _: go_on.wait())
    eventually(lambda: node.call("alice", call=bytes(MESSAGE_BYTES_MAX // 2)) == ["alice"])
    go_on.set()


def test_an_actor_whose_call_failed_is_not_there_any_more(node):
    node.join("alice", take_call=lambda _: 1 / 0)
    node.call("alice")
    eventually(lambda: node.call("alice") == ["alice"])


def test_without_a_relay_nothing_is_sent():
    end = RelayEnd("alice", print)
    for address in ("", "rayshot-nobody"):
        end.connect(address)
        assert not end.send(b"report")


def test_nobody_talks_with_another_user(node, monkeypatch):
    node.join("alice")
    user = os.geteuid()
    monkeypatch.setattr(relay.os, "geteuid", lambda: user + 1)
    end = RelayEnd("bob", print)
    end.connect(node.relay.address)
    assert not end.send(b"report")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
        stranger.settimeout(10)
        stranger.connect(f"\0{node.relay.address}")
        assert stranger.recv(1) == b""
    assert node.call("bob") == ["bob"]


@pytest.fixture
def process():
    """As much of an actor's process as handing over its report needs; its snapshot is open."""
    lock = threading.Lock()
    process = SimpleNamespace(
        name="alice",
        lock=lock,
        wake=threading.Condition(lock),
        participant=Participant("alice"),
        identity=SimpleNamespace(recorder_timeout_s=60.0, coordinator=Mock()),
        captures={},
        channels={},
        down=None,
        hurry=Mock(),
    )
    process.recording = Recording(process, Mock(RelayEnd))
    process.participant.handle(Begun(SNAPSHOT))
    process.recording.learned(SNAPSHOT)
    return process


REPORT = RecordReport(Record(SNAPSHOT, "alice"), 0.0, RecordBody("alice", None, None, {}, {}, None))


@pytest.mark.parametrize("called_first", [True, False], ids=["before it recorded", "after a marker made it record"])
def test_a_report_goes_over_the_relay_that_brought_the_call_and_stays_until_the_end(process, called_first):
    steps = [lambda: process.recording.carry(SNAPSHOT), lambda: process.recording._hand_over(REPORT)]
    for step in steps if called_first else reversed(steps):
        step()
    process.recording.relay.send.assert_called_once_with(pack(pack_report(REPORT)))
    process.hurry.done.assert_called_with(SNAPSHOT)
    assert process.recording.fetch(SNAPSHOT) == pack_report(REPORT)


def test_a_report_that_the_relay_does_not_take_is_brought_over_ray(process):
    process.recording.relay.send.return_value = False
    process.recording.carry(SNAPSHOT)
    process.recording._hand_over(REPORT)
    process.identity.coordinator.report.remote.assert_called_once_with(*pack_report(REPORT))
    assert not process.recording._given


def test_a_call_for_a_snapshot_that_ended_leaves_nothing_behind(process):
    with process.lock:
        for effect in process.participant.handle(DeadlinePassed(SNAPSHOT)):
            process.recording.carry_out(effect)
    process.hurry.reset_mock()
    process.recording.carry(SNAPSHOT)
    process.hurry.done.assert_called_once_with(SNAPSHOT)
    assert not process.recording._carried


def vault_of(system):
    node = ray.get_runtime_context().get_node_id()
    return ray.get_actor(vault_name(system.name, 1, node), namespace=NAMESPACE)


def process_of(actor):
    return ray.get(actor.__ray_call__.options(max_task_retries=-1).remote(lambda _: os.getpid()))


def test_what_a_dead_relay_had_gathered_is_called_for_and_the_snapshot_goes_on(system, tmp_path):
    accounts = [Account.options(name=name).remote(1) for name in NAMES]
    ray.get([account.read.remote() for account in accounts])
    system.snapshot()  # they find the relay
    vault = vault_of(system)
    eventually(lambda: ray.get(vault.__ray_call__.remote(lambda self: sorted(self._relay._ends))) == sorted(NAMES))
    ray.get(vault.__ray_call__.remote(lambda _: failpoints._table.update(relay_gathered=1)))
    before = process_of(vault)
    accounts[0].pause_until.tell(str(tmp_path / "go on"))
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(system.snapshot)
        eventually(lambda: process_of(vault) != before, 60)
        (tmp_path / "go on").touch()
        snapshot = waiting.result(60)
    snapshot.verify()
    assert sorted(snapshot.states()) == sorted(NAMES)
    assert system.snapshot().states() == snapshot.states()


def test_a_vault_that_was_killed_between_two_snapshots_costs_none(system):
    accounts = [Account.options(name=name).remote(1) for name in NAMES]
    ray.get([account.read.remote() for account in accounts])
    system.snapshot()
    vault = vault_of(system)
    before = process_of(vault)
    os.kill(before, signal.SIGKILL)
    eventually(lambda: process_of(vault) != before, 60)
    for _ in range(2):  # over Ray, and over the new relay
        assert sorted(system.snapshot().states()) == sorted(NAMES)
    eventually(lambda: ray.get(vault.__ray_call__.remote(lambda self: sorted(self._relay._ends))) == sorted(NAMES))
