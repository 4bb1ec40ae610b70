"""How cuts lie to each other, as their counters tell it, is how they do in the runs that they were taken in."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from rayshot.protocol.identity import is_driver
from rayshot.snapshots.relation import relate
from tests.simulate.commit import Commit
from tests.simulate.schedule import run_seed
from tests.simulate.world import World

SEEDS = 400


@pytest.fixture
def committed(monkeypatch: pytest.MonkeyPatch) -> list[Commit]:
    """The snapshots of the world that runs, each with where it has each process, in the order of their commits."""
    found: list[Commit] = []
    as_it_is = World.on_store

    def on_store(world: World, coordinator: Any, commit: Commit) -> None:
        as_it_is(world, coordinator, commit)
        if world.commits and world.commits[-1] is commit:
            found.append(commit)

    monkeypatch.setattr(World, "on_store", on_store)
    return found


def manifest(commit: Commit, position: int) -> Any:
    """What of a manifest is compared."""
    cut = commit.stored.cut
    return SimpleNamespace(
        system="world",
        snapshot=cut.snapshot,
        position=position,
        actors=[SimpleNamespace(name=name) for name in commit.positions.keys() - cut.ended | {*cut.unborn}],
        ended=cut.ended,
        stats={},
        channels=[
            SimpleNamespace(sender=c.channel.sender, receiver=c.channel.receiver, sent=c.sent, received=c.received)
            for c in cut.channels
        ],
    )


def drivers(commit: Commit) -> dict[Any, int]:
    """What drivers had sent before the cut."""
    return {c.channel: c.sent for c in commit.stored.cut.channels if is_driver(c.channel.sender)}


def known(commit: Commit) -> tuple[Any, ...]:
    """Its life, its processes, the ended, drivers' channels: what must agree where counters alone are compared."""
    cut = commit.stored.cut
    return cut.snapshot.incarnation, commit.positions.keys(), {*cut.ended}, drivers(commit).keys()


def moved(old: Commit, new: Commit) -> dict[int, set[str]]:
    """Who stands further on in the run (1), and who further back (-1), by the truth."""
    steps = [(name, new.positions[name] - old.positions[name]) for name in old.positions]
    steps += [(channel.receiver, drivers(new)[channel] - n) for channel, n in drivers(old).items()]
    return {way: {name for name, step in steps if step * way > 0} for way in (1, -1)}


def test_the_counters_tell_who_goes_forward_and_who_back(committed: list[Commit]) -> None:
    told: Counter[str] = Counter()
    missed = 0
    for seed in range(SEEDS):
        committed.clear()
        assert run_seed(seed).failure is None
        for at, old in enumerate(committed):
            for later, new in enumerate(committed[at + 1 :], at + 1):
                if known(old) != known(new):
                    continue
                relation = relate(manifest(old, at), manifest(new, later))
                truth = moved(old, new)
                assert {*relation.forward} <= truth[1], seed
                assert {*relation.back} <= truth[-1], seed
                missed += {*relation.forward} != truth[1] or {*relation.back} != truth[-1]
                told[relation.name] += 1
    assert min(told[name] for name in ("before", "after", "equal", "incomparable")) > 5, told
    assert missed < 0.02 * told.total()  # by steps that neither take nor send a message
