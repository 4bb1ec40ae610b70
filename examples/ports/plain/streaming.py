"""A streaming generator: a model gives its words one by one, and the program shows each as it comes."""

import time

import ray

TEXT = "it was the best of times it was the worst of times"


@ray.remote(num_cpus=0)
class Model:
    """Goes on with a text by what came behind a word the last times."""

    def __init__(self, text):
        self.following, self.said = {}, 0
        for word, after in zip(text.split(), text.split()[1:], strict=False):
            self.following.setdefault(word, []).append(after)

    def stream(self, word, count):
        """So many words, one by one."""
        for _ in range(count):
            time.sleep(0.01)
            known = self.following.get(word, ["it"])
            word = known[self.said % len(known)]
            self.said += 1
            yield word


def run(text=TEXT, prompts=("it", "the", "of"), count=30):
    """What the model says to each prompt."""
    model, told = Model.remote(text), []
    for prompt in prompts:
        stream = model.stream.options(num_returns="streaming").remote(prompt, count)
        told.append([ray.get(word) for word in stream])
    return told


if __name__ == "__main__":
    for told in run():
        print(*told)
