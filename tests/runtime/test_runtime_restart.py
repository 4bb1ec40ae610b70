"""`System.restart`: one call stops a system and goes on from there, in new processes."""

from types import SimpleNamespace

import pytest
import ray

import rayshot
from rayshot import SnapshotConfig
from rayshot.errors import CodeMismatch, ConfigError, RestoreFailed, SystemDown
from rayshot.places.kinds import open_store
from rayshot.runtime.opening import restart
from rayshot.snapshots.upkeep.pins import pin_of
from tests.runtime.evolved import Purse, UnwillingWallet, Wallet
from tests.runtime.healed import Till, kill, until_it_runs
from tests.runtime.test_runtime_restore import running
from tests.runtime.workloads import Account, Sink, Source
from tests.waiting import eventually

pytestmark = pytest.mark.ray
MODULE = "tests.runtime.evolved"


@rayshot.actor(version=2)
class Later(Wallet):
    """Of a later version than the recorded state, and it does not say how to migrate."""


def pids(system):
    return {name: status["pid"] for name, status in system._client.ask("status")["actors"].items()}


def test_a_system_goes_on_in_new_processes_with_every_message_once_and_in_order(new_system):
    config = SnapshotConfig(num_to_keep=2)
    system = new_system(snapshots=config)
    sink = Sink.options(name="sink").remote()
    source = Source.options(name="source").remote([sink], 20_000, 100)
    ray.get([sink.report.remote(), source.progress.remote()])
    source.go_on.tell(source)
    eventually(lambda: ray.get(source.progress.remote()) or None)
    before = pids(system)
    again = system.restart()
    new_system.made.append(again)
    assert (again.name, again.storage, again.incarnation) == (system.name, system.storage, 2)
    assert again.config() == config
    assert not set(before.values()) & set(pids(again).values())
    sink_now = again.get_actor("sink")
    eventually(lambda: sum(ray.get(sink_now.report.remote())[0].values()) == 20_000 or None, 60)
    assert ray.get(sink_now.report.remote()) == ({"source": 20_000}, [])
    assert ray.get(sink.report.remote()) == ({"source": 20_000}, []), "a handle from before goes on in the new life"
    with pytest.raises(SystemDown):
        system.snapshot()
    taken = [again.snapshot() for _ in range(3)]
    eventually(lambda: again.snapshots() == taken[-2:] or None)


def test_a_label_keeps_the_savepoint_for_ever(new_system):
    system = new_system(snapshots=SnapshotConfig(num_to_keep=1))
    ray.get(Account.options(name="alice").remote(7).read.remote())
    again = system.restart(label="before version 2")
    new_system.made.append(again)
    taken = [again.snapshot() for _ in range(3)]
    eventually(lambda: len(again.snapshots()) == 2 or None)
    assert [(one.label, one.id) for one in again.snapshots()] == [
        ("before version 2", again.snapshots()[0].id),
        (None, taken[-1].id),
    ]
    with pytest.raises(ConfigError, match="label"):
        again.restart(label="")
    assert ray.get(again.get_actor("alice").read.remote()) == 7


def test_a_class_of_today_takes_over_the_state_of_the_class_before(new_system):
    system = new_system()
    alice = Wallet.options(name="alice").remote(1)
    ray.get(alice.read.remote())
    again = system.restart(rename_classes={f"{MODULE}.Wallet": Purse, f"{MODULE}.Money": f"{MODULE}.Coin"})
    new_system.made.append(again)
    assert ray.get(again.get_actor("alice").read.remote()) == [("Coin", 1)]


@pytest.mark.sampled("more cases of one kind", keeps=2)
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"rename_classes": {f"{MODULE}.Wallet": f"{MODULE}.Nowhere"}}, ConfigError),
        ({"rename_classes": {f"{MODULE}.Wallet": Later}}, CodeMismatch),
        ({"skip_missing_classes": ["nobody"]}, rayshot.errors.NotFound),
        ({"options": {"nobody": {"num_cpus": 1}}}, Exception),
        ({"allow_unsigned": "yes"}, ConfigError),
    ],
)
def test_what_does_not_fit_is_refused_before_the_stop_and_the_system_goes_on(new_system, arguments, error):
    system = new_system()
    alice = Wallet.options(name="alice").remote(1)
    ray.get(alice.read.remote())
    before = pids(system)
    with pytest.raises(error):
        system.restart(**arguments)
    assert system.status().state == "running"
    assert pids(system) == before
    assert ray.get(alice.read.remote()) == [("Money", 1)]


@pytest.mark.wide("slow")
def test_where_the_new_code_takes_no_state_the_error_says_from_which_savepoint_to_go_on(new_system):
    system = new_system()
    alice = Wallet.options(name="alice").remote(1)
    ray.get(alice.read.remote())
    with pytest.raises(
        RestoreFailed, match=r"is stopped with the savepoint 1-stopped-2, and could not go on"
    ) as failed:
        system.restart(rename_classes={f"{MODULE}.Wallet": UnwillingWallet})
    assert failed.value.evidence["snapshot"] == "1-stopped-2"
    assert running(system) == []
    restored = rayshot.restore(system.name, storage=system.storage, snapshot=failed.value.evidence["snapshot"])
    new_system.made.append(restored)
    assert ray.get(restored.get_actor("alice").read.remote()) == [("Money", 1)]


def test_a_snapshot_that_cannot_be_taken_leaves_the_system_as_it_was(new_system):
    system = new_system(snapshots=SnapshotConfig(timeout_s=0.5))
    alice = Account.options(name="alice").remote(1)
    ray.get(alice.read.remote())
    alice.pause.tell(2.0)
    with pytest.raises(rayshot.errors.SnapshotAborted):
        system.restart()
    assert ray.get(alice.read.remote()) == 1
    assert list(open_store(system.storage).list(f"{system.name}/manifests")) == []


def test_a_restart_stays_under_the_pin_of_the_life_before(new_system, monkeypatch):
    system = new_system()
    ray.get(Account.options(name="alice").remote(1).read.remote())
    pinned = system.snapshot()
    system.shutdown()
    monkeypatch.setenv("RAYSHOT_RESTORE_SNAPSHOT", str(pinned.id))
    resumed = rayshot.resume(system.name, storage=system.storage, begin=lambda _: None)
    new_system.made.append(resumed)
    again = resumed.restart()
    new_system.made.append(again)
    assert pin_of(open_store(system.storage), system.name, again.incarnation) == pinned.id


def test_a_program_with_another_key_is_refused_before_the_stop(new_system, monkeypatch):
    system = new_system()
    alice = Account.options(name="alice").remote(1)
    ray.get(alice.read.remote())
    other = SimpleNamespace(signing=SimpleNamespace(key_id="another"))
    monkeypatch.setattr(restart, "load_keyring", lambda local: other)
    with pytest.raises(ConfigError, match="with the key another, and the system signs with"):
        system.restart()
    assert ray.get(alice.read.remote()) == 1


def test_a_with_block_ends_the_life_that_a_restart_in_it_began(new_system):
    with new_system() as system:
        ray.get(Account.options(name="alice").remote(1).read.remote())
        again = system.restart()
        assert ray.get(again.get_actor("alice").read.remote()) == 1
    assert running(again) == []


def test_where_another_program_was_faster_the_error_says_how_to_reach_that_life(new_system, monkeypatch):
    system = new_system()
    ray.get(Account.options(name="alice").remote(1).read.remote())
    begin = restart.bring_back

    def too_late(*arguments, **options):
        new_system.made.append(rayshot.restore(system.name, storage=system.storage))
        return begin(*arguments, **options)

    monkeypatch.setattr(restart, "bring_back", too_late)
    with pytest.raises(RestoreFailed, match=r"Another program has begun a life of it: rayshot.attach\("):
        system.restart()
    assert new_system.made[-1].status().state == "running"


def test_a_life_that_began_with_a_savepoint_goes_back_to_it_by_itself(new_system):
    system = new_system()
    till = Till.options(name="killed").remote()
    till.add.tell("before")
    restarted = system.restart()
    new_system.made.append(restarted)
    till.add.tell("behind")
    kill(restarted, "killed")
    until_it_runs(restarted)
    restarted.wait_until_running(30)
    assert ray.get(restarted.get_actor("killed").read.remote()) == 2
    assert restarted.stop_with_savepoint("enough").label == "enough"
