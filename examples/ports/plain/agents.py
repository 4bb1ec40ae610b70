"""An agent loop: one actor runs 64 coroutines, each of which talks to a model and to tools until it has its answer."""

import asyncio

import ray


@ray.remote(num_cpus=0)
class Model:
    """Stands for a language model: says which tool to use next, from what was said before."""

    def __init__(self):
        self.asked = 0

    async def next_step(self, words):
        """A tool and a number for it, or None and the answer."""
        self.asked += 1
        turns, value = len(words), words[-1]
        if turns > 3 or value % 7 == 0:
            return None, value
        return ("double" if value % 2 else "add"), value


@ray.remote(num_cpus=0)
class Tools:
    """What the agents may use. Counts how often each tool was used."""

    def __init__(self):
        self.used = {"double": 0, "add": 0}

    async def use(self, tool, value):
        """What a tool makes of a number."""
        await asyncio.sleep(0.001)
        self.used[tool] += 1
        return 2 * value if tool == "double" else value + 5

    async def read(self):
        """How often each was used."""
        return self.used


@ray.remote(num_cpus=0)
class Agents:
    """Runs many agents at a time."""

    def __init__(self, model, tools):
        self.model, self.tools, self.answers = model, tools, {}

    async def solve(self, task):
        """One agent: asks the model, uses the tool, and so on."""
        words = [task]
        while True:
            tool, value = await self.model.next_step.remote(words)
            if tool is None:
                self.answers[task] = value
                return
            words.append(await self.tools.use.remote(tool, value))

    async def run(self, tasks):
        """All these tasks at once; returns how many answers there are."""
        await asyncio.gather(*(self.solve(task) for task in tasks))
        return len(self.answers)

    async def read(self):
        """The answer to each task."""
        return self.answers


def run(rounds=12, agents=64):
    """So many rounds of agents; returns the answer to each task, and how often each tool was used."""
    model, tools = Model.remote(), Tools.remote()
    team = Agents.remote(model, tools)
    for number in range(rounds):
        assert ray.get(team.run.remote(range(number * agents, (number + 1) * agents))) == (number + 1) * agents
    return dict(sorted(ray.get(team.read.remote()).items())), ray.get(tools.read.remote())


if __name__ == "__main__":
    print(run()[1])
