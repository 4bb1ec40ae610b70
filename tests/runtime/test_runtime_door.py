"""What the door tells Ray, and that it puts nothing between Ray and a message."""

import pytest
import ray

from rayshot.runtime.door import door


class NotNow(Exception):
    pass


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({}, {}),
        ({"again": True}, {"max_task_retries": -1}),
        ({"again": NotNow, "results": 2}, {"max_task_retries": -1, "retry_exceptions": [NotNow], "num_returns": 2}),
    ],
)
def test_a_marked_method_is_the_same_function_and_ray_reads_how_it_is_called(asked, told):
    def method(self):
        pass

    assert door.method("control", **asked)(method) is method
    assert vars(method) == {
        f"__ray_{mark}__": value for mark, value in {"concurrency_group": "control", **told}.items()
    }


def test_verbs_of_each_message_and_errors_that_users_see_are_rays_own():
    assert (door.get, door.wait, door.put, door.kill) == (ray.get, ray.wait, ray.put, ray.kill)
    assert (door.Died, door.Raised) == (ray.exceptions.ActorDiedError, ray.exceptions.RayTaskError)


def test_every_error_of_a_call_is_caught_as_one():
    for error in (door.Raised, door.Died, door.Unavailable, door.OwnerDied, door.TimedOut, door.NameUsed):
        assert issubclass(error, door.CallFailed)
    assert issubclass(door.Died, door.NotReached)
    assert issubclass(door.Unavailable, door.NotReached)


@pytest.mark.parametrize("verb", ["write_note", "read_note", "note_keys", "remove_note", "remove_notes"])
def test_a_control_service_that_does_not_answer_is_an_error_of_a_call_whatever_ray_raises(monkeypatch, verb):
    def silent(*_, **__):
        raise RuntimeError("no connection")

    for asked in ("put", "get", "list", "del"):
        monkeypatch.setattr(door, f"note_{asked}", silent)
    with pytest.raises(door.CallFailed, match="does not answer now: RuntimeError"):
        getattr(door, verb)(*("key", b"data")[: 2 if verb == "write_note" else 1])


def test_an_error_of_ray_that_says_more_comes_as_it_is():
    def refused():
        raise door.CLUSTER_GONE[0]("another token")

    with pytest.raises(door.CLUSTER_GONE[0]):
        door.ask_control_service(refused)
