"""A watched actor without Ray: what it says of its messages, in which order, and what it passes over."""

import threading
from dataclasses import replace
from random import Random
from types import SimpleNamespace

import pytest

from rayshot.errors import PoisonMessage, SystemRecovering
from rayshot.format.codec import Frame
from rayshot.model.port import swap_port
from rayshot.model.specification import ActorSpecification
from rayshot.protocol.poison import Caution, MessageId
from rayshot.runtime.actor.host import Host
from rayshot.runtime.actor.incarnation import Incarnation
from rayshot.runtime.actor.mailbox import Mailbox
from rayshot.runtime.actor.process import ActorProcess
from rayshot.runtime.actor.worker import Worker
from rayshot.runtime.coordinator import poison_detection
from rayshot.runtime.coordinator.poison_detection import COMMITS, PoisonDetection
from rayshot.runtime.door import door
from rayshot.runtime.wire.packets import pack_packet
from tests.runtime.one_process import CODEC, identity_of
from tests.waiting import eventually

SENDERS = ("driver:x", "driver:y")


class Eater:
    def __init__(self):
        self.eaten = []

    def eat(self, what):
        if what == "bad":
            raise ValueError(what)
        self.eaten.append(what)
        story.append(("handles", what))

    def eat_all(self, *, whats):
        self.eat(whats)


story = []
"""What was said and handled, in order."""


class Coordinator:
    """Answers at once; `watch_ends` says behind how many messages nobody need be watched any more."""

    def __init__(self, watch_ends=10**9):
        self._left = watch_ends
        self.held = False
        for name in ("begins", "ends", "passed_over", "failed", "join"):
            setattr(self, name, SimpleNamespace(remote=getattr(self, f"_{name}")))

    def _begins(self, name, incarnation, message):
        assert (name, incarnation) == ("alice", 1)
        story.append(("begins", message))
        self._left -= 1
        return self._left >= 0

    def _ends(self, name, incarnation):
        assert (name, incarnation) == ("alice", 1)
        story.append(("ends",))

    def _passed_over(self, letter, incarnation):
        assert incarnation == 1
        story.append(("passes over", letter))

    def _failed(self, name, detail, incarnation):
        story.append(("fails", detail))

    def _join(self, *_):
        raise AssertionError("nobody joins")


@pytest.fixture
def alice(monkeypatch):
    """Makes a watched actor with a mailbox; returns its process, and what puts messages of a sender there."""
    processes, coordinators = [], []
    before = swap_port(None)

    def wait(references, timeout):
        assert 0 < timeout <= 1
        if coordinators[-1].held:
            threading.Event().wait(0.01)
            return [], references
        return references, []

    monkeypatch.setattr(door, "wait", wait)
    monkeypatch.setattr(door, "get", lambda answer: answer)
    story.clear()

    def make(caution, coordinator=None, **options):
        coordinators.append(coordinator or Coordinator())
        identity = replace(identity_of("alice", coordinators[-1]), cautions={"alice": caution})
        process = ActorProcess(identity, Host)
        process.channels.connect = lambda _channel: None
        swap_port(lambda: process)
        processes.append(process)
        host = Host.__new__(Host)
        host._incarnation = Incarnation(process, Worker(process))
        sent = dict.fromkeys(SENDERS, 0)

        def put(sender, *messages):
            host.receive(pack_packet(sender, 1, sent[sender] + 1, len(messages), b"".join(messages)))
            sent[sender] += len(messages)

        specification = ActorSpecification.of(Eater, options).pack()
        put(SENDERS[0], CODEC.create(specification, CODEC.tell("__init__", (), {})))
        host._worker.start()
        eventually(lambda: process.channels.mailbox.processed.get(SENDERS[0]) == 1)
        process.is_done = lambda: all(
            process.channels.mailbox.processed.get(sender, 0) == number for sender, number in sent.items()
        )
        return process, put, host

    yield make
    for process in processes:
        with process.runner.lock:
            process.shut(SystemRecovering("the test is over"))
    swap_port(before)


def eat(what):
    return CODEC.tell("eat", (what,))


def said():
    return [one[1] for one in story if one[0] == "begins"]


def test_it_says_each_message_before_it_handles_it_and_again_behind(alice):
    process, put, _ = alice(Caution(says=True))
    put(SENDERS[0], eat(1), eat("two"), CODEC.tell("eat_all", (), {"whats": 3}), CODEC.call(7, eat("four")))
    eventually(process.is_done)
    eventually(lambda: story[-1] == ("ends",))
    kinds = [one[0] for one in story]
    assert kinds == ["begins", "ends", *["begins", "handles", "ends"] * 4]
    assert [(one.number, one.method, one.removable) for one in said()] == [
        (1, "", False),
        *((2, "eat", True), (3, "eat", True), (4, "eat_all", True), (5, "eat", True)),
    ]
    assert len({one.digest for one in said()}) == 5


def test_when_care_is_over_it_handles_batches_as_always(alice):
    process, put, host = alice(Caution(says=True), Coordinator(watch_ends=3))
    put(SENDERS[0], *(eat(number) for number in range(100)))
    eventually(process.is_done)
    assert len(said()) == 4, "the creation, two messages, and the one at whose beginning it heard so"
    assert host._worker.poison_watch is None
    assert process.cell.instance.eaten == list(range(100))


def test_the_message_whose_failure_ends_the_life_stays_said_and_none_begins_behind_it(alice):
    process, put, _ = alice(Caution(says=True), on_error="stop")
    put(SENDERS[0], eat(1), eat("bad"), eat(3))
    eventually(lambda: story[-1][0] == "fails")
    with process.runner.lock:
        process.shut(SystemRecovering("it goes back"))
    assert story[-2][0] == "begins"
    assert said()[-1].number == 3
    assert process.cell.instance.eaten == [1]


def test_an_actor_whose_coordinator_is_silent_handles_nothing_and_stops_with_its_life(alice):
    coordinator = Coordinator()
    process, put, host = alice(Caution(says=True), coordinator)
    eventually(lambda: story == [("begins", said()[0]), ("ends",)])
    coordinator.held = True
    put(SENDERS[0], eat(1))
    eventually(lambda: len(said()) == 2)
    with process.runner.lock:
        process.shut(SystemRecovering("it goes back"))
    assert host._worker.join(5)
    assert process.cell.instance.eaten == []
    assert process.channels.mailbox.received() == {SENDERS[0]: 1}


def test_a_caller_of_what_it_passes_over_gets_an_error(alice):
    process, put, _ = alice(Caution(says=True))
    put(SENDERS[0], CODEC.call(7, eat("four")))
    eventually(process.is_done)
    letter = said()[-1]
    process, put, _ = alice(Caution(says=False, letters=(letter,)))
    put(SENDERS[0], CODEC.call(7, eat("four")))
    eventually(process.is_done)
    outcome = process.outcomes._kept[SENDERS[0], 7].value
    assert isinstance(outcome.cause, PoisonMessage)
    assert process.cell.instance.eaten == []


def test_what_a_dead_driver_has_not_brought_is_awaited_no_longer(alice):
    gone = (MessageId(SENDERS[1], 2, b""), MessageId(SENDERS[1], 9, b""))
    process, put, host = alice(Caution(says=False, letters=gone))
    put(SENDERS[1], eat(1), eat(2))
    eventually(process.is_done)
    assert list(host._worker.poison_watch._letters) == [(SENDERS[1], 9)]
    with process.runner.lock:
        process.dead_drivers.close(SENDERS[1])
    put(SENDERS[0], eat(3))
    eventually(lambda: host._worker.poison_watch is None)
    assert process.cell.instance.eaten == [1, 2, 3]


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.parametrize("says", [True, False])
def test_at_random_it_passes_over_its_letters_and_over_nothing_else(alice, says):
    for seed in range(60):
        random = Random(seed)
        told = [(random.choice(SENDERS), f"{seed} {number}") for number in range(random.randint(1, 40))]
        story.clear()
        process, put, _ = alice(Caution(says=True))
        for sender, what in told:
            put(sender, eat(what))
        eventually(process.is_done)
        known = [one for one in said() if one.removable]
        letters = random.sample(known, min(len(known), random.randint(0, 4)))
        others = [replace(one, digest=b"of another message") for one in random.sample(known, len(known) // 2)]
        others = [one for one in others if not any((one.sender, one.number) == (x.sender, x.number) for x in letters)]
        story.clear()
        cautions = Caution(says, tuple(letters + others))
        process, put, host = alice(cautions, Coordinator(random.randint(1, 30)))
        again = list(told)
        while again:
            sender = again[0][0]
            count = random.randint(1, len(again))
            batch = [what for of, what in again[:count] if of == sender]
            put(sender, *map(eat, batch))
            rest = [one for one in again[:count] if one[0] != sender]
            again = rest + again[count:]
        eventually(process.is_done)
        out = {(one.sender, one.number) for one in letters}
        numbers = dict.fromkeys(SENDERS, 0) | {SENDERS[0]: 1}
        expected = {sender: [] for sender in SENDERS}
        for sender, what in told:
            numbers[sender] += 1
            if (sender, numbers[sender]) not in out:
                expected[sender].append(what)
        by = {what: sender for sender, what in told}
        eaten = process.cell.instance.eaten
        assert {sender: [what for what in eaten if by[what] == sender] for sender in SENDERS} == expected
        passed = [(one[1].sender, one[1].number) for one in story if one[0] == "passes over"]
        assert sorted(passed) == sorted(out)
        assert says or host._worker.poison_watch is None, "nothing is left to pass over"


# Parts --------------------------------------------------------------------------------------------------------------


def test_of_a_delivery_only_one_message_is_handled_and_the_others_wait_before_all_others():
    mailbox = Mailbox()
    mailbox.put("x", Frame(1, 3, eat(1) + eat(2) + eat(3)))
    mailbox.put("y", Frame(1, 1, eat(4)))
    taken = []
    while mailbox:
        mailbox.take({})
        one = mailbox.cut_to_one()
        assert mailbox.current is one
        taken.append((one.sender, one.frame.first, one.frame.count))
        mailbox.position = one.frame.last
        mailbox.finish()
    assert taken == [("x", 1, 1), ("x", 2, 1), ("x", 3, 1), ("y", 1, 1)]
    assert mailbox.processed == {"x": 3, "y": 1}


def test_the_coordinator_ends_the_care_of_a_life_with_its_second_snapshot_or_after_a_while(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(poison_detection, "time", SimpleNamespace(monotonic=lambda: now[0]))
    message = MessageId("driver:x", 7, b"digest")

    def watched():
        found = PoisonDetection()
        found.cautions = {"alice": Caution(says=True), "bob": Caution(says=False)}
        found.resumed()
        assert found.begins("alice", message)
        assert found.handled_by("alice") == message
        return found

    one = watched()
    assert not one.begins("bob", message)
    assert not one.begins("carol", message)
    one.ends("alice")
    assert one.handled_by("alice") is None
    for commits in range(1, COMMITS + 1):
        one.committed()
        assert one.begins("alice", message) == (commits < COMMITS)
    assert one.handled_by("alice") is None, "who is not watched any more names nothing"
    two = watched()
    now[0] += poison_detection.WATCHED_S
    assert not two.begins("alice", message)
