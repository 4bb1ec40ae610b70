"""How long a snapshot takes while messages queue up before a slow actor: recorded in flight, or waited for."""

import time
from pathlib import Path
from typing import Any, NamedTuple

import ray

import rayshot
from benchmarks.cluster import ONE_LIFE, fresh_cluster, wait_for
from benchmarks.report import Figure, Report, Series, Target
from benchmarks.samples import paired_ratios
from rayshot.protocol.identity import Mode

HANDLER_S = 0.001
PAYLOAD = bytes(100)
SIZES = (100, 1_000, 10_000, 100_000)
ALIGNED_S_MAX = 20.0
"""An aligned snapshot waits for all that is queued; one that would wait for longer is not taken."""
TARGET = Target("<=", 1.5)
MODES: tuple[Mode, ...] = ("chandy-lamport", "aligned")


class Feeder:
    """Sends messages to the slow one."""

    def feed(self, slow: rayshot.ActorHandle, count: int) -> None:
        """So many."""
        for _ in range(count):
            slow.take.tell(PAYLOAD)


class Slow:
    """Takes its time for each message while the file `brake` exists."""

    def __init__(self, brake: str) -> None:
        self.brake = Path(brake)
        self.count = 0

    def take(self, _payload: bytes) -> None:
        """Process one message."""
        self.count += 1
        if self.brake.exists():
            time.sleep(HANDLER_S)

    def read(self) -> int:
        """How many were processed."""
        return self.count


def run(*, short: bool) -> Report:
    """Measure in turn: for each backlog, one snapshot of each kind."""
    rounds, sizes = (1, (100, 1_000)) if short else (3, SIZES)
    found: dict[tuple[str, int], list[_Taken]] = {}
    with fresh_cluster() as folder, rayshot.init("backlog", storage=folder / "shots", failure=ONE_LIFE) as system:
        line = _Line(system, folder / "brake")
        line.snapshot(sizes[0], MODES[0])  # once to warm up
        for turn in range(rounds):
            for size in sizes:
                for mode in MODES:
                    if mode == "aligned" and not _affordable(size, turn):
                        continue
                    found.setdefault((mode, size), []).append(line.snapshot(size, mode))
    return _report(found, {"rounds": rounds, "sizes": list(sizes), "handler_s": HANDLER_S})


def _affordable(size: int, turn: int) -> bool:
    """Whether an aligned snapshot is taken: never a very long one, and long ones in every other round only."""
    waited_s = size * HANDLER_S
    return waited_s <= ALIGNED_S_MAX / (10 if turn % 2 else 1)


class _Taken(NamedTuple):
    """One snapshot: seconds until it was durable, and until all had recorded; bytes recorded in flight."""

    duration_s: float
    recorded_s: float
    in_flight_bytes: int


class _Line:
    """A feeder before the slow one, with their channel declared."""

    def __init__(self, system: rayshot.System, brake: Path) -> None:
        self.system = system
        self.brake = brake
        self.feeder: Any = rayshot.actor(Feeder).options(name="feeder").remote()
        self.slow: Any = rayshot.actor(Slow).options(name="slow").remote(str(brake))
        self.sent = 0
        system.connect(self.feeder, self.slow)

    def snapshot(self, size: int, mode: Mode) -> _Taken:
        """Take one behind so many queued messages, then let them be processed."""
        self.brake.touch()
        ray.get(self.feeder.feed.remote(self.slow, size))
        self.sent += size
        began_at = time.perf_counter()
        snapshot = self.system.snapshot(mode=mode)
        took_s = time.perf_counter() - began_at
        self.brake.unlink()
        wait_for(lambda: ray.get(self.slow.read.remote()) == self.sent or None, "the last queued message")
        in_flight = sum(blob.size for channel in snapshot.manifest.channels for blob in channel.blobs())
        return _Taken(took_s, float(snapshot.stats["recorded_s"]), in_flight)


def _report(found: dict[tuple[str, int], list[_Taken]], settings: dict[str, Any]) -> Report:
    sizes = settings["sizes"]
    durations = {key: [one.duration_s for one in taken] for key, taken in found.items()}
    in_flight = {key: [one.in_flight_bytes / 1e3 for one in taken] for key, taken in found.items()}
    waits = {size: size * HANDLER_S for size in sizes if ("aligned", size) not in found}
    small, large = sizes[0], sizes[min(2, len(sizes) - 1)]
    return Report(
        "backlog",
        "How long does a snapshot take while messages queue before a slow actor?",
        settings,
        (
            *(Series(f"{named(*key)}: duration", "s", tuple(samples)) for key, samples in durations.items()),
            *(
                Series(f"{named(*key)}: recorded", "s", tuple(one.recorded_s for one in taken))
                for key, taken in found.items()
            ),
            *(Series(f"{named(*key)}: recorded in flight", "kB", tuple(samples)) for key, samples in in_flight.items()),
        ),
        (
            *(Figure.median_of(f"{named(*key)}: duration", durations[key], "s") for key in sorted(found)),
            *(
                Figure(f"{named('aligned', size)}: not measured, it would take", wait_s, "s")
                for size, wait_s in waits.items()
            ),
            *(Figure.median_of(f"{named(*key)}: recorded in flight", in_flight[key], "kB") for key in sorted(found)),
            Figure.median_of(
                f"chandy-lamport: duration at {large:,} / at {small:,} queued",
                paired_ratios(durations["chandy-lamport", large], durations["chandy-lamport", small]),
                "x",
                TARGET,
            ),
        ),
    )


def named(mode: str, size: int) -> str:
    """A measurement in words."""
    return f"{mode}, {size:,} queued"
