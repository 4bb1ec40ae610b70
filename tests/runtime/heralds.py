"""Actors that tell each other numbers without end, and judge whether any was lost, doubled or out of order."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ray

import rayshot
from rayshot.runtime.ray import failpoints
from tests.waiting import eventually

NAMES = ("alice", "bob", "carol")
MAIN = "main"


@rayshot.actor(capture="inline")
class Herald:
    """Passes each number of a program on to all fellows. `heard` says per teller which number must come next."""

    def __init__(self, name: str, born: str = "") -> None:
        self.name = name
        self.fellows: list[Any] = []
        self.told = 0
        self.heard: dict[str, int] = {}
        self.wrong: list[tuple[str, int, int]] = []
        if born:
            with Path(born).open("a") as file:
                file.write(f"{name}\n")

    def meet(self, *fellows: Any) -> None:
        """From now on tell these."""
        self.fellows = list(fellows)

    def hear(self, teller: str, number: int) -> None:
        """Hear the next number of a program: each fellow is told how many there were."""
        self.overhear(teller, number)
        for fellow in self.fellows:
            fellow.overhear.tell(self.name, self.told)
        self.told += 1

    def overhear(self, teller: str, number: int) -> None:
        """Hear the next number of a teller."""
        expected = self.heard.get(teller, 0)
        if number != expected:
            self.wrong.append((teller, expected, number))
        self.heard[teller] = number + 1

    def wait_for(self, file: str) -> None:
        """Be busy until there is a file; the file `file`.seen says that this has begun."""
        Path(f"{file}.seen").touch()
        while not Path(file).exists():
            time.sleep(0.01)

    def read(self) -> tuple[dict[str, int], list[tuple[str, int, int]]]:
        """What was heard, and what was wrong."""
        return self.heard, self.wrong


class Court:
    """A program that tells heralds numbers, and judges them."""

    def __init__(self, system: rayshot.System, names: Sequence[str] = NAMES, *, born: str = "", **options: Any) -> None:
        self.system = system
        self.told = 0
        self.heralds = {name: Herald.options(name=name, **options.get(name, {})).remote(name, born) for name in names}
        for name, herald in self.heralds.items():
            herald.meet.tell(*(fellow for other, fellow in self.heralds.items() if other != name))
        ray.get([herald.read.remote() for herald in self.heralds.values()])

    def tell(self, count: int = 50) -> None:
        """Tell each of them so many numbers."""
        for _ in range(count):
            for herald in self.heralds.values():
                herald.hear.tell(MAIN, self.told)
            self.told += 1

    def check(self, seconds: float = 60.0) -> None:
        """All have heard all numbers, each once and in order."""
        tellers = (MAIN, *self.heralds)
        for name in self.heralds:
            expected = {teller: self.told for teller in tellers if teller != name}
            eventually(lambda name=name, expected=expected: self._read(name) == expected, seconds)  # type: ignore[misc]

    def _read(self, name: str) -> dict[str, int]:
        heard, wrong = ray.get(self.heralds[name].read.remote(), timeout=60)
        assert wrong == [], f"{name} heard (teller, the number expected, the number that came): {wrong[:5]}"
        assert all(number <= self.told for number in heard.values()), f"{name} heard more than was told: {heard}"
        return dict(heard)


def check_cut(snapshot: Any) -> None:
    """A snapshot is sound, and what one has told is with the other, or in order on its way there."""
    assert snapshot.verify().sound
    states = snapshot.states()
    for name, state in states.items():
        assert state["wrong"] == []
        for teller in (fellow.name for fellow in state["fellows"] if fellow.name in states):
            heard = state["heard"].get(teller, 0)
            messages = snapshot.channel(teller, name).messages if (teller, name) in snapshot.channels else ()
            moving = [message.args[1] for message in messages if message.method == "overhear"]
            assert moving == [*range(heard, states[teller]["told"])], (snapshot.id, teller, name)


def host_of(system: rayshot.System, name: str) -> Any:
    """The Ray actor of an actor."""
    return ray.get(system._identity.coordinator.actors.remote())[name]


def die_there(process: Any, place: str, *, gate: str = "", victim: int = 0) -> None:
    """The process of a Ray actor dies when it passes a failpoint.

    With `gate` it stands still there first, until there is that file. With a `victim`, this process dies instead.
    """

    def arm(_: Any) -> None:
        def kill(pid: int, number: int) -> None:
            while gate and not Path(gate).exists():
                time.sleep(0.01)
            os.kill(victim or pid, number)

        failpoints._table[place] = 1
        failpoints.os = SimpleNamespace(kill=kill, getpid=os.getpid)  # type: ignore[attr-defined]

    ray.get(process.__ray_call__.remote(arm))
