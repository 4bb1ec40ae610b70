"""An inference batcher: clients ask one by one, and a model answers what waits at the time in one batch."""

import asyncio
import time

import ray

import rayshot


@rayshot.actor(num_cpus=0)
class Model:
    """Answers a batch in the time of one question."""

    def __init__(self):
        self.batches, self.questions = 0, 0

    def infer(self, questions):
        """The answers."""
        time.sleep(0.004)
        self.batches, self.questions = self.batches + 1, self.questions + len(questions)
        return [question**2 + 1 for question in questions]

    def read(self):
        """How many questions it answered, in how many batches."""
        return self.questions, self.batches


@rayshot.actor(num_cpus=0, max_concurrency=1000)
class Batcher:
    """Gathers questions while the model is busy, up to `size` of them."""

    def __init__(self, model, size):
        self.model, self.size = model, size
        self.waiting, self.lock = [], asyncio.Lock()

    async def infer(self, question):
        """The answer to one question."""
        answer = asyncio.get_running_loop().create_future()
        self.waiting.append((question, answer))
        async with self.lock:
            if not answer.done():
                await self.work()
        return await answer

    async def work(self):
        """Let the model answer what waits first."""
        batch, self.waiting = self.waiting[: self.size], self.waiting[self.size :]
        answers = await self.model.infer.remote([question for question, _ in batch])
        for (_, waiting), answer in zip(batch, answers, strict=True):
            waiting.set_result(answer)


@rayshot.actor(num_cpus=0)
class Client:
    """Asks one question after the other."""

    def __init__(self, batcher, first):
        self.batcher, self.question, self.answers = batcher, first, {}

    def ask(self, count):
        """So many more questions; returns all answers so far."""
        for _ in range(count):
            self.answers[self.question] = ray.get(self.batcher.infer.remote(self.question))
            self.question += 1
        return self.answers


def run(rounds=30, clients=4, size=8):
    """Each client asks five questions in each round; returns the answers, and how many the model gave."""
    model = Model.remote()
    batcher = Batcher.remote(model, size)
    team = [Client.remote(batcher, 1_000 * me) for me in range(clients)]
    for _ in range(rounds):
        answers = ray.get([client.ask.remote(5) for client in team])
    questions, _ = ray.get(model.read.remote())
    return {question: answer for one in answers for question, answer in one.items()}, questions


if __name__ == "__main__":
    with rayshot.init("batcher", storage="./shots", fresh=True):
        print(run()[1])
