"""Actors that tell each other numbers without end, and judge whether any was lost, doubled or out of order."""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ray

import rayshot
from rayshot.runtime.door import failpoints
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

    def read(self) -> tuple[dict[str, int], list[tuple[str, int, int]], int, list[str]]:
        """What was heard, what was wrong, how many numbers each fellow was told, and the fellows."""
        return self.heard, self.wrong, self.told, [fellow.name for fellow in self.fellows]


class Court:
    """A program that tells heralds numbers, and judges them."""

    def __init__(self, system: rayshot.System, heralds: Mapping[str, Any], teller: str = MAIN) -> None:
        self.system, self.heralds, self.teller = system, dict(heralds), teller
        self.told = 0

    @classmethod
    def assemble(
        cls,
        system: rayshot.System,
        names: Sequence[str] = NAMES,
        *,
        fellows: int | None = None,
        born: str = "",
        **options: Mapping[str, Any],
    ) -> "Court":
        """Make the heralds. Each tells the `fellows` that follow, or all; `options` are those of single ones."""
        made = {name: Herald.options(name=name, **options.get(name, {})).remote(name, born) for name in names}
        others = [*made.values()]
        for number, herald in enumerate(others):
            herald.meet.tell(*(others[number + 1 :] + others[:number])[:fellows])
        ray.get([herald.read.remote() for herald in others])
        return cls(system, made)

    def tell(self, count: int = 50) -> None:
        """Tell each of them so many numbers."""
        for _ in range(count):
            for herald in self.heralds.values():
                herald.hear.tell(self.teller, self.told)
            self.told += 1

    def check(self, seconds: float = 60.0) -> None:
        """All have heard all numbers, each once and in order. Of a program that died they may have heard fewer."""
        eventually(self._all_is_heard, seconds)

    def _all_is_heard(self) -> bool:
        answers = ray.get([herald.read.remote() for herald in self.heralds.values()], timeout=120)
        found = dict(zip(self.heralds, answers, strict=True))
        for name, (heard, wrong, told, _) in found.items():
            assert wrong == [], f"{name} heard (teller, the number expected, the number that came): {wrong[:5]}"
            assert heard.get(self.teller, 0) <= self.told, f"{name} heard more than was told: {heard}"
            by_programs = sum(number for teller, number in heard.items() if teller not in found)
            assert told == by_programs, f"{name} told {told} numbers, and heard {by_programs}"
        return all(heard.get(self.teller, 0) == self.told for heard, *_ in answers) and all(
            found[fellow][0].get(name, 0) == told for name, (_, _, told, fellows) in found.items() for fellow in fellows
        )


def check_cut(snapshot: Any) -> None:
    """A snapshot is sound, and what one has told is with the other, or in order on its way there."""
    assert snapshot.verify().sound
    states = snapshot.states()
    for name, state in states.items():
        assert state["wrong"] == []
        for fellow in (fellow.name for fellow in state["fellows"]):
            heard = states[fellow]["heard"].get(name, 0)
            messages = snapshot.channel(name, fellow).messages if (name, fellow) in snapshot.channels else ()
            moving = [message.args[1] for message in messages if message.method == "overhear"]
            assert moving == [*range(heard, state["told"])], (snapshot.id, name, fellow)


def host_of(system: rayshot.System, name: str) -> Any:
    """The Ray actor of an actor."""
    return ray.get(system._identity.coordinator.actors.remote())[name]


def processes_of(system: rayshot.System) -> list[str]:
    """The Ray names of what lives of a system."""
    names = (one["name"] for one in ray.util.list_named_actors(all_namespaces=True))
    return [name for name in names if f"{name}/".startswith(f"rayshot/{system.name}/")]


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
