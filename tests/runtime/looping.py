"""A generator and a trainer that loop for ever around two queues, and check themselves."""

import rayshot


@rayshot.actor
class Generator:
    def __init__(self, slots, rollouts):
        self.slots, self.rollouts, self.made = slots, rollouts, 0

    def fit(self, samples):
        for _ in rayshot.loop(self.slots.get):
            self.made += 1
            self.rollouts.put(self.made)
            if self.made == samples:
                break
        return self.made


@rayshot.actor
class Trainer:
    def __init__(self, slots, rollouts):
        self.slots, self.rollouts, self.trained = slots, rollouts, []

    async def fit(self, samples):
        async for sample in rayshot.loop(self.rollouts.get):
            self.trained.append(sample)
            await self.slots.put_async(0)
            if sample == samples:
                break
        return self.trained
