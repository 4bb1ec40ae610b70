"""From `rayshot.restore` to the first message handled, against reading and unpickling the same bytes."""

import pickle
import time
from pathlib import Path
from typing import Any

import ray

import rayshot
from benchmarks.cluster import ONE_LIFE, fresh_cluster
from benchmarks.memory import check_memory
from benchmarks.report import Figure, Report, Series, Target
from benchmarks.samples import Measure, paired_ratios
from benchmarks.states import Holder, random_bits

TARGET = Target("<=", 1.3)
ACTORS = 16
RESTORE, ACTORS_LOAD = "rayshot.restore", "plain Ray actors that unpickle"
OPEN, UNPICKLE = "rayshot.open: all states", "one process that unpickles"


class Loader:
    """A plain Ray actor that loads its state from a pickle."""

    def __init__(self, path: str) -> None:
        self.array = pickle.loads(Path(path).read_bytes())

    def size_bytes(self) -> int:
        """The bytes of the state."""
        return int(self.array.nbytes)


def run(*, short: bool) -> Report:
    """Measure in turn. All files were read just before, so they lie in the page cache for all alike."""
    rounds, size_bytes = (1, 32 << 20) if short else (2, 1 << 30)
    actors = 2 if short else ACTORS
    check_memory(size_bytes, memory_per_state=6, shared_memory_per_state=4)
    with fresh_cluster(object_store_bytes=3 * size_bytes) as folder:
        files = _prepare(folder, actors, size_bytes // actors)
        ways: dict[str, Measure] = {
            RESTORE: lambda: _restore_s(folder / "shots", actors),
            ACTORS_LOAD: lambda: _actors_s(files),
            OPEN: lambda: _open_s(folder / "shots"),
            UNPICKLE: lambda: _unpickle_s(files),
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, measure in ways.items():
                _warm(folder)
                seconds[name].append(measure())
    return Report(
        "restore",
        f"How long does it take to restore {actors} actors with {size_bytes >> 20:,} MB in all?",
        {"rounds": rounds, "state_bytes": size_bytes, "actors": actors, "page_cache": "warm"},
        tuple(Series(name, "s", tuple(samples)) for name, samples in seconds.items()),
        (
            *(Figure.median_of(name, samples, "s") for name, samples in seconds.items()),
            Figure.median_of(
                f"whole: {RESTORE} / {UNPICKLE}", paired_ratios(seconds[RESTORE], seconds[UNPICKLE]), "x", TARGET
            ),
            Figure.median_of(
                f"with processes: {RESTORE} / {ACTORS_LOAD}", paired_ratios(seconds[RESTORE], seconds[ACTORS_LOAD]), "x"
            ),
            Figure.median_of(
                f"loading alone: {OPEN} / {UNPICKLE}", paired_ratios(seconds[OPEN], seconds[UNPICKLE]), "x"
            ),
        ),
    )


def _prepare(folder: Path, actors: int, size_bytes: int) -> list[Path]:
    """A snapshot of so many actors, and a pickle of the state of each."""
    with rayshot.init("restore", storage=folder / "shots", failure=ONE_LIFE) as system:
        holder = rayshot.actor(capture="fork")(Holder)
        held = [holder.options(name=f"holder-{seed}").remote(size_bytes, seed) for seed in range(actors)]
        assert ray.get([one.size_bytes.remote() for one in held]) == [size_bytes] * actors
        system.snapshot()
    files = [folder / f"{seed}.pickle" for seed in range(actors)]
    for seed, file in enumerate(files):
        file.write_bytes(pickle.dumps(random_bits(size_bytes, seed), protocol=5))
    return files


def _restore_s(storage: Path, actors: int) -> float:
    began_at = time.perf_counter()
    with rayshot.restore("restore", storage=storage, failure=ONE_LIFE) as system:
        ray.get(system.get_actor("holder-0").size_bytes.remote())
        took_s = time.perf_counter() - began_at
        assert len(system.actors()) == actors
        return took_s


def _actors_s(files: list[Path]) -> float:
    loader = ray.remote(Loader)
    began_at = time.perf_counter()
    actors: list[Any] = [loader.remote(str(file)) for file in files]
    ray.get([actor.size_bytes.remote() for actor in actors])
    took_s = time.perf_counter() - began_at
    for actor in actors:
        ray.kill(actor)
    return took_s


def _open_s(storage: Path) -> float:
    began_at = time.perf_counter()
    rayshot.open(storage).systems["restore"].latest().states()
    return time.perf_counter() - began_at


def _unpickle_s(files: list[Path]) -> float:
    began_at = time.perf_counter()
    states = [pickle.loads(file.read_bytes()) for file in files]
    took_s = time.perf_counter() - began_at
    assert len(states) == len(files)
    return took_s


def _warm(folder: Path) -> None:
    """Read all files, so that the page cache holds them."""
    for file in folder.rglob("*"):
        if file.is_file():
            with file.open("rb", buffering=0) as opened:
                while opened.read(4 << 20):
                    pass
