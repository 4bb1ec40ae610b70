"""A trainer that loops around a queue, in many ways."""

import rayshot
from tests.fake.system import process_of


@rayshot.actor(capture="inline")
class Trainer:
    def __init__(self, rollouts, slots=None):
        self.rollouts, self.slots, self.trained, self.begun, self.children = rollouts, slots, [], 0, []

    def fit(self):
        self.begun += 1
        for rollout in rayshot.loop(self.rollouts.get):
            if rollout == "done":
                break
            self.trained.append(rollout)
            if self.slots is not None:
                self.slots.put(len(self.trained))
        return self.trained

    async def fit_async(self):
        self.begun += 1
        async for rollout in rayshot.loop(self.rollouts.get):
            if rollout == "done":
                break
            self.trained.append(rollout)
            if self.slots is not None:
                await self.slots.put_async(len(self.trained))
        return self.trained

    def generate(self):
        for _ in rayshot.loop(every=0.1):
            self.trained.append(self.rollouts.get())
            self.slots.put(len(self.trained))

    def fail_at(self, bad):
        for rollout in rayshot.loop(self.rollouts.get):
            if rollout == bad:
                raise ValueError(bad)
            self.trained.append(rollout)

    def tick(self):
        for _ in rayshot.loop(every=2.0):
            self.trained.append("tick")

    def spin(self, count):
        for _ in rayshot.loop():
            self.trained.append("turn")
            if len(self.trained) == count:
                return

    def read_handle(self):
        for self.begun in rayshot.loop(self.rollouts.actor.qsize):  # noqa: B020
            break
        return self.begun

    def fit_with(self, other):
        for _ in rayshot.loop(other.names):
            pass

    def make(self):
        for _ in rayshot.loop(self.rollouts.get):
            self.make_one()

    def make_one(self):
        self.children.append(Trainer.remote(self.rollouts))

    def names(self):
        return [child.name for child in self.children]

    def leave(self):
        for _ in rayshot.loop(self.rollouts.get):
            rayshot.current().exit()

    def ask_above(self):
        self.rollouts.size()
        for _ in rayshot.loop(self.rollouts.get):
            pass

    def tell_above(self):
        self.rollouts.actor.put.tell(1)
        for _ in rayshot.loop(self.rollouts.get):
            pass

    def set_a_timer_above(self):
        rayshot.current().after(5.0, self.read)
        for _ in rayshot.loop(self.rollouts.get):
            pass

    def call_it(self):
        return self.fit()

    def continue_with_it(self):
        self.rollouts.actor.qsize.remote().then(self.fit_behind)

    def fit_behind(self, _size):
        for _ in rayshot.loop(self.rollouts.get):
            break

    def not_in_for(self):
        return next(iter(rayshot.loop(self.rollouts.get)))

    def wrong(self, what, **named):
        rayshot.loop(*what, **named)

    def wait_for_itself(self, me):
        for self.begun in rayshot.loop(me.read):
            pass

    def fit_behind_its_end(self):
        self.rollouts.shutdown()
        for _ in rayshot.loop(self.rollouts.get):
            pass

    def read(self):
        return self.trained


def instance(cluster, name="trainer"):
    """The object of that actor."""
    return process_of(cluster, name).cell.instance
