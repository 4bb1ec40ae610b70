"""A real system on the fake, in which a program does what chance says, and chance kills."""

import random
from contextlib import suppress

import rayshot
from rayshot.errors import NoAnswer, RayshotError, SystemRecovering
from rayshot.model.configuration import FailureConfig, SnapshotConfig
from rayshot.runtime.door import door
from rayshot.runtime.door.naming import coordinator_name
from tests.fake.schedule import Choices
from tests.fake.system import begin
from tests.fake.threads import Thread

NAMES = ("alice", "bob", "carol")
PROGRAM = "program"


@rayshot.actor(capture="inline")
class Till:
    """Notes what it is told, by sender, and passes numbers on."""

    def __init__(self):
        self.got, self.passed = {}, {}

    def take(self, sender, number):
        self.got.setdefault(sender, []).append(number)

    def count(self, number):
        self.take(PROGRAM, number)
        return len(self.got[PROGRAM])

    def pass_on(self, me, other):
        number = self.passed[other.name] = self.passed.get(other.name, 0) + 1
        other.take.tell(me, number)

    def all(self):
        return self.got, self.passed


class Play:
    """`told` counts the numbers that each till was told; `calls` are the program's, with their right answers."""

    def __init__(self, cluster, seed):
        self.cluster, self.chance = cluster, random.Random(seed)
        config = SnapshotConfig(interval_s=1.0, timeout_s=20.0)
        self.system = begin(snapshot=config, failure=FailureConfig(backoff_s=0.0, stable_s=0.0))
        self.tills = {name: Till.options(name=name).remote() for name in NAMES}
        self.told = dict.fromkeys(NAMES, 0)
        self.calls = []
        self.deaths = {"till": 2, "coordinator": 2, "vault": 1}
        door.get([till.all.remote() for till in self.tills.values()])
        self.system.snapshot()
        cluster.schedule.choose = Choices.of_seed(seed)

    def run(self, steps):
        deeds = [
            self.tell,
            self.call,
            self.pass_on,
            self.snapshot,
            self.kill_till,
            self.kill_coordinator,
            self.kill_vault,
        ]
        for _ in range(steps):
            if self.chance.random() < 0.5:
                for _ in range(self.chance.randrange(40)):
                    self.cluster.schedule.step(self.cluster.schedule.now_s)
            elif self.chance.random() < 0.2:
                self.cluster.schedule.pass_s(self.chance.random())
            else:
                self.chance.choices(deeds, [6, 3, 4, 0.5, 0.3, 0.3, 0.2])[0]()
        self.cluster.fates_of_calls = self.cluster.fates_of_answers = ("arrives",)
        self.cluster.schedule.choose.end()

    def some(self):
        return self.chance.choice(NAMES)

    def tell(self):
        name = self.some()
        self.told[name] += 1
        self.tills[name].take.tell(PROGRAM, self.told[name])

    def call(self):
        name = self.some()
        method = self.tills[name].count
        method = method.options(durable=True) if self.chance.random() < 0.5 else method
        try:
            reference = method.remote(self.told[name] + 1)
        except (NoAnswer, SystemRecovering):
            return  # it was not sent
        self.told[name] += 1
        self.calls.append((reference, self.told[name]))

    def pass_on(self):
        name, other = self.chance.sample(NAMES, 2)
        self.tills[name].pass_on.tell(name, self.tills[other])

    def snapshot(self):
        def take():
            with suppress(RayshotError):  # it was aborted
                self.system.snapshot()

        Thread(take).start()

    def _kill(self, kind, wanted):
        living = [one for name, one in self.cluster.named.items() if wanted(name) and one.works]
        if living and self.deaths[kind]:
            self.deaths[kind] -= 1
            self.cluster.die(self.chance.choice(living))

    def kill_till(self):
        self._kill("till", lambda name: "/actor/" in name)

    def kill_coordinator(self):
        self._kill("coordinator", lambda name: name == coordinator_name("bank"))

    def kill_vault(self):
        self._kill("vault", lambda name: "/vault/" in name)

    # In the end ------------------------------------------------------------------------------------------------

    def runs(self):
        try:
            return self.system.status().state == "running"
        except (NoAnswer, SystemRecovering):
            return False

    def check(self):
        """Each till has all once and in order, and each call has its answer."""
        until_s = self.cluster.schedule.now_s + 600
        while not self.runs():
            assert self.cluster.schedule.now_s < until_s, self.cluster._who_waits()
            self.cluster.schedule.pass_s(1.0)
        self.system.snapshot()
        self.cluster.schedule.pass_s(10.0)  # what tills have told each other arrives
        found = {name: door.get(till.all.remote()) for name, till in self.tills.items()}
        for name, (got, _) in found.items():
            assert got.get(PROGRAM, []) == list(range(1, self.told[name] + 1)), name
            for sender in NAMES:
                passed = found[sender][1].get(name, 0)
                assert got.get(sender, []) == list(range(1, passed + 1)), f"{sender} to {name}"
        for reference, wanted in self.calls:
            try:
                value = door.get(reference, timeout=600)
            except door.NotReached:
                continue  # its till died, and the outcome with it
            assert value == wanted
