"""A streaming generator: a model gives its words one by one, and the program shows each as it comes."""

import time

import rayshot

TEXT = "it was the best of times it was the worst of times"


@rayshot.actor(num_cpus=0)
class Model:
    """Goes on with a text by what came behind a word the last times."""

    def __init__(self, text):
        self.following, self.said = {}, 0
        for word, after in zip(text.split(), text.split()[1:], strict=False):
            self.following.setdefault(word, []).append(after)

    def stream(self, word, count, said):
        """So many words into a queue, one by one, and a None."""
        for _ in range(count):
            time.sleep(0.01)
            known = self.following.get(word, ["it"])
            word = known[self.said % len(known)]
            self.said += 1
            said.put(word)
        said.put(None)


def run(text=TEXT, prompts=("it", "the", "of"), count=30):
    """What the model says to each prompt."""
    model, said, told = Model.remote(text), rayshot.Queue(), []
    for prompt in prompts:
        model.stream.tell(prompt, count, said)
        told.append([*iter(said.get, None)])
    return told


if __name__ == "__main__":
    with rayshot.init("streaming", storage="./shots", fresh=True):
        for told in run():
            print(*told)
