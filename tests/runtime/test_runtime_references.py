"""ObjectRefs in states and messages: their values are in the snapshot, and put again at restore."""

import numpy as np
import pytest
import ray

import rayshot
from rayshot.errors import SnapshotAborted
from tests.runtime.librarian import ForkingLibrarian, Librarian, write

pytestmark = pytest.mark.ray


def restore(new_system, system):
    system.shutdown()
    restored = rayshot.restore(system.name, storage=system.storage)
    new_system.made.append(restored)
    return restored


def test_objects_that_a_state_refers_to_are_in_the_snapshot_and_are_put_again(system, new_system):
    librarian = Librarian.options(name="librarian").remote()
    librarian.put.tell("poems", np.arange(50_000))
    librarian.put.tell("songs", {"la": (1, {2})})
    librarian.copy.tell("songs", "same")
    librarian.bind.tell("both", ["poems", "songs"])
    ray.get(librarian.read.remote("poems"))
    snapshot = system.snapshot()
    snapshot.verify()
    books = snapshot.states()["librarian"]["books"]
    assert books["songs"] == {"la": (1, {2})}
    np.testing.assert_array_equal(books["poems"], np.arange(50_000))
    restored = restore(new_system, system).get_actor("librarian")
    np.testing.assert_array_equal(ray.get(restored.read.remote("poems")), np.arange(50_000))
    assert ray.get(restored.read.remote("songs")) == {"la": (1, {2})}
    assert ray.get(restored.are_one.remote("songs", "same"))
    poems, songs = ray.get(restored.read_bound.remote("both"))
    assert songs == {"la": (1, {2})}
    assert poems.sum() == np.arange(50_000).sum()


def test_an_object_that_is_being_made_is_waited_for_but_its_actor_is_not_held(system):
    librarian = Librarian.options(name="librarian").remote()
    librarian.order.tell("novel", 2.0)
    librarian.put.tell("songs", 1)
    ray.get(librarian.read.remote("songs"))
    snapshot = system.snapshot()
    assert snapshot.states()["librarian"]["books"]["novel"] == "the text of novel"
    assert snapshot.stats["hold_max_s"] < 1.0


def test_an_object_that_is_not_ready_at_the_deadline_aborts_with_its_path(new_system):
    system = new_system(snapshots=rayshot.SnapshotConfig(timeout_s=2.0))
    librarian = Librarian.options(name="librarian").remote()
    librarian.order.tell("novel", 30.0)
    librarian.put.tell("songs", 1)
    ray.get(librarian.read.remote("songs"))
    with pytest.raises(SnapshotAborted, match=r"librarian\['state'\]\['books'\]\['novel'\]") as caught:
        system.snapshot()
    assert caught.value.evidence["reason"] == "object_missing"
    librarian.drop.tell("novel")
    ray.get(librarian.read.remote("songs"))
    assert system.snapshot().states()["librarian"]["books"] == {"songs": 1}


def test_an_object_that_will_never_be_aborts_with_its_path_and_why(system):
    librarian = Librarian.options(name="librarian").remote()
    librarian.order_in_vain.tell("novel")
    librarian.put.tell("songs", 1)
    ray.get(librarian.read.remote("songs"))
    with pytest.raises(SnapshotAborted, match=r"\['novel'\] cannot be read"):
        system.snapshot()


def test_a_class_that_captures_by_fork_captures_inline_while_it_holds_object_refs(system):
    librarian = ForkingLibrarian.options(name="librarian").remote()
    librarian.put.tell("songs", [1, 2])
    ray.get(librarian.read.remote("songs"))
    with pytest.raises(SnapshotAborted, match="captured inline from now on"):
        system.snapshot()
    assert system.snapshot().states()["librarian"]["books"] == {"songs": [1, 2]}
    assert system.snapshot().states()["librarian"]["books"] == {"songs": [1, 2]}


def test_an_object_ref_as_an_argument_arrives_as_its_value(system):
    librarian = Librarian.options(name="librarian").remote()
    librarian.keep.tell(ray.put([1, {2}]))
    assert ray.get(librarian.kept.remote()) == [1, {2}]
    librarian.keep.tell(value=write.remote("late", 0.5))
    assert ray.get(librarian.kept.remote()) == "the text of late"
