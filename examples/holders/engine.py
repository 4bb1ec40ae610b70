"""An inference engine behind HTTP belongs to its actor's snapshots: `python examples/holders/engine.py`.

The engine runs ahead: it answers between two snapshots. At a snapshot its state is fixed, and written into the folder
of the snapshot beside the handlers. When the actor goes back, the engine goes back with it, whichever of them died. Run
it twice: the second run goes on from the last snapshot of the first, with another engine.
"""

import json
import logging
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray

import rayshot
from examples.holders.deaths import ask, kill, wait_for

PROMPTS = 150
FILE = "engine.json"
ANSWER_S_MAX, WATCH_S = 10.0, 0.2


@rayshot.actor(on_error="stop")
class Asker:
    """The only one that talks to the engine. If that does not answer, the handler raises, and all go back.

    It holds the engine from its first snapshot on: until then it has no token, and prompts wait. `address` is a file
    with the URL.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.answers: list[str] = []
        self.waiting: list[str] = []
        self.token: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"token": None}

    def ask(self, prompt: str) -> None:
        """Let the engine answer."""
        self.waiting.append(prompt)
        if self.token is not None:
            self._ask_all()

    def watch(self) -> None:
        """Look after the engine: if it died while no prompt came, nobody else would notice, and no snapshot succeed."""
        if self.token is not None:
            self.command("look")
        rayshot.current().after(WATCH_S, self.watch)

    def progress(self) -> int:
        """How many prompts are answered."""
        return len(self.answers)

    def read(self) -> list[str]:
        """The answers."""
        return self.answers

    def agrees(self) -> bool:
        """Whether the engine is where this actor is: as far, and with the same last answer."""
        return self.token is not None and self.command("look") == self._expected()

    def on_snapshot(self, cut: rayshot.ActorCut) -> Callable[[], dict[str, Any]]:
        """Fix the engine now, in memory; it writes beside the handlers, while it answers further prompts."""
        if self.token is None:
            self._take(cut, None)
            self._ask_all()
        self.command("fix", cut=cut.snapshot)
        return lambda: self.command("checkpoint", cut=cut.snapshot, path=f"{cut.folder}/{FILE}")

    def on_restore(self, back: rayshot.ActorCut) -> None:
        """Take the engine from the life before, with what it had at this cut. Raises while there is no engine."""
        back.verify()
        self._take(back, f"{back.folder}/{FILE}")
        assert back.payload == self._expected()

    def _take(self, cut: rayshot.ActorCut, path: str | None) -> None:
        there = self.command("restore", token=cut.token, path=path, takeover=cut.takeover)
        assert there == self._expected()
        self.token = cut.token

    def _expected(self) -> dict[str, Any]:
        return {"answered": len(self.answers), "last": self.answers[-1] if self.answers else ""}

    def _ask_all(self) -> None:
        while self.waiting:
            self.answers.append(self.command("generate", prompt=self.waiting[0])["last"])
            del self.waiting[0]

    def command(self, command: str, **rest: Any) -> dict[str, Any]:
        """Have the engine do this; returns its state. Raises OSError: it is away, or refuses this life (409)."""
        body = json.dumps({"token": self.token} | rest).encode()
        request = urllib.request.Request(f"{Path(self.address).read_text()}/{command}", body)
        with urllib.request.urlopen(request, timeout=ANSWER_S_MAX) as answer:
            return dict(json.load(answer))


class EngineProcess:
    """An engine, and how to kill it. Another one may begin behind it, with a URL of its own."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.begin()

    def begin(self) -> None:
        """Start an engine, which is empty; returns when it can be asked."""
        Path(self.address).unlink(missing_ok=True)
        program = Path(__file__).with_name("engine_server.py")
        self._process = subprocess.Popen([sys.executable, str(program), self.address])
        while not Path(self.address).exists():
            assert self._process.poll() is None, "the engine did not begin"
            time.sleep(0.01)

    def kill(self) -> None:
        """End it, with all that it knows."""
        self._process.kill()
        self._process.wait()


def answers_of_another_engine(count: int, address: str) -> list[str]:
    """What an engine says to which nothing happens."""
    engine = EngineProcess(address)
    asker = Asker(address)  # a decorated class still makes plain objects
    asker.token = "nobody", 1, "nobody"
    asker.command("restore", path=None)
    for number in range(count):
        asker.ask(f"prompt {number}")
    engine.kill()
    return asker.answers


def begin(address: str) -> None:
    """Make the actor, where there is no snapshot to go on from."""
    asker = Asker.options(name="asker").remote(address)
    asker.watch.tell()


def go_on(storage: str, engine: EngineProcess) -> bool:
    """Ask; kill the actor, then the engine; compare with an engine to which nothing happened."""
    system = rayshot.resume(
        "engine",
        storage=storage,
        begin=lambda _system: begin(engine.address),
        snapshots=rayshot.SnapshotConfig(interval_s=0.3),
    )
    asker = system.get_actor("asker", Asker)
    goal: int = ask(asker.progress)
    for dies in ("nobody", "the actor", "the engine"):
        if dies == "the actor":
            kill(system, "asker")
        elif dies == "the engine":
            engine.kill()
            engine.begin()
        for number in range(goal, goal + PROMPTS):
            asker.ask.tell(f"prompt {number}")
        goal += PROMPTS
        wait_for(asker, goal)
        print(f"{goal} answers; {dies} was killed before the last {PROMPTS}")
    answers = ask(asker.read)
    outside = system.snapshot().outside["asker"]
    print(f"the snapshot has {outside.payload} and {[file.path for file in outside.files]}")
    same = answers == answers_of_another_engine(len(answers), f"{engine.address}.other")
    print(f"the same as without the deaths: {same}, over {len(answers)} answers")
    system.shutdown()
    return same


def main(storage: str = "./shots") -> None:
    """Begin an engine, and end it."""
    ray.init("local", num_cpus=4, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    engine = EngineProcess(f"{Path(storage).resolve()}.engine")
    try:
        same = go_on(storage, engine)
    finally:
        engine.kill()
        ray.shutdown()
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
