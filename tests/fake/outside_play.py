"""A play whose tills are registers: rows become visible once, whatever dies; an engine comes back with its holder."""

import json
import logging
from contextlib import suppress

from rayshot.errors import (
    ActorDied,
    NoAnswer,
    RayshotError,
    SnapshotAborted,
    StoreUnavailable,
    SystemRecovering,
    SystemStopped,
)
from rayshot.places.calls import ATTEMPTS_MAX
from rayshot.places.kinds import open_store
from rayshot.protocol.identity import MODES
from rayshot.runtime.door import door
from rayshot.snapshots import catalog
from tests.fake.door import fake
from tests.fake.outsiders import Holder, Outside, Register, outside
from tests.fake.play import FAILPOINTS, NAMES, PROGRAM, Play
from tests.fake.system import restore
from tests.fake.threads import Thread

log = logging.getLogger("rayshot")
AT_THE_END = ("before_publish", "after_publish", "after_on_commit", "before_outside_sealed", "before_commit",
              "after_commit", "notice_settled", "before_announce", "after_on_snapshot")  # fmt: skip
"""Where a process may die while the system stops."""
GUESTS_MAX = 4


class Unsettled(logging.Handler):
    """Whether a stop said that something is not done yet outside."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.said = False

    def emit(self, record):
        self.said = self.said or "has not done yet outside" in record.getMessage()


class KilledTooOften(Exception):
    """The system has stopped, as it should: going back led nowhere, or nobody has its keys."""


def play(seed):
    """Play on a cluster of two nodes; in each second play calls and answers are lost."""
    with fake(nodes=2) as cluster, outside(seed):
        playing = OutsidePlay(cluster, seed)
        if seed % 2:
            playing.lose_calls()
        playing.play()


class OutsidePlay(Play):
    """`guests` are registers that leave: how many rows each has taken before. `steps` counts what the holder was told.

    All that becomes visible must be of a durable snapshot that advances: `_sealed` are the batches of these.
    """

    kind = Register
    failpoints = (
        *FAILPOINTS,
        *("after_on_snapshot", "before_outside_sealed", "after_on_commit", "before_publish", "after_publish") * 2,
        *("notice_settled", "notice_await_commits"),
    )

    def __init__(self, cluster, seed):
        super().__init__(cluster, seed)
        self.storage = self.system.storage
        self.holder = Holder.options(name="holder").remote()
        self.steps, self.guests = 0, {}
        door.get(self.holder.all.remote())
        self.tills["bob"].know.tell(self.tills["alice"])
        self.system.snapshot()
        Outside.present.failing = 0.15
        Outside.present.published = self._published
        self._sealed, self._read = set(), set()
        self._lost = 0
        store = open_store(self.storage)
        self._create, store.create = store.create, self._create_unanswered

    def deeds(self):
        return super().deeds() | {
            self.step: 3,
            self.photograph: 0.4,
            self.invite: 0.3,
            self.lose_answer_of_commit: 0.1,
        }

    def snapshot(self):
        mode = self.chance.choice(MODES)

        def take():
            with suppress(RayshotError):  # it was aborted
                self.system.snapshot(mode=mode)

        Thread(take).start()

    def step(self):
        self.steps += 1
        self.holder.step.tell(self.steps)

    def photograph(self):
        self.tills[self.some()].photograph.tell()

    def invite(self):
        """A register that takes some rows and leaves."""
        if len(self.guests) == GUESTS_MAX:
            return
        name = f"guest {len(self.guests)}"
        count = self.guests[name] = self.chance.randrange(4)
        guest = Register.options(name=name).remote()
        for number in range(1, count + 1):
            guest.take.tell(PROGRAM, number)
        guest.leave.tell()

    # What must hold --------------------------------------------------------------------------------------------

    def _published(self, actor, sequence, line):
        batch = actor, sequence, line
        if batch not in self._sealed:
            self._read_snapshots()
        Outside.present.expect(batch in self._sealed, f"visible, and no durable snapshot that advances has it: {batch}")

    def _read_snapshots(self):
        for snapshot in catalog.open(self.storage).system("bank").snapshots():
            if snapshot.id not in self._read and snapshot.record.advances:
                self._read.add(snapshot.id)
                payloads = {one.name: one.outside.payload for one in snapshot.manifest.actors if one.outside}
                for name, payload in payloads.items():
                    self._sealed |= {(name, *batch) for batch in json.loads(payload).get("lines", ())}

    def lose_answer_of_commit(self):
        """Nobody learns whether the next COMMIT is written; it is."""
        self._lost = ATTEMPTS_MAX

    def _create_unanswered(self, key, data):
        is_lost = self._lost and "/log/" in key and b"commit" in bytes(data)
        if not is_lost or self._lost == ATTEMPTS_MAX:
            self._create(key, data)
        if is_lost:
            self._lost -= 1
            raise StoreUnavailable("the answer is lost")

    # In the end ------------------------------------------------------------------------------------------------

    def play(self, steps=200):
        """Do so much, check what comes of it, stop and go on; and some time chance kills one too often."""
        with suppress(KilledTooOften):
            super().play(steps)
            self.stop_and_go_on()
        assert not Outside.present.wrong, Outside.present.wrong

    def run(self, steps):
        """As of any play. Behind that nothing fails any more outside."""
        try:
            super().run(steps)
            self.tills["bob"].know.tell(None)
        except ActorDied as error:
            if "led nowhere" in str(error):
                raise KilledTooOften from error
            raise
        self._lost, Outside.present.failing = 0, 0.0
        self.cluster.schedule.pass_s(60.0)

    def check(self):
        """As of any play; and each row is visible once, once a snapshot has it."""
        super().check()
        if self.lacks_keys():
            raise KilledTooOften
        self.settle()

    def settle(self):
        """Nothing fails, and all is visible."""
        here = Outside.present
        door.get([till.all.remote() for till in self.tills.values()])
        self.system.snapshot()
        self.cluster.until(lambda: not (self.system.status().outside or self.left()))
        self.check_rows({name: door.get(till.all.remote())[0] for name, till in self.tills.items()})
        assert door.get(self.holder.all.remote())[0].get("steps", []) == list(range(1, self.steps + 1))
        assert here.engines["holder"].count == self.steps
        for guest, count in self.guests.items():
            assert here.tables[guest].rows == [(PROGRAM, number) for number in range(1, count + 1)], guest

    def left(self):
        """Guests that are still there."""
        return self.system.actors().keys() & self.guests

    def check_rows(self, took):
        """What each register took is visible, once."""
        here = Outside.present
        assert not here.wrong, here.wrong
        for name in NAMES:
            wanted = sorted((sender, number) for sender, numbers in took[name].items() for number in numbers)
            assert sorted(here.tables[name].rows) == wanted, name

    def stop_and_go_on(self):
        """A stop that names nobody has made all visible, whatever dies meanwhile; a restore makes the rest visible."""
        here = Outside.present
        self.tills["bob"].know.tell(self.tills["alice"])
        for _ in range(9):
            self.tell()
        here.failing = self.chance.choice([0.0, 0.3])
        if self.chance.random() < 0.7:
            self.cluster.failpoints[self.chance.choice(AT_THE_END)] = self.chance.randrange(1, 4)
        said = self._stop()
        self.cluster.failpoints.clear()
        here.failing = 0.0
        last = catalog.open(self.storage).system("bank").rollback_target()
        if not said:
            self.check_rows({name: last.states()[name]["got"] for name in NAMES})
        self.cluster.schedule.pass_s(120.0)
        self.system = restore(self.storage)
        self.tills = {name: self.system.get_actor(name) for name in NAMES}
        self.holder = self.system.get_actor("holder")
        self.tills["bob"].know.tell(None)
        self.settle()

    def _stop(self):
        """Stop with a savepoint. Returns whether somebody may not have done yet outside what follows from it."""
        watch = Unsettled()
        log.addHandler(watch)
        try:
            while True:
                try:
                    self.system.latest.stop_with_savepoint("end")
                except SystemStopped as error:  # its coordinator died behind the commit
                    self.system.latest.shutdown()
                    return "may not be done yet by" in str(error)
                except (SnapshotAborted, NoAnswer, SystemRecovering):
                    self.cluster.schedule.pass_s(5.0)
                else:
                    return watch.said
        finally:
            log.removeHandler(watch)
