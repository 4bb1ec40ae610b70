"""How long a one-way message takes: on an idle channel, under load, beside snapshots; against plain Ray."""

import time
from statistics import median
from typing import Any

import ray

import rayshot
from benchmarks.cluster import ONE_LIFE, fresh_cluster, settle, wait_for
from benchmarks.messages import PATTERNS, Station, messages_per_second
from benchmarks.pacing import PacedPair, paced_pair
from benchmarks.report import Figure, Report, Series, Target
from benchmarks.samples import paired_ratios, quantile

TARGET = Target("<=", 1.15)
LOADS = (0.1, 0.5, 0.9)
"""Shares of the peak at which messages are sent under load."""
SNAPSHOT_LOAD = 0.5
ADDED_TARGET = Target("<=", 10.0)
QUANTILES = ("p50", "p99", "p99.9")
PAUSE_S = 0.005
"""Between two rallies of the quiet sort: everything that a rally left to do is done by then."""


BALL = (1, 2)
"""What a message carries. Messages without arguments are measured too: Ray has a shorter way for calls without any."""


class Player:
    """Plays one ball to and fro with a peer. `way` is how it sends: by "tell" or by "remote"."""

    def meet(self, peer: Any, way: str) -> None:
        """Get to know the other one."""
        self.peer = peer
        self.way = way

    def rally(self, count: int, pause_s: float, ball: tuple[int, ...]) -> None:
        """Serve: `count` round trips, with a pause before each."""
        self.left = count
        self.pause_s = pause_s
        self.ball = ball
        self.one_way_s: list[float] = []
        self._strike()

    def strike_back(self, *ball: int) -> None:
        """The ball came: return it."""
        getattr(self.peer.come_back, self.way)(*ball)

    def come_back(self, *_ball: int) -> None:
        """The ball came back: half of the time is one way."""
        self.one_way_s.append((time.perf_counter() - self.struck_at) / 2)
        self.left -= 1
        if self.left:
            self._strike()

    def times(self) -> list[float] | None:
        """Seconds of each one way; None while the ball flies."""
        return None if self.left else self.one_way_s

    def _strike(self) -> None:
        if self.pause_s:
            time.sleep(self.pause_s)
        self.struck_at = time.perf_counter()
        getattr(self.peer.strike_back, self.way)(*self.ball)


def run(*, short: bool) -> Report:
    """Measure in turn: ball on ball and with pauses, with arguments and without; then paced; then with snapshots."""
    rounds, count, quiet_count = (2, 20, 5) if short else (3, 400, 100)
    paced_rounds, window_s, peak_messages, peak_calls = (1, 0.1, 500, 50) if short else (2, 2.0, 400_000, 4_000)
    snapshot_rounds, interval_s = (1, 0.1) if short else (4, 1.0)
    sorts = {
        "": (count, 0.0, BALL),
        ", quiet": (quiet_count, PAUSE_S, BALL),
        ", no arguments": (count, 0.0, ()),
        ", quiet, no arguments": (quiet_count, PAUSE_S, ()),
    }
    series: dict[str, list[list[float]]] = {}
    with fresh_cluster() as folder, rayshot.init("latency", storage=folder, failure=ONE_LIFE) as system:
        decorated, remote = rayshot.actor(Player), ray.remote(Player)
        ways = {
            "rayshot": _pair(decorated.remote(), decorated.remote(), "tell"),
            "ray": _pair(remote.remote(), remote.remote(), "remote"),
        }
        for player in ways.values():  # once to warm up
            _one_way_s(player, count // 4, 0.0, BALL)
        for _ in range(rounds):
            for sort, how in sorts.items():
                for name, player in ways.items():
                    series.setdefault(f"{name}{sort}", []).append(_one_way_s(player, *how))
        peaks = _peaks(peak_messages, peak_calls)
        paced = {"rayshot": paced_pair(rayshot.actor), "ray": paced_pair(ray.remote)}
        loaded = _under_load(paced, peaks, paced_rounds, window_s)
        beside = _beside_snapshots(
            system, paced["rayshot"], SNAPSHOT_LOAD * peaks["rayshot"], snapshot_rounds, interval_s
        )
    return Report(
        "latency",
        "How long does a one-way message take to arrive?",
        {"rounds": rounds, "round_trips": count, "quiet_round_trips": quiet_count, "pause_s": PAUSE_S}
        | {"peaks": peaks, "window_s": window_s, "snapshot_interval_s": interval_s},
        (
            *(
                Series(name, "us", tuple(round(one_way_s * 1e6, 1) for times in parts for one_way_s in times))
                for name, parts in series.items()
            ),
            *(Series(name, "ms", tuple(samples)) for name, samples in {**loaded, **beside}.items()),
        ),
        (
            *(_p50(name, parts) for name, parts in series.items()),
            *(
                Figure(f"{name} p99", quantile([t * 1e6 for times in parts for t in times], 0.99), "us")
                for name, parts in series.items()
            ),
            *(_ratio(f"rayshot / ray{sort}", series[f"rayshot{sort}"], series[f"ray{sort}"]) for sort in sorts),
            *(Figure.median_of(name, samples, "ms") for name, samples in {**loaded, **beside}.items()),
            Figure.median_of(
                "p99 added by snapshots",
                [on - off for on, off in zip(beside["with snapshots p99"], beside["without p99"], strict=True)],
                "ms",
                ADDED_TARGET,
            ),
        ),
    )


def _peaks(messages: int, calls: int) -> dict[str, float]:
    """Messages a second that one actor can send another, by the way it sends."""
    ours, plain = ([made(Station).remote() for _ in range(2)] for made in (rayshot.actor, ray.remote))

    def by_tell(count: int) -> float:
        return messages_per_second(PATTERNS[0], ours, count, lambda sender, peers: sender.send.tell(peers, count, BALL))

    def by_call(count: int) -> float:
        return messages_per_second(
            PATTERNS[0], plain, count, lambda sender, peers: sender.send_by_ray.remote(peers, count, BALL)
        )

    by_tell(messages // 10)
    by_call(calls // 10)
    return {
        "rayshot": median(by_tell(messages) for _ in range(3)),
        "ray": median(by_call(calls) for _ in range(3)),
    }


def _under_load(
    paced: dict[str, PacedPair], peaks: dict[str, float], rounds: int, window_s: float
) -> dict[str, list[float]]:
    """In ms by name: each way at shares of its own peak, and rayshot at those of plain Ray's."""
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        for share in LOADS:
            for name, way, peak in (
                ("rayshot", "rayshot", peaks["rayshot"]),
                ("ray", "ray", peaks["ray"]),
                ("rayshot at Ray's load", "rayshot", peaks["ray"]),
            ):
                _, latencies_ms = paced[way].measure(share * peak, window_s)
                for quantile_name, value in zip(QUANTILES, latencies_ms, strict=True):
                    found.setdefault(f"{name}, {share:.0%} {quantile_name}", []).append(value)
    return found


def _beside_snapshots(
    system: rayshot.System, pair: PacedPair, rate: float, rounds: int, interval_s: float
) -> dict[str, list[float]]:
    """In ms by name: in windows without snapshots, and with one every `interval_s`, in turn."""
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, interval in (("without", None), ("with snapshots", interval_s)):
            system.configure(rayshot.SnapshotConfig(interval_s=interval))
            _, latencies_ms = pair.measure(rate, 5 * interval_s)
            for quantile_name, value in zip(QUANTILES, latencies_ms, strict=True):
                found.setdefault(f"{name} {quantile_name}", []).append(value)
        settle(system)
    return found


def _pair(first: Any, second: Any, way: str) -> Any:
    ray.get([first.meet.remote(second, way), second.meet.remote(first, way)])
    return first


def _one_way_s(player: Any, count: int, pause_s: float, ball: tuple[int, ...]) -> list[float]:
    ray.get(player.rally.remote(count, pause_s, ball))
    return wait_for(lambda: ray.get(player.times.remote()), "the last ball")


def _p50(name: str, parts: list[list[float]]) -> Figure:
    return Figure.median_of(f"{name} p50", [median(times) * 1e6 for times in parts], "us")


def _ratio(name: str, ours: list[list[float]], plain: list[list[float]]) -> Figure:
    ratios = paired_ratios([median(times) for times in ours], [median(times) for times in plain])
    return Figure.median_of(name, ratios, "x", TARGET)
