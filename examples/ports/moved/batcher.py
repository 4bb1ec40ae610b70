"""An inference batcher: clients ask one by one, and a model answers what waits at the time in one batch."""

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


@rayshot.actor(num_cpus=0)
class Batcher:
    """Gathers questions while the model is busy, up to `size` of them."""

    def __init__(self, model, size):
        self.model, self.size = model, size
        self.waiting, self.is_busy = [], False

    def infer(self, question, inbox):
        """The answer to one question comes to this queue."""
        self.waiting.append((question, inbox))
        if not self.is_busy:
            self.is_busy = True
            self.work()

    def work(self):
        """Let the model answer some of what waits."""
        batch, self.waiting = self.waiting[: self.size], self.waiting[self.size :]
        answers = self.model.infer.remote([question for question, _ in batch])
        answers.then(self.answer, [inbox for _, inbox in batch])

    def answer(self, answers, inboxes):
        """Pass the answers on, and go on while something waits."""
        for inbox, answer in zip(inboxes, answers, strict=True):
            inbox.actor.put.tell(answer)
        self.is_busy = bool(self.waiting)
        if self.is_busy:
            self.work()


@rayshot.actor(num_cpus=0)
class Client:
    """Asks one question after the other."""

    def __init__(self, batcher, first):
        self.batcher, self.question, self.answers = batcher, first, {}
        self.inbox = rayshot.Queue()

    def ask(self, count):
        """So many more questions; returns all answers so far."""
        for _ in range(count):
            self.batcher.infer.tell(self.question, self.inbox)
            self.answers[self.question] = self.inbox.get()
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
