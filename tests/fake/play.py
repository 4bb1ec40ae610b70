"""A real system on the fake, in which a program does what chance says, and chance kills."""

import itertools
import random
from contextlib import suppress

import rayshot
from rayshot.errors import NoAnswer, RayshotError, SystemRecovering
from rayshot.model.configuration import FailureConfig, SnapshotConfig
from rayshot.runtime.door import door
from rayshot.runtime.door.naming import coordinator_name
from tests.fake.door import fake
from tests.fake.schedule import Choices
from tests.fake.system import begin
from tests.fake.threads import Thread

NAMES = ("alice", "bob", "carol")
FAILPOINTS = (
    "before_load_process", "before_begin", "after_ack", "before_announce", "epoch_written", "before_commit",
    "after_commit", "before_stop_handlers", "before_resume_life", "before_mark_life", "before_rollback",
    "after_rollback", "before_record", "after_record", "after_marker", "before_upload", "after_upload_before_ack",
)  # fmt: skip
"""Where a process may die that passes. Not both vaults and the coordinator: then nobody has the keys."""
PROGRAM = "program"


@rayshot.actor(capture="inline")
class Till:
    """Notes what it is told, by sender, and passes numbers on."""

    def __init__(self):
        self.got, self.passed = {}, {}
        self.given = self.asking = 0
        self.answers = []

    def take(self, sender, number):
        self.got.setdefault(sender, []).append(number)

    def count(self, number):
        self.take(PROGRAM, number)
        return len(self.got[PROGRAM])

    def pass_on(self, me, other):
        number = self.passed[other.name] = self.passed.get(other.name, 0) + 1
        other.take.tell(me, number)

    def give(self):
        self.given += 1
        return self.given

    def ask(self, other):
        self.asking += 1
        self.answers.append(rayshot.get(other.give.remote()))

    def all(self):
        return self.got, self.passed

    def conversations(self):
        return self.given, self.asking, self.answers


def is_till(name):
    return "/actor/" in name


class Play:
    """`told` counts the numbers that each till was told; `calls` are the program's, with their right answers.

    Tills that ask have little under way when they record. So in each third play nobody asks. `kind` is their class, and
    `failpoints` are where processes die.
    """

    kind, failpoints = Till, FAILPOINTS

    def __init__(self, cluster, seed):
        self.cluster, self.chance = cluster, random.Random(seed)
        config = SnapshotConfig(interval_s=1.0, timeout_s=20.0)
        self.system = begin(snapshots=config, failure=FailureConfig(backoff_s=0.0, stable_s=0.0))
        self.tills = {name: self.kind.options(name=name).remote() for name in NAMES}
        self.told = dict.fromkeys(NAMES, 0)
        self.calls = []
        self.asks = seed % 3 > 0
        self.deaths = {"till": 4, "coordinator": 4, "vault": 1, "failpoint": 5, "stop": 1}
        door.get([till.all.remote() for till in self.tills.values()])
        self.system.snapshot()
        cluster.schedule.choose = Choices.of_seed(seed)

    def lose_calls(self):
        """From now on calls and answers get lost, and some calls come twice."""
        self.cluster.fates_of_calls = (*["arrives"] * 10, "lost", "twice")
        self.cluster.fates_of_answers = (*["arrives"] * 10, "lost")

    def play(self, steps=300):
        """Do so many things at random, and check what comes of it. Fails with an AssertionError."""
        try:
            self.run(steps)
            self.check()
        except RayshotError as error:
            raise AssertionError(f"nobody expects this error: {error!r}") from error

    def deeds(self):
        """What may be done, and how often."""
        return {
            self.tell: 6,
            self.call: 3,
            self.pass_on: 4,
            self.snapshot: 0.8,
            self.kill_till: 0.3,
            self.kill_coordinator: 0.3,
            self.kill_vault: 0.2,
            self.arm_failpoint: 0.5,
            self.stop_till: 0.1,
            self.call_often: 0.3,
            self.ask: 2 * self.asks,
        }

    def run(self, steps):
        deeds = self.deeds()
        for _ in range(steps):
            if self.chance.random() < 0.5:
                for _ in range(self.chance.randrange(40)):
                    self.cluster.schedule.step(self.cluster.schedule.now_s)
            elif self.chance.random() < 0.2:
                self.cluster.schedule.pass_s(self.chance.random())
            else:
                self.chance.choices([*deeds], [*deeds.values()])[0]()
        self.cluster.fates_of_calls = self.cluster.fates_of_answers = ("arrives",)
        self.cluster.failpoints.clear()
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

    def call_often(self):
        for _ in range(self.chance.randrange(2, 20)):
            self.call()

    def pass_on(self):
        name, other = self.chance.sample(NAMES, 2)
        self.tills[name].pass_on.tell(name, self.tills[other])

    def ask(self):
        """Nobody waits for one that waits for it: each asks the next one, and carol nobody."""
        place = self.chance.randrange(len(NAMES) - 1)
        self.tills[NAMES[place]].ask.tell(self.tills[NAMES[place + 1]])

    def snapshot(self):
        def take():
            with suppress(RayshotError):  # it was aborted
                self.system.snapshot()

        Thread(take).start()

    def _victim(self, kind, wanted):
        """A process that works, by its name; None if there is none, or enough has happened to its kind."""
        living = [one for name, one in self.cluster.named.items() if wanted(name) and one.works]
        if not (living and self.deaths[kind]):
            return None
        self.deaths[kind] -= 1
        return self.chance.choice(living)

    def _kill(self, kind, wanted):
        if (victim := self._victim(kind, wanted)) is not None:
            self.cluster.die(victim)

    def kill_till(self):
        self._kill("till", is_till)

    def kill_coordinator(self):
        self._kill("coordinator", lambda name: name == coordinator_name("bank"))

    def kill_vault(self):
        if self.chance.random() < 0.5:
            self._kill("vault", lambda name: "/vault/" in name)
        elif self.deaths["vault"]:
            self.deaths["vault"] -= 1
            self.cluster.failpoints["mid_upload"] = 1

    def arm_failpoint(self):
        """Some process dies at the place where its next step is dangerous."""
        if self.deaths["failpoint"]:
            self.deaths["failpoint"] -= 1
            self.cluster.failpoints[self.chance.choice(self.failpoints)] = self.chance.randrange(1, 4)

    def stop_till(self):
        """A till stands still. It goes on some time, or is killed as it is silent. Others may die meanwhile."""
        if (victim := self._victim("stop", is_till)) is not None:
            run, plan = victim.run, self.cluster.schedule
            run.is_stopped = True
            plan.at(plan.now_s + self.chance.choice([5.0, 30.0, 10_000.0]), lambda: self.cluster.go_on(run))
            if self.chance.random() < 0.5:
                plan.at(plan.now_s + 10.0, self.kill_till)
                plan.at(plan.now_s + 20.0, self.kill_coordinator)

    # In the end ------------------------------------------------------------------------------------------------

    def runs(self):
        try:
            return self.system.status().state == "running"
        except (NoAnswer, SystemRecovering):
            return False

    def lacks_keys(self):
        """Whether the coordinator died when nobody else had the keys: see FAILPOINTS."""
        try:
            return "found its keys neither" in self.system.status().detail
        except (NoAnswer, SystemRecovering):
            return False

    def stands_still(self):
        """Whether a process is stopped, does not go on by itself, and is not killed yet."""
        runs = [process.run for process in self.cluster.processes.values() if process.run is not None]
        return any(run.is_stopped and not run.is_dead for run in runs)

    def check(self):
        """A snapshot succeeds; each till has all once and in order, and each call has its answer."""
        until_s = self.cluster.schedule.now_s + 600
        while not self.runs() or self.stands_still():
            if self.lacks_keys():
                return  # a call to a vault was lost, so it counted as dead: a program would have to bring the keys
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
        self.check_conversations()
        for reference, wanted in self.calls:
            try:
                value = door.get(reference, timeout=600)
            except door.TimedOut:
                raise AssertionError(f"call {wanted} is not answered") from None
            except door.NotReached:
                continue  # its till died, and the outcome with it
            assert value == wanted

    def check_conversations(self):
        """What was given was received, once and in order, and no snapshot holds half of a handler."""
        found = [door.get(till.conversations.remote()) for till in self.tills.values()]
        for (_, _, answers), (given, _, _) in itertools.pairwise(found):
            assert answers == list(range(1, given + 1))
        for snapshot in self.system.snapshots():
            for name, state in snapshot.states().items():
                assert state["asking"] == len(state["answers"]), f"{name} in {snapshot.id}"


def happened(seed):
    """What can be seen of a play: how often each method was called, and the time at the end."""
    with fake(nodes=2) as cluster:
        play = Play(cluster, seed)
        play.lose_calls()
        play.run(300)
        return sorted(cluster.counts.items()), cluster.schedule.now_s
