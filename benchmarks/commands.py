"""What a command takes that reaches a running system, and how much of it is its own beyond joining the cluster."""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import ray

import rayshot
from benchmarks.cluster import ONE_LIFE, fresh_cluster
from benchmarks.report import Figure, Report, Series, Target

PROGRAM = str(Path(sys.executable).with_name("rayshot"))
JOINING = "import ray, logging; ray.init({address!r}, logging_level=logging.ERROR, log_to_driver=False)"
ACTORS = 20
WALL, OWN = Target("<=", 2.0), Target("<=", 0.1)
"""Seconds: of a command in all, and of processor time beyond what a program takes that only joins the cluster."""


class Idle:
    """Does nothing."""

    def ready(self) -> bool:
        """It is there."""
        return True


def run(*, short: bool) -> Report:
    """Join the cluster, ask for the status and list the systems, in turn."""
    rounds = 1 if short else 15
    taken: dict[str, tuple[list[float], list[float]]] = {}
    with fresh_cluster() as folder, rayshot.init("commands", storage=folder, failure=ONE_LIFE):
        actors = [rayshot.actor(Idle).options(name=f"idle-{number}").remote() for number in range(ACTORS)]
        ray.get([actor.ready.remote() for actor in actors])
        address = ray.get_runtime_context().gcs_address
        commands = {
            "joins only": [sys.executable, "-c", JOINING.format(address=address)],
            "rayshot status": [PROGRAM, "status", "commands", "--address", address],
            "rayshot systems": [PROGRAM, "systems", "--address", address],
        }
        for _ in range(rounds):
            for name, command in commands.items():
                wall, processor = taken.setdefault(name, ([], []))
                for seconds, one in zip((wall, processor), _run(command), strict=True):
                    seconds.append(one)
    return _report(taken, {"rounds": rounds, "actors": ACTORS})


def _run(command: list[str]) -> tuple[float, float]:
    """Wall and processor seconds of a program."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    subprocess.run(command, env=environment, capture_output=True, check=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _report(taken: dict[str, tuple[list[float], list[float]]], settings: dict[str, int]) -> Report:
    joins = taken["joins only"]
    figures = []
    for name, (wall, processor) in taken.items():
        own = [one - other for one, other in zip(processor, joins[1], strict=True)]
        judged = name != "joins only"
        figures.append(Figure.median_of(f"{name}: in all", wall, "s", WALL if judged else None))
        if judged:
            figures.append(Figure.median_of(f"{name}: own processor time", own, "s", OWN))
    return Report(
        "commands",
        "How long does a command take that reaches a running system?",
        settings,
        tuple(
            Series(f"{name}: {what}", "s", tuple(samples))
            for name, both in taken.items()
            for what, samples in zip(("in all", "processor"), both, strict=True)
        ),
        tuple(figures),
    )
