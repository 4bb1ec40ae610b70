"""The relay of a node: a coordinator's call to many actors, and what they recorded, without a call of Ray for each."""

import errno
import os
import queue
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import ray

from rayshot import SnapshotConfig
from rayshot.format.pickled import Referenced
from rayshot.protocol.abort import AbortReason
from rayshot.protocol.cut import Record
from rayshot.protocol.effects import ForgetSnapshot, ReportFailure
from rayshot.protocol.events import Begun, DeadlinePassed
from rayshot.protocol.identity import COORDINATOR, SnapshotId
from rayshot.runtime import failpoints, relay
from rayshot.runtime.capture import Captured
from rayshot.runtime.intake import PATIENCE_S, RELAYED_MIN, Call, Intake
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
        self.lost = queue.SimpleQueue()

    def join(self, *names, take_call=None):
        for name in names:
            take = take_call or (lambda call, name=name: self.calls.put((name, call)))
            end = self.ends[name] = RelayEnd(name, take, lambda name=name: self.lost.put(name))
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


def test_calls_that_a_relay_had_passed_on_before_it_died_are_taken_though_it_had_read_nothing():
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind("\0rayshot-test-of-a-relay-that-dies")
    listener.listen()
    calls, lost = queue.SimpleQueue(), queue.SimpleQueue()
    go_on = threading.Event()
    end = RelayEnd("alice", lambda call: (go_on.wait(), calls.put(call)), lambda: lost.put(True))
    end.connect("rayshot-test-of-a-relay-that-dies")
    relays, _ = listener.accept()
    for call in (b"first", b"second"):
        relays.send(call)
    assert end.send(b"report")
    relays.close()  # with the name and the report unread
    listener.close()
    go_on.set()
    assert [calls.get(timeout=10), calls.get(timeout=10)] == [b"first", b"second"]
    assert lost.get(timeout=10)
    assert not end.send(b"report")


def test_a_relay_that_fails_leaves_nobody_in_doubt(node):
    node.relay._bring = lambda _: 1 / 0
    node.join("alice", "bob")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as nameless:
        nameless.settimeout(10)
        nameless.connect(f"\0{node.relay.address}")
        assert node.ends["alice"].send(b"report")
        assert {node.lost.get(timeout=10), node.lost.get(timeout=10)} == {"alice", "bob"}
        assert nameless.recv(1) == b""
    assert node.call("alice", "bob") == ["alice", "bob"]
    assert node.relay.address == ""


def test_a_node_without_such_sockets_has_no_relay(monkeypatch):
    monkeypatch.setattr(relay, "_socket", Mock(side_effect=OSError("not permitted")))
    without = Relay(print)
    assert without.address == ""
    assert without.call([("alice", b"record")]) == ["alice"]


def test_reports_are_brought_in_portions_that_lie_inside_of_a_call():
    reports = [bytes(size) for size in (1, MESSAGE_BYTES_MAX - 1, 1, MESSAGE_BYTES_MAX, 5, 6)]
    assert [len(portion) for portion in relay._portions(reports)] == [2, 1, 1, 2]
    assert [report for portion in relay._portions(reports) for report in portion] == reports


@pytest.mark.parametrize("address", ["", "rayshot-nobody"])
def test_without_a_relay_nothing_is_sent(address):
    end = RelayEnd("alice", print, print)
    end.connect(address)
    assert not end.send(b"report")


def test_an_actor_without_descriptors_or_threads_goes_over_ray(node, monkeypatch):
    end = RelayEnd("alice", print, print)
    with monkeypatch.context() as patch:
        patch.setattr(relay, "_socket", Mock(side_effect=OSError(errno.EMFILE, "too many open files")))
        end.connect(node.relay.address)
    with monkeypatch.context() as patch:
        patch.setattr(relay.threading.Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
        end.connect(node.relay.address)
    assert not end.send(b"report")
    assert node.call("alice") == ["alice"]


def test_nobody_talks_with_another_user(node, monkeypatch):
    node.join("alice")
    user = os.geteuid()
    monkeypatch.setattr(relay.os, "geteuid", lambda: user + 1)
    end = RelayEnd("bob", print, print)
    end.connect(node.relay.address)
    assert not end.send(b"report")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
        stranger.settimeout(10)
        stranger.connect(f"\0{node.relay.address}")
        assert stranger.recv(1) == b""
    assert node.call("bob") == ["bob"]


@pytest.fixture
def process(process):
    """A snapshot is open in it."""
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
    process.hurry.done.assert_called_with(SNAPSHOT)
    assert process.recording.fetch(SNAPSHOT) == (None, None)  # the coordinator has it


def test_a_report_that_was_sent_over_a_relay_which_is_lost_is_brought_over_ray_once(process):
    process.recording.carry(SNAPSHOT)
    process.recording._hand_over(REPORT)
    process.recording.relay_lost()
    process.recording.relay_lost()
    process.identity.coordinator.report.remote.assert_called_once_with(*pack_report(REPORT))
    assert process.recording.fetch(SNAPSHOT) == (None, None)


def test_a_state_with_object_refs_is_brought_over_ray(process):
    references = (Referenced(0, "alice.part", "a reference"),)
    captured = Captured("cloudpickle", (1, 0), (b"s", b""), references=references)
    report = replace(REPORT, body=replace(REPORT.body, state=captured))
    process.recording.carry(SNAPSHOT)
    process.recording._hand_over(report)
    process.recording.relay.send.assert_not_called()
    process.identity.coordinator.report.remote.assert_called_once_with(*pack_report(report))


def test_who_waits_for_a_child_or_gives_no_record_is_in_no_hurry(process):
    process.recording._children[SNAPSHOT] = Mock()
    process.recording.carry(SNAPSHOT)
    process.hurry.done.assert_called_once_with(SNAPSHOT)
    process.hurry.reset_mock()
    with process.lock:
        process.recording.carry_out(ReportFailure(SNAPSHOT, "no", AbortReason.CAPTURE_FAILED))
    process.hurry.done.assert_called_once_with(SNAPSHOT)


def forget(process):
    with process.lock:
        process.recording.carry_out(ForgetSnapshot(SNAPSHOT))


def test_the_end_of_a_snapshot_leaves_nothing_behind(process):
    process.recording.carry(SNAPSHOT)
    process.hurry.reset_mock()
    forget(process)
    process.hurry.done.assert_called_once_with(SNAPSHOT)
    assert not process.recording._carried
    process.recording.learned(SNAPSHOT)
    process.recording.carry(SNAPSHOT)
    process.recording._hand_over(REPORT)
    forget(process)
    assert not process.recording._relayed
    assert not process.recording._given


def test_a_call_over_the_relay_that_comes_after_one_over_ray_had_its_answer_changes_nothing(process):
    process.recording._hand_over(REPORT)
    assert process.recording.fetch(SNAPSHOT) == pack_report(REPORT)
    process.recording.carry(SNAPSHOT)
    process.hurry.done.assert_called_with(SNAPSHOT)
    process.recording.relay.send.assert_not_called()


def test_a_call_for_a_snapshot_that_ended_leaves_nothing_behind(process):
    with process.lock:
        for effect in process.participant.handle(DeadlinePassed(SNAPSHOT)):
            process.recording.carry_out(effect)
    process.hurry.reset_mock()
    process.recording.carry(SNAPSHOT)
    process.hurry.done.assert_called_once_with(SNAPSHOT)
    assert not process.recording._carried


class Called:
    """Answers when it is told to."""

    def __init__(self):
        self.remote = Mock(side_effect=self._call)
        self.answer = None

    def _call(self, *_):
        return SimpleNamespace(_on_completed=lambda answer: setattr(self, "answer", answer))


@pytest.fixture
def fetched(monkeypatch):
    """An intake, and to whom it goes over Ray."""
    intake = Intake(Mock(), Mock())
    names = queue.SimpleQueue()
    monkeypatch.setattr(intake, "fetch", lambda call, relay="": names.put((call.name, relay)))
    return intake, names


CALLS = [Call(name, Mock(), SNAPSHOT) for name in NAMES]


def drained(names, count):
    return sorted(names.get(timeout=10) for _ in range(count))


def test_whom_the_relay_did_not_reach_is_called_over_ray_and_told_where_it_is(fetched):
    intake, names = fetched
    vault = SimpleNamespace(call=Called())
    intake.call(vault, CALLS)
    assert names.empty()
    vault.call.answer(pack(("here", ["bob", "erin"])))
    assert drained(names, 2) == [("bob", "here"), ("erin", "here")]


def test_those_of_a_vault_that_died_are_called_over_ray(fetched):
    intake, names = fetched
    vault = SimpleNamespace(call=Called())
    intake.call(vault, CALLS)
    vault.call.answer(ray.exceptions.RayActorError())
    assert drained(names, 5) == [(name, "") for name in NAMES]


def test_those_of_a_vault_that_does_not_answer_are_called_over_ray_once(fetched):
    intake, names = fetched
    vault = SimpleNamespace(call=Called())
    intake.call(vault, CALLS)
    intake.call_late(time.monotonic())
    assert names.empty()
    intake.call_late(time.monotonic() + PATIENCE_S)
    assert drained(names, 5) == [(name, "") for name in NAMES]
    vault.call.answer(pack(("here", ["bob"])))
    intake.call_late(time.monotonic() + PATIENCE_S)
    intake.call(vault, CALLS)
    vault.call.answer(pack(("here", ["erin"])))  # taken behind the late one, by the same thread
    assert drained(names, 1) == [("erin", "here")]
    assert names.empty()


def test_few_actors_of_a_node_are_called_over_ray(fetched):
    intake, names = fetched
    intake.call(SimpleNamespace(call=Called()), CALLS[: RELAYED_MIN - 1])
    intake.call(None, CALLS)
    assert len(drained(names, RELAYED_MIN - 1 + 5)) == 8


def vault_of(system):
    node = ray.get_runtime_context().get_node_id()
    return ray.get_actor(vault_name(system.name, 1, node), namespace=NAMESPACE)


def is_back(system, before):
    """Whether another process than `before` is the vault, and the coordinator too knows of it."""

    def ask(self):
        (vault,) = self._members._vaults.values()
        return ray.get(vault.keys.remote()) is not None

    if process_of(vault_of(system)) == before:
        return False
    try:
        return ray.get(system._identity.coordinator.__ray_call__.remote(ask))
    except ray.exceptions.RayError:
        return False


def process_of(actor):
    return ray.get(actor.__ray_call__.options(max_task_retries=-1).remote(lambda _: os.getpid()))


@pytest.mark.parametrize("died_before", [False, True], ids=["the first time", "again"])
def test_what_a_dead_relay_had_gathered_is_brought_and_the_snapshot_goes_on(new_system, tmp_path, died_before):
    system = new_system(snapshot=SnapshotConfig(timeout_s=30.0))
    accounts = [Account.options(name=name).remote(1) for name in NAMES]
    ray.get([account.read.remote() for account in accounts])
    system.snapshot()  # they find the relay
    vault = vault_of(system)
    if died_before:
        before = process_of(vault)
        os.kill(before, signal.SIGKILL)
        eventually(lambda: is_back(system, before), 60)
        system.snapshot()
    eventually(lambda: ray.get(vault.__ray_call__.remote(lambda self: sorted(self._relay._ends))) == sorted(NAMES))
    ray.get(vault.__ray_call__.remote(lambda _: failpoints._table.update(relay_gathered=1)))
    before = process_of(vault)
    accounts[0].pause_until.tell(str(tmp_path / "go on"))
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(system.snapshot)
        eventually(lambda: is_back(system, before), 60)
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
    eventually(lambda: is_back(system, before), 60)
    for _ in range(2):  # over Ray, and over the new relay
        assert sorted(system.snapshot().states()) == sorted(NAMES)
    eventually(lambda: ray.get(vault.__ray_call__.remote(lambda self: sorted(self._relay._ends))) == sorted(NAMES))
