"""The newest snapshot is damaged: nothing goes further back by itself, and every error offers the way there."""

import re
from pathlib import Path

import pytest
import ray

import rayshot
from rayshot.errors import ActorDied, Damaged, RestoreFailed, SystemDown
from tests.runtime.healed import kill, report, until_it_stops
from tests.runtime.workloads import Account

pytestmark = pytest.mark.ray


def spoil(system, part, newest, before):
    """Cut the manifest of the newest snapshot, or a chunk that it does not share."""
    if part == "manifest":
        path = Path(system.storage) / "bank" / newest.record.manifest_key
    else:
        (chunk,) = set(newest.manifest.chunks) - set(before.manifest.chunks)
        path = Path(system.storage) / "bank" / chunk.key
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.sampled("more cases of one kind", keeps=1)
@pytest.mark.acceptance("S4", "X5")
@pytest.mark.parametrize("part", ["chunk", "manifest"])
def test_every_error_offers_the_way_round_a_damaged_snapshot_and_it_works_as_it_is_said(new_system, monkeypatch, part):
    system = new_system("bank")
    alice, bob = (Account.options(name=name).remote(1) for name in ("alice", "bob"))
    ray.get([alice.read.remote(), bob.read.remote()])
    whole = system.snapshot()
    ray.get(alice.deposit.remote(5))
    spoil(system, part, system.snapshot(), whole)
    messages = "1 messages" if part == "chunk" else "an unknown number of messages"
    kill(system, "bob")
    until_it_stops(system)
    errors = [report(system)["stop"].error()]
    for door in (
        lambda: rayshot.resume("bank", storage=system.storage, begin=print),
        lambda: rayshot.restore(storage=system.storage),
    ):
        with pytest.raises((RestoreFailed, Damaged)) as caught:
            door()
        errors.append(caught.value)
    assert isinstance(errors[0], SystemDown)
    assert "bob" in errors[0].message.partition("went back")[0]
    assert part == "manifest" or (isinstance(errors[0], ActorDied) and errors[0].evidence["actor"] == "bob")
    offers = {error.message[error.message.index("The newest one before it") :] for error in errors}
    (offer,) = offers
    assert messages in offer
    assert not any("take another" in error.message for error in errors)
    (pin,) = re.findall(r"RAYSHOT_RESTORE_SNAPSHOT=(\S+),", offer)
    monkeypatch.setenv("RAYSHOT_RESTORE_SNAPSHOT", pin)
    new_system.made.append(rayshot.resume("bank", storage=system.storage, begin=print))
    monkeypatch.delenv("RAYSHOT_RESTORE_SNAPSHOT")
    assert ray.get(new_system.made[-1].get_actor("alice").read.remote()) == 1
    new_system.made[-1].shutdown()
    (call,) = re.findall(r"(rayshot\.restore\(.*\))", offer)
    new_system.made.append(eval(call))
    assert ray.get(new_system.made[-1].get_actor("alice").read.remote()) == 1
