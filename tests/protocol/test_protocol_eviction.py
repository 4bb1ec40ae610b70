"""Drivers that evict what no snapshot holds, and a system that then goes back to no cut without it."""

import random
from collections import Counter, deque

import pytest

from rayshot.protocol.driver import Driver
from rayshot.protocol.driver_events import (
    AnswerArrived,
    CutCommitted,
    EvictionOffer,
    OfferTaken,
    ReleaseMessages,
    SendTagged,
    SystemRolledBack,
)
from rayshot.protocol.events import BatchAcknowledged, BatchTaken, ReceiverEnded
from rayshot.protocol.identity import SnapshotId
from rayshot.protocol.recovery import Phase, Recovery
from rayshot.protocol.recovery_events import (
    BeginLife,
    CommitWritten,
    DriverLost,
    Evicted,
    LifeBegan,
    LifeMarked,
    LoadProcess,
    NoRollback,
    Past,
    Pause,
    PauseOver,
    ProcessLoaded,
    ProcessLost,
    RecoveryPolicy,
    StopSystem,
    TookOver,
)
from tests.protocol.running import running

LOST = ProcessLost(1, "bob", 1, "bob died", 1000.0)


def orders(machine, event=LOST):
    """What the machine demands of the snapshot when a process is lost."""
    (order,) = [effect for effect in machine.handle(event) if isinstance(effect, BeginLife)]
    return order.needs


# The machine of recovery ---------------------------------------------------------------------------------------


def test_a_life_goes_on_only_from_a_cut_that_holds_what_drivers_evicted():
    machine, gone = running(1), Evicted(1, "driver:1", {"p": 3}, {"p": 2})
    machine.handle(gone)
    assert orders(machine) == (gone,)
    assert machine.handle(NoRollback("it lacks what driver:1 evicted")) == (
        StopSystem(None, "it lacks what driver:1 evicted"),
    )


def test_a_cut_holds_it_by_its_numbers_or_when_the_receiver_has_ended():
    gone = Evicted(1, "driver:1", {"p": 3, "q": 1}, {"p": 2})
    assert gone.is_held({"p": 3, "q": 1}, {"p": 2, "q": 0}, ())
    assert not gone.is_held({"p": 3}, {"p": 2}, ())
    assert not gone.is_held({"p": 3, "q": 1}, {"p": 1}, ())
    assert gone.is_held({"q": 1}, {}, {"p"})


def test_what_a_driver_evicts_adds_up():
    machine = running(1)
    machine.handle(Evicted(1, "driver:1", {"p": 3}, {"p": 2}))
    machine.handle(Evicted(1, "driver:2", {"p": 9}))
    machine.handle(Evicted(1, "driver:1", {"q": 4, "p": 2}, {"p": 5}))
    assert orders(machine) == (Evicted(1, "driver:1", {"p": 3, "q": 4}, {"p": 5}), Evicted(1, "driver:2", {"p": 9}, {}))


def test_a_commit_that_holds_it_ends_the_demand_and_no_other_commit_does():
    machine = running(1)
    machine.handle(Evicted(1, "driver:1", {"p": 3}))
    machine.handle(Evicted(1, "driver:2", {"p": 3}))
    machine.handle(CommitWritten(1))
    machine.handle(CommitWritten(1, frozenset({"driver:2"})))
    assert [gone.driver for gone in orders(machine)] == ["driver:1"]


def test_nobody_tells_again_for_a_driver_that_died_so_what_it_evicted_is_no_demand():
    machine = running(1)
    machine.handle(Evicted(1, "driver:1", {"p": 3}))
    machine.handle(DriverLost("driver:1"))
    assert orders(machine) == ()


def test_the_next_life_begins_without_demands():
    machine = running(1, RecoveryPolicy(pause_s=0))
    machine.handle(Evicted(1, "driver:1", {"p": 3}))
    machine.handle(LOST)
    machine.handle(LifeBegan(2, ("bob",), Past().rolled_back(1000.0, "bob")))
    machine.handle(ProcessLoaded(2, "bob", 1))
    machine.handle(LifeMarked(2))
    assert orders(machine, ProcessLost(2, "bob", 1, "bob died", 1000.0)) == ()


@pytest.mark.parametrize("late", [Evicted(2, "driver:1", {"p": 3}), Evicted(1, "driver:1", {"p": 3})])
def test_in_another_life_or_on_the_way_back_nobody_evicts(late):
    machine = running(1, RecoveryPolicy(pause_s=0))
    if late.life == 1:
        machine.handle(LOST)
    machine.handle(late)
    machine.handle(NoRollback("x") if late.life == 1 else LOST)
    assert machine._evicted == {}


def test_who_takes_over_knows_it_before_it_goes_back():
    machine, gone = Recovery(4), Evicted(4, "driver:1", {"p": 3})
    assert orders(machine, TookOver(4, True, ("bob",), 1000.0, evicted=(gone,))) == (gone,)


# The machine of a driver ---------------------------------------------------------------------------------------


def told(*receivers):
    """A driver that sent one message to each of them."""
    driver = Driver("driver:1")
    for receiver in receivers:
        driver.handle(BatchTaken(receiver, 1))
    return driver


def test_only_what_arrived_is_offered():
    driver = told("p", "p", "q")
    driver.handle(BatchAcknowledged("p", 1))
    assert driver.offer() == EvictionOffer({"p": 1}, {})
    assert driver.handle(OfferTaken(1, driver.offer())) == (ReleaseMessages("p", 1),)
    assert driver.offer() == EvictionOffer({}, {})


def test_answers_are_offered_too_and_messages_wait_for_them_no_longer():
    driver = told("p", "q")
    driver.handle(BatchAcknowledged("p", 1))
    driver.handle(AnswerArrived((), "p", 1))
    driver.handle(BatchTaken("q", 1))
    assert driver.offer() == EvictionOffer({"p": 1}, {"p": 1})
    driver.handle(OfferTaken(1, driver.offer()))
    assert driver.handle(SystemRolledBack(2, {"p": 1}, frozenset(), {"p": 1})) == (SendTagged("q", 2, 1, 2, ()),)


def test_an_answer_that_this_life_has_not_given_again_is_not_offered():
    driver = told("p")
    driver.handle(AnswerArrived((), "p", 1))
    driver.handle(BatchTaken("q", 1))
    driver.handle(SystemRolledBack(2, {}))
    driver.handle(BatchAcknowledged("p", 1))
    assert driver.offer() == EvictionOffer({"p": 1}, {})
    assert driver.handle(OfferTaken(2, driver.offer())) == (ReleaseMessages("p", 1),)
    assert driver.handle(AnswerArrived((), "p", 1, 2)) == (SendTagged("q", 2, 1, 1, ()),)


def test_all_that_was_sent_to_a_process_that_ended_is_offered():
    driver = told("p", "p")
    driver.handle(ReceiverEnded("p"))
    assert driver.offer() == EvictionOffer({"p": 2}, {})


def test_an_offer_of_an_earlier_life_is_void():
    driver = told("p")
    driver.handle(BatchAcknowledged("p", 1))
    offer = driver.offer()
    driver.handle(SystemRolledBack(2, {}))
    assert driver.handle(OfferTaken(1, offer)) == ()


# Both together, at random --------------------------------------------------------------------------------------


class Receiver:
    def __init__(self, processed=()):
        self.mailbox, self.processed = deque(), list(processed)

    @property
    def arrived(self):
        return len(self.processed) + len(self.mailbox)

    def copy(self):
        copied = Receiver(self.processed)
        copied.mailbox = deque(self.mailbox)
        return copied


class Play:
    """One driver calls some receivers, and sees answers. Snapshots begin, and are committed later or never.

    `stopped`: the system could not go back. What the driver told is a place in `told`: (receiver, calls seen answered).
    """

    def __init__(self, seed, *, heeds_needs=True, offers_all=False, offers_unarrived=False):
        self.chance = random.Random(seed)
        self.heeds_needs, self.offers_all, self.offers_unarrived = heeds_needs, offers_all, offers_unarrived
        self.names = ("p", "q", "r")
        self.driver, self.machine = Driver("driver:1"), running(1, RecoveryPolicy(fruitless_max=10**6, pause_s=0))
        self.receivers = {name: Receiver() for name in self.names}
        self.kept = {name: {} for name in self.names}
        self.count = dict.fromkeys(self.names, 0)
        self.seen, self.behind, self.history = set(), {}, []
        self.in_flight, self.answers, self.granted = deque(), [], deque()
        self.open, self.cut = [], self.snapshot()
        self.stopped, self.counts = False, Counter()

    def snapshot(self):
        return {name: one.copy() for name, one in self.receivers.items()}, list(self.history)

    def numbers(self, cut):
        receivers, _ = cut
        sent = {name: one.arrived for name, one in receivers.items()}
        return sent, {name: len(one.processed) for name, one in receivers.items()}

    def run(self, steps=400):
        deeds = {
            self.tell: 8, self.deliver: 8, self.process: 6, self.hear: 6, self.begin: 1, self.commit: 0.7,
            self.abort: 0.3, self.ask: 1, self.evict: 2, self.lose: 0.4,
        }  # fmt: skip
        for _ in range(steps):
            if not self.stopped:
                self.chance.choices(list(deeds), list(deeds.values()))[0]()
                self.driver.validate()
        while not self.stopped and (self.in_flight or self.answers or any(r.mailbox for r in self.receivers.values())):
            self.deliver()
            self.process()
            self.hear()

    def tell(self):
        name = self.chance.choice(self.names)
        self.count[name] += 1
        number = self.count[name]
        self.behind[name, number] = frozenset(self.seen)
        self.kept[name][number] = (name, number)
        self.obey(self.driver.handle(BatchTaken(name, 1)))

    def obey(self, effects):
        for effect in effects:
            match effect:
                case SendTagged(name, life, first, count, _):
                    for number in range(first, first + count):
                        self.in_flight.append((name, life, self.kept[name][number]))
                case ReleaseMessages(name, last):
                    self.kept[name] = {number: kept for number, kept in self.kept[name].items() if number > last}

    def deliver(self):
        """Channels are independent of each other: any one delivers next, and says so at once or not at all."""
        if not self.in_flight:
            return
        chosen = self.chance.choice(sorted({name for name, _, _ in self.in_flight}))
        entry = next(entry for entry in self.in_flight if entry[0] == chosen)
        self.in_flight.remove(entry)
        name, life, message = entry
        if life == self.machine.life:
            receiver = self.receivers[name]
            assert message[1] == receiver.arrived + 1, f"{message} comes behind {receiver.arrived}"
            receiver.mailbox.append(message)
            if self.chance.random() < 0.8:
                self.driver.handle(BatchAcknowledged(name, receiver.arrived))

    def process(self):
        busy = [name for name in self.names if self.receivers[name].mailbox]
        if busy:
            name = self.chance.choice(busy)
            message = self.receivers[name].mailbox.popleft()
            self.receivers[name].processed.append(message)
            self.history.append(message)
            self.answers.append((self.machine.life, message))

    def hear(self):
        if self.answers:
            life, (name, number) = self.answers.pop(self.chance.randrange(len(self.answers)))
            self.seen.add((name, number))
            self.obey(self.driver.handle(AnswerArrived((), name, number, life)))

    def begin(self):
        self.open.append(self.snapshot())

    def commit(self):
        if self.open:
            self.cut = self.open.pop(0)
            sent, received = self.numbers(self.cut)
            evicted = self.machine._evicted.get("driver:1")
            held = evicted is not None and evicted.is_held(sent, received, ())
            self.machine.handle(CommitWritten(self.machine.life, frozenset({"driver:1"} if held else ())))
            self.counts["demands that ended"] += held
            snapshot = SnapshotId(self.machine.life, "coordinator", 1)
            if self.chance.random() < 0.8:
                self.obey(self.driver.handle(CutCommitted(snapshot, sent, frozenset(), received)))

    def abort(self):
        if self.open:
            self.open.pop()

    def ask(self):
        offer = self.driver.offer()
        if self.offers_all:
            offer = EvictionOffer(offer.sent, dict(self.driver._order._answers))
        if self.offers_unarrived:
            offer = EvictionOffer({name: count for name, count in self.count.items() if count}, offer.received)
        if self.chance.random() < 0.5:
            self.machine.handle(Evicted(self.machine.life, "driver:1", offer.sent, offer.received))
            self.granted.append((self.machine.life, offer))

    def evict(self):
        """The driver hears that its offer is taken, maybe in a later life."""
        if self.granted:
            self.counts["evicted"] += 1
            self.obey(self.driver.handle(OfferTaken(*self.granted.popleft())))

    def lose(self):
        for effect in self.machine.handle(ProcessLost(self.machine.life, "p", 1, "it died", 1000.0)):
            match effect:
                case BeginLife():
                    self.roll_back(effect)
                case Pause(number):
                    (order,) = self.machine.handle(PauseOver(number))
                    self.roll_back(order)

    def roll_back(self, order):
        if self.open and self.chance.random() < 0.3:
            self.commit()  # it was being stored when the process died
        sent, received = self.numbers(self.cut)
        lacks = [need for need in order.needs if not need.is_held(sent, received, ())]
        if lacks and self.heeds_needs:
            (stop,) = self.machine.handle(NoRollback("it lacks what was evicted"))
            assert isinstance(stop, StopSystem)
            assert self.machine.phase is Phase.STOPPED
            self.stopped = True
            return
        self.counts["rollbacks"] += 1
        self.counts["rollbacks with demands"] += bool(order.needs)
        loads = self.machine.handle(LifeBegan(order.life + 1, self.names, Past().rolled_back(1000.0, "bob")))
        for load in loads:
            assert isinstance(load, LoadProcess)
            self.machine.handle(ProcessLoaded(load.life, load.process, load.start))
        self.machine.handle(LifeMarked(self.machine.life))
        receivers, history = self.cut
        self.receivers, self.history = {name: one.copy() for name, one in receivers.items()}, list(history)
        self.open.clear()
        self.obey(self.driver.handle(SystemRolledBack(self.machine.life, sent, frozenset(), received)))

    def check(self):
        if self.stopped:
            return
        places = {message: place for place, message in enumerate(self.history)}
        for name in self.names:
            numbers = [number for of, number in self.history if of == name]
            assert numbers == list(range(1, self.count[name] + 1)), f"{name} has handled {numbers}"
        for message, before in self.behind.items():
            for answered in before:
                assert places[answered] < places[message], f"{message} came before the answer of {answered}"


def plays(seeds, **wrong):
    counts = Counter()
    for seed in range(seeds):
        play = Play(seed, **wrong)
        play.run()
        play.check()
        counts += play.counts + Counter(stopped=play.stopped)
    return counts


def test_whatever_is_evicted_no_rollback_loses_a_message_or_changes_an_order():
    counts = plays(400)
    happened = ("evicted", "rollbacks", "rollbacks with demands", "demands that ended", "stopped")
    assert min(counts[what] for what in happened) > 20, counts


@pytest.mark.parametrize("wrong", [{"heeds_needs": False}, {"offers_all": True}, {"offers_unarrived": True}])
def test_a_rollback_in_spite_of_a_demand_and_an_offer_of_too_much_are_noticed(machines, wrong):
    with pytest.raises(AssertionError):
        plays(400, **wrong)
    machines.clear()
