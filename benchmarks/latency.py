"""How long a one-way message takes to arrive at an idle actor, against a plain Ray call."""

import time
from statistics import median
from typing import Any

import ray

import rayshot
from benchmarks.cluster import fresh_cluster, wait_for
from benchmarks.report import Figure, Report, Series, Target
from benchmarks.samples import paired_ratios, quantile

TARGET = Target("<=", 1.3)
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
    """Measure in turn: ball on ball and with pauses, with arguments and without."""
    rounds, count, quiet_count = (2, 20, 5) if short else (10, 1_000, 200)
    sorts = {
        "": (count, 0.0, BALL),
        ", quiet": (quiet_count, PAUSE_S, BALL),
        ", no arguments": (count, 0.0, ()),
        ", quiet, no arguments": (quiet_count, PAUSE_S, ()),
    }
    series: dict[str, list[list[float]]] = {}
    with fresh_cluster() as folder, rayshot.init("latency", storage=folder):
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
    return Report(
        "latency",
        "How long does a one-way message take to arrive at an idle actor?",
        {"rounds": rounds, "round_trips": count, "quiet_round_trips": quiet_count, "pause_s": PAUSE_S},
        tuple(
            Series(name, "us", tuple(round(one_way_s * 1e6, 1) for times in parts for one_way_s in times))
            for name, parts in series.items()
        ),
        (
            *(_p50(name, parts) for name, parts in series.items()),
            *(
                Figure(f"{name} p99", quantile([t * 1e6 for times in parts for t in times], 0.99), "us")
                for name, parts in series.items()
            ),
            *(_ratio(f"rayshot / ray{sort}", series[f"rayshot{sort}"], series[f"ray{sort}"]) for sort in sorts),
        ),
    )


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
