"""The door: what the rooms of the runtime use of Ray. No other room imports it.

A process is a Ray actor with a name in our namespace. `process.method.remote(*args)` calls it. This returns a reference
to the answer at once, and calls are in no order. Where Ray's own function or error does what the door says, the door
gives it another name only: so a message costs no more here, and users get the errors that Ray would raise.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, TypeVar, cast

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rayshot.runtime.door import private_names
from rayshot.runtime.door.private_names import note_del, note_get, note_list, note_put, object_locations
from rayshot.runtime.door.readiness import Lookout

M = TypeVar("M", bound=Callable[..., Any])

NAMESPACE = "rayshot"
_TAKEN = "is already taken", "already exists in the namespace"
"""How Ray says that a name is used, before and behind its control service."""
_WITHOUT_END = -1
_lookout = Lookout()

# Errors --------------------------------------------------------------------------------------------------------------

CallFailed = ray.exceptions.RayError
"""All that a call can fail with: the errors below, and those of Ray's that have no name here."""
Raised = ray.exceptions.RayTaskError
"""The called method raised `cause`."""
NotReached = ray.exceptions.RayActorError
"""The call has no answer: its process Died or is Unavailable."""
Died = ray.exceptions.ActorDiedError
"""The process is dead. If its node is drained, Ray may start it again all the same."""
Unavailable = ray.exceptions.ActorUnavailableError
"""The process cannot be reached now: Ray starts it again, or the network is down."""
OwnerDied = ray.exceptions.OwnerDiedError
"""The object is lost, because the process that made it is dead."""
TimedOut = ray.exceptions.GetTimeoutError
"""The answer did not come in time."""
NameUsed = private_names.ActorAlreadyExistsError
"""There is a process of this name."""
TooManyCalls = ray.exceptions.PendingCallsLimitExceeded
"""As many calls wait for answers as an option of the actor allows."""


class ControlServiceSilent(ray.exceptions.RayError):  # type: ignore[misc]  # Ray's errors have no types
    """Ray's control service does not answer now, which Ray says with errors of many classes."""


CLUSTER_GONE = (private_names.AuthenticationError, ray.exceptions.RpcError)
"""The cluster that this process has joined is gone, or another one is at its address."""

# Answers and objects -------------------------------------------------------------------------------------------------

get = ray.get
put = ray.put
wait = ray.wait


def when_answered(reference: ray.ObjectRef, tell: Callable[[Any], None]) -> None:
    """Call `tell` on one of Ray's threads, with the value, or with the error that Ray has instead.

    `tell` must not wait for a lock whose holder calls Ray: this thread may have to answer that call.
    """
    private_names.on_completed(reference, tell)


def when_there(reference: ray.ObjectRef, tell: Callable[[Any], None]) -> None:
    """As `when_answered`, but fetches nothing: when the object is ready or failed, `tell` gets None or the error.

    On a Ray that does not tell of this, it always gets None, and up to LOOK_S later.
    """
    if private_names.tells_ready():
        private_names.on_ready(reference, tell)
    else:
        _lookout.tell_when_ready(reference, tell)


def known_size(references: Iterable[ray.ObjectRef]) -> int:
    """Bytes of these objects, as far as this process knows. Does not wait."""
    known = object_locations(list(references))
    return sum(of.get("object_size") or 0 for of in known.values())


# Processes -----------------------------------------------------------------------------------------------------------


def method(group: str, *, again: bool | type[Exception] = False, results: int = 1) -> Callable[[M], M]:
    """Mark a method that others call.

    Args:
        group: the threads on which it runs, see `make`.
        again: True repeats calls that do not reach the process, until one is answered. It may then run twice. An error
            class repeats calls that raise this error, too.
        results: how many values it returns. A call returns as many references.
    """
    marks: dict[str, Any] = {"concurrency_group": group}
    if results > 1:
        marks["num_returns"] = results
    if again:
        marks["max_task_retries"] = _WITHOUT_END
    if isinstance(again, type):
        marks["retry_exceptions"] = [again]
    return cast("Callable[[M], M]", ray.method(**marks))  # now: Ray reads the marks wherever it makes a handle


def make(
    kind: type,
    groups: Mapping[str, int],
    name: str,
    *args: Any,
    restarts: bool = False,
    node: str | None = None,
    **options: Any,
) -> Any:
    """Start a process that outlives the one that starts it. Returns at once.

    Args:
        kind: its class.
        groups: how many calls of its methods run at once, by the group that `method` gave them.
        name: its name in our namespace.
        args: arguments of the class.
        restarts: whether Ray starts it again if it dies, as often as that happens.
        node: the only node where it may be; None for any.
        options: further ones of Ray's.

    Raises:
        NameUsed: there is one of this name. ValueError: Ray refuses the options.
    """
    if node is not None:
        options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(node, soft=False)
    prepared = _known_to_ray(kind, tuple(groups.items())).options(
        name=name,
        namespace=NAMESPACE,
        lifetime="detached",
        max_restarts=_WITHOUT_END if restarts else 0,
        allow_out_of_order_execution=True,  # otherwise calls wait 30 s for one that was lost before them
        **options,
    )
    try:
        return prepared.remote(*args)
    except ValueError as error:  # an older Ray says it only in words
        if isinstance(error, NameUsed) or not any(words in str(error) for words in _TAKEN):
            raise
        raise NameUsed(str(error)) from None


@cache
def _known_to_ray(kind: type, groups: tuple[tuple[str, int], ...]) -> Any:
    """Ray's form of the class: Ray sends it to its control service once."""
    return ray.remote(concurrency_groups=dict(groups), enable_task_events=False)(kind)


kill = ray.kill


def restart(process: Any) -> None:
    """End a process that Ray starts again."""
    ray.kill(process, no_restart=False)


def find(name: str) -> Any:
    """The process of this name. It may be dead, if Ray starts it again. Raises ValueError if there is none."""
    return ray.get_actor(name, namespace=NAMESPACE)


def names() -> list[str]:
    """The names of all processes in our namespace."""
    listed = ray.util.list_named_actors(all_namespaces=True)
    return [entry["name"] for entry in listed if entry["namespace"] == NAMESPACE]


# The cluster ---------------------------------------------------------------------------------------------------------

is_joined = ray.is_initialized
leave = ray.shutdown


def when_joined(tell: Callable[[], None]) -> None:
    """Call `tell` each time that this process has joined a cluster."""
    private_names.when_joined(tell)


def ask_control_service(question: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """The answer of a function of Ray that asks its control service. Raises CallFailed if that does not answer."""
    try:
        return question(*args, **options)
    except CallFailed:
        raise
    except Exception as error:
        raise ControlServiceSilent(f"Ray's control service does not answer now: {error!r}") from error


# Notes: small values that Ray's control service keeps. Each raises CallFailed if it does not answer now.


def write_note(key: str, data: bytes) -> None:
    """Write a note, or a new one in its place."""
    ask_control_service(note_put, key, data, namespace=NAMESPACE)


def read_note(key: str) -> bytes | None:
    """A note; None if there is none."""
    found: bytes | None = ask_control_service(note_get, key, namespace=NAMESPACE)
    return found


def note_keys(before: str) -> list[str]:
    """The keys that begin with `before`."""
    return [key.decode() for key in ask_control_service(note_list, before, namespace=NAMESPACE)]


def remove_note(key: str) -> None:
    """Remove a note, if it is there."""
    ask_control_service(note_del, key, namespace=NAMESPACE)


def remove_notes(before: str) -> None:
    """Remove all notes whose keys begin with `before`."""
    ask_control_service(note_del, before, del_by_prefix=True, namespace=NAMESPACE)
