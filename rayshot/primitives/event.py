"""`rayshot.Event`: who waits for it waits in the state of an actor.

Snapshots have the classes here by name: keep them here.
"""

from typing import TYPE_CHECKING, Any

from rayshot.model.actor_class import actor
from rayshot.model.loop_calls import answers
from rayshot.model.port import result_of
from rayshot.primitives.waiters import Waiters, seconds_of

if TYPE_CHECKING:
    from rayshot.typed import ActorHandle


@actor
class EventActor:
    """A flag, and the calls that wait until it is set."""

    __rayshot_answers_late__ = True

    def __init__(self) -> None:
        self.flag = False
        self.waiters = Waiters()

    def wait(self, timeout: float | None = None) -> bool:
        """Answers when the flag is set: True; False if it is not set in time."""
        if not self.flag:
            self.waiters.add(timeout, otherwise=False)
        return self.flag

    def set(self) -> None:
        """Set the flag; all that wait go on."""
        self.flag = True
        while (waiting := self.waiters.take()) is not None:
            waiting[0].give(value=True)

    def clear(self) -> None:
        """Take the flag down."""
        self.flag = False

    def is_set(self) -> bool:
        """Whether the flag is set."""
        return self.flag


class Event:
    """A flag that actors, drivers, tasks and plain actors wait for, as `threading.Event`.

    It is waited for as a Queue is: see there. `actor_options` are options of its actor, as `name` and `num_cpus`.
    """

    def __init__(self, actor_options: dict[str, Any] | None = None) -> None:
        self.actor: ActorHandle[Any] = EventActor.options(**(actor_options or {})).remote()  # type: ignore[attr-defined]

    def is_set(self) -> bool:
        """Whether the flag is set."""
        return bool(result_of(self.actor.is_set.remote()))

    def set(self) -> None:
        """Set the flag: all that wait go on."""
        result_of(self.actor.set.remote())

    def clear(self) -> None:
        """Take the flag down: from now on `wait` waits."""
        result_of(self.actor.clear.remote())

    @answers("wait", bool)
    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the flag is set, for `timeout` seconds at most; returns whether it is. ValueError for NaN."""
        return bool(result_of(self._wait(timeout)))

    async def wait_async(self, timeout: float | None = None) -> bool:
        """As `wait`, in a coroutine."""
        return bool(await self._wait(timeout))

    def _wait(self, timeout: float | None) -> Any:
        in_time = timeout is None or not timeout < 0  # as threading's: below 0 it does not wait
        return self.actor.wait.remote(seconds_of(timeout) if in_time else 0)
