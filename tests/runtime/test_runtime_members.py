"""Which vault writes what, and of which records; who hears of a death."""

import threading
import time
from types import SimpleNamespace

import pytest
import ray

from rayshot.errors import NameTaken
from rayshot.model.dead_letter import DeadLetter
from rayshot.model.dead_letters import DEAD_LETTERS_MAX, RECORDED_MAX
from rayshot.protocol.identity import SnapshotId
from rayshot.protocol.record import Record
from rayshot.runtime.coordinator import members as members_module
from rayshot.runtime.coordinator.death_watch import AGAIN_S, DeathWatch
from rayshot.runtime.coordinator.members import Living, Members
from rayshot.runtime.coordinator.report_intake import Arrived, Gathered
from rayshot.runtime.coordinator.system_lock import SystemLock
from rayshot.runtime.coordinator.takeover import find_remains
from rayshot.runtime.door import door
from rayshot.runtime.door.door import NAMESPACE
from rayshot.runtime.door.naming import actor_name
from rayshot.runtime.wire.host_identity import Abandoned, Ending
from rayshot.runtime.wire.orders import Issuer
from tests.waiting import eventually


def held_lock():
    """One that this thread holds from now on."""
    lock = SystemLock()
    lock.__enter__()
    return lock


def members(*nodes):
    known = Members("bank", Issuer(1, 0), "/shots", lambda *_: None, held_lock())
    known.roster = {"alice"}
    known._vaults.update({node: f"vault of {node}" for node in nodes})
    known._nodes.update(alice="near", bob="far", gone="left")
    return known


def test_a_vault_that_has_nothing_to_write_is_not_waited_for_as_its_node_may_be_gone():
    shares = members("left", "far", "near").shares({"alice": b"a", "bob": b"b", "unknown": b"u"})
    assert sorted(shares) == [("vault of far", [b"b"]), ("vault of left", [b"u"]), ("vault of near", [b"a"])]
    assert members("left", "far", "near").shares({"alice": b"a"}) == [("vault of near", [b"a"])]


def test_where_nobody_recorded_one_vault_writes_what_the_ended_left_behind():
    assert members("left", "near").shares({}) == [("vault of left", [])]
    assert members().shares({}) == []


def test_of_an_actor_that_ended_only_its_name_and_why_are_kept():
    known = members("left", "near")
    assert known.end("alice", Ending("actor 'alice' ended"))
    eventually(lambda: not known.roster)
    assert "alice" not in known._nodes
    assert known.fate("alice") == Ending("actor 'alice' ended")
    assert not known.end("alice", Ending("again"))


def test_dead_letters_of_the_actors_that_ended_last_are_kept_and_those_of_the_snapshot_go_on_into_the_next_life():
    known, names = members(), [f"a{number}" for number in range(30)]
    known.roster = set(names)
    for name in names:
        letters = tuple(DeadLetter(name, "driver:1", number, "put", "no", 1) for number in range(150))
        known.end(name, Ending(f"actor {name!r} ended", letters=letters))
    assert list(known.letters) == names[-(DEAD_LETTERS_MAX // 150) :]
    later = members()
    later.inherit(known, {"a29", "a3", "bob"})
    assert list(later.letters) == ["a29"]
    assert later.letters["a29"] == known.letters["a29"][-RECORDED_MAX:]


class AnyVault:
    """Notes what it is told."""

    def __init__(self):
        self.told = []

    def __getattr__(self, method):
        return SimpleNamespace(remote=lambda *args: self.told.append((method, *args)))


def test_a_vault_that_died_between_two_lives_gets_keys_and_fit_from_the_later_one(monkeypatch):
    monkeypatch.setattr(members_module.DeathWatch, "add", lambda *_: None)
    before, later = members(), members()
    vault = before._vaults["near"] = AnyVault()
    before._keyring, before.fitted = "keys", "fit"
    later.inherit(before, ())
    assert vault.told == [("hold_keys", "keys"), ("hold_fit", "fit")]


@pytest.mark.acceptance("P6")
def test_an_end_that_cannot_be_written_down_now_is_known_all_the_same_and_written_later(monkeypatch):
    class Away(set):
        def remove(self, name):
            tries.append(name)
            if len(tries) == 1:
                raise door.ControlServiceSilent("the control service does not answer")
            super().remove(name)

    monkeypatch.setattr(members_module, "AGAIN_S", 0.01)
    known, tries = members("near"), []
    known.roster, heard = Away({"alice"}), []
    known.hosts["bob"] = SimpleNamespace(receiver_ended=SimpleNamespace(remote=lambda *told: heard.append(told[1:])))
    assert known.end("alice", Ending("actor 'alice' ended"))
    assert heard == [("alice", "actor 'alice' ended")]
    eventually(lambda: not known.roster)
    assert tries == ["alice"] * 2


def test_a_record_that_comes_in_while_shares_are_made_spoils_nothing():
    known, bodies = members("near"), {"alice": b"a", "bob": b"b"}

    class Nodes(dict):
        def get(self, name, default):
            bodies["late"] = b"l"
            return super().get(name, default)

    known._nodes = Nodes(alice="near", bob="near")
    assert known.shares(bodies) == [("vault of near", [b"a", b"b"])]


def test_a_record_that_is_brought_twice_is_counted_once():
    gathered, record = Gathered(), Record(SnapshotId(1, "alice", 1), "alice")
    for _ in range(2):
        gathered.add(Arrived(record, 0.5, 100, None, False, b"body"))
    assert gathered.bodies == {"alice": b"body"}
    assert gathered.stats() == {"hold_max_s": 0.5, "hold_mean_s": 0.5, "state_bytes": 100}


@pytest.mark.ray
def test_an_actor_that_goes_while_a_new_coordinator_looks_for_all_is_as_if_it_had_gone_before(cluster, monkeypatch):
    def gone(name, namespace):
        raise ValueError(f"Failed to look up actor with name '{name}'.")

    listed = [{"name": actor_name("bank", 1, "alice"), "namespace": NAMESPACE}]
    monkeypatch.setattr(ray.util, "list_named_actors", lambda all_namespaces: listed)
    monkeypatch.setattr(ray, "get_actor", gone)
    assert Members("bank", Issuer(1, 0), "/shots", lambda *_: None, held_lock()).find(None, {}) == {}


def test_rays_thread_that_brings_the_news_of_a_death_waits_for_no_lock():
    lock, heard = threading.Lock(), []
    all_heard = threading.Event()

    def died(name, detail):
        with lock:
            heard.append((name, detail))
            all_heard.set()

    watches, news = DeathWatch(died), []
    ref = SimpleNamespace(_on_completed=news.append)
    watches.add("alice", SimpleNamespace(watch=SimpleNamespace(remote=lambda: ref)))
    with lock:  # whoever holds it makes a call that the same thread of Ray's is to answer
        rays = threading.Thread(target=news[0], args=(RuntimeError("gone"),), daemon=True)
        rays.start()
        rays.join(10.0)
        assert not rays.is_alive()
        assert heard == []
    assert all_heard.wait(10.0)
    assert heard == [("alice", "gone")]


class Watched:
    """A Ray handle whose watch calls fail when a test says so."""

    def __init__(self):
        self.news = []
        self.watch = self

    def remote(self):
        return SimpleNamespace(_on_completed=self.news.append)

    def fail(self, error):
        self.news.pop(0)(error)


LOST = ray.exceptions.ActorUnavailableError("RpcError: the connection was reset", None)


def test_a_watch_that_is_lost_on_its_way_is_no_death():
    heard, alice = [], Watched()
    watches = DeathWatch(lambda *news: heard.append(news))
    watches.add("alice", alice)
    for _ in range(3):
        alice.fail(LOST)
        eventually(lambda: alice.news or None)
    assert heard == []
    alice.fail(RuntimeError("gone"))
    assert eventually(lambda: heard or None) == [("alice", "gone")]


def test_who_ends_while_the_watch_is_lost_is_watched_no_more():
    heard, alice = [], Watched()
    watches = DeathWatch(lambda *news: heard.append(news))
    watches.add("alice", alice)
    alice.fail(LOST)
    watches.drop("alice")
    time.sleep(2 * AGAIN_S)
    assert (alice.news, heard) == ([], [])


def test_a_process_that_ray_starts_again_has_died_where_it_is_unavailable():
    heard, vault = [], Watched()
    watches = DeathWatch(lambda *news: heard.append(news), restarted=True)
    watches.add("near", vault)
    vault.fail(LOST)
    assert eventually(lambda: heard or None)[0][0] == "near"


def test_the_end_of_an_old_process_is_no_death_of_the_new_one_of_that_name():
    heard, old, new = [], Watched(), Watched()
    watches = DeathWatch(lambda *news: heard.append(news))
    watches.add("alice", old)
    watches.add("alice", new)
    old.fail(RuntimeError("the old one was killed"))
    new.fail(RuntimeError("the new one died"))
    assert eventually(lambda: heard or None) == [("alice", "the new one died")]


def test_a_host_that_went_back_in_its_place_and_is_lost_before_the_life_runs_gives_its_name_to_another_one():
    known = Members("bank", Issuer(2, 0), "/shots", lambda *_: None, held_lock())
    known._vaults["near"] = "a vault"

    def join(host, life):
        living = Living(host, f"rayshot/s/{life}/actor/alice", {})
        known.admit("alice", living)
        known.join("alice", "near", living, "a vault", watched=False)

    join("the first", 1)
    with pytest.raises(NameTaken):
        join("another one", 2)
    assert known.lose("alice") == "the first"
    join("the second", 2)
    assert known.hosts == {"alice": "the second"}
    assert known.lose("bob") is None


def test_the_hosts_of_a_life_that_went_back_are_watched_once_all_are_loaded():
    heard, alice = [], Watched()
    known = Members("bank", Issuer(2, 0), "/shots", lambda *news: heard.append(news), held_lock())
    known._vaults["near"] = "a vault"
    living = Living(alice, "rayshot/s/2/actor/alice", {})
    known.admit("alice", living)
    known.join("alice", "near", living, "a vault", watched=False)
    assert len(alice.news) == 0, "who loads it sees its death"
    known.watch("alice")
    assert len(alice.news) == 1
    alice.fail(RuntimeError("gone"))
    assert eventually(lambda: heard or None) == [("alice", "gone")]


def test_a_new_coordinator_counts_on_from_the_snapshots_of_which_the_storage_knows_more_than_the_actors():
    answer = Abandoned("near", True, False, (), frozenset(), 3, (), None, None, {}, None)
    known = SimpleNamespace(
        roster=SimpleNamespace(all=lambda: {"alice": "rayshot/bank/1/actor/alice"}),
        find=lambda _stop, _joined: {"alice": answer},
        in_the_making={},
    )
    committer = SimpleNamespace(
        stopped_with=lambda _life: None,
        ended_before=lambda _life: set(),
        stored_in=lambda _life: set(),
        highest_counter=lambda _life: 4,
    )
    assert find_remains(known, committer, 1, ("bank", "/shots")).counter == 4
    committer.highest_counter = lambda _life: 2
    assert find_remains(known, committer, 1, ("bank", "/shots")).counter == 3
