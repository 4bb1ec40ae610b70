"""`rayshot.Semaphore` and `rayshot.Lock`: who waits for them waits in the state of an actor.

Snapshots have the classes here by name: keep them here.
"""

from types import TracebackType
from typing import TYPE_CHECKING, Any

from rayshot.model.actor_class import actor
from rayshot.model.loop_calls import answers
from rayshot.model.port import result_of
from rayshot.primitives.waiters import Waiters, seconds_of

if TYPE_CHECKING:
    from rayshot.typed import ActorHandle


@actor
class SemaphoreActor:
    """A number of places, and the calls that wait for one, the first first. `most` is how many there may be."""

    __rayshot_answers_late__ = True

    def __init__(self, value: int, most: int | None) -> None:
        self.value = value
        self.most = most
        self.waiters = Waiters()

    def acquire(self, timeout: float | None = None) -> bool:
        """Take a place when there is one; answers whether there was one in time."""
        if self.acquire_nowait():
            return True
        self.waiters.add(timeout, otherwise=False)
        return False

    def acquire_nowait(self) -> bool:
        """Take a place if there is one; answers whether there was."""
        is_free = self.value > 0
        self.value -= is_free
        return is_free

    def release(self, count: int) -> None:
        """Give so many places back."""
        if self.most is not None and self.value + count > self.most:
            raise RuntimeError("it is released, and nobody holds it")
        self.value += count
        while self.value and (waiting := self.waiters.take()) is not None:
            self.value -= 1
            waiting[0].give(value=True)

    def free(self) -> int:
        """How many places are free."""
        return self.value


class Semaphore:
    """So many places for actors, drivers, tasks and plain actors, as `threading.Semaphore`.

    It is waited for as a Queue is: see there. A place that is held is part of the snapshot. If the process of a holder
    is lost, the system goes back with it; but a place of a driver that died stays taken.

    Args:
        value: how many places there are, at least 0.
        actor_options: options of its actor, as `name` and `num_cpus`.
    """

    def __init__(self, value: int = 1, actor_options: dict[str, Any] | None = None) -> None:
        _check_whole(value)
        if value < 0:
            raise ValueError(f"a semaphore has {value} places, not at least 0")
        self.actor: ActorHandle[Any] = SemaphoreActor.options(**(actor_options or {})).remote(value, self._most())  # type: ignore[attr-defined]

    def _most(self) -> int | None:
        return None

    @answers("acquire", bool)
    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Take a place; returns whether there was one in time.

        Waits for one, for `timeout` seconds at most; None and -1: as long as it takes. Raises ValueError for another
        one below 0.
        """
        return bool(result_of(self._acquire(timeout, blocking=blocking)))

    async def acquire_async(self, timeout: float | None = None) -> bool:
        """As `acquire`, in a coroutine."""
        return bool(await self._acquire(timeout, blocking=True))

    def release(self, n: int = 1) -> None:
        """Give `n` places back, at least 1. Raises ValueError, TypeError; RuntimeError if a lock was not held."""
        result_of(self._release(n))

    async def release_async(self, n: int = 1) -> None:
        """As `release`, in a coroutine."""
        await self._release(n)

    def _release(self, n: int) -> Any:
        _check_whole(n)
        if n < 1:
            raise ValueError(f"{n} places are given back, not at least 1")
        return self.actor.release.remote(n)

    def _acquire(self, timeout: float | None, *, blocking: bool) -> Any:
        if not blocking and timeout not in (None, -1):
            raise ValueError(f"timeout={timeout!r} does not go with blocking=False")
        if not blocking:
            return self.actor.acquire_nowait.remote()
        return self.actor.acquire.remote(None if timeout == -1 else seconds_of(timeout))

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self.release()

    async def __aenter__(self) -> bool:
        return await self.acquire_async()

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        await self.release_async()


class Lock(Semaphore):
    """A lock for actors, drivers, tasks and plain actors, as `threading.Lock`: any of them may release it."""

    def __init__(self, actor_options: dict[str, Any] | None = None) -> None:
        super().__init__(1, actor_options)

    def _most(self) -> int | None:
        return 1

    def locked(self) -> bool:
        """Whether it is held."""
        return not result_of(self.actor.free.remote())


def _check_whole(places: int) -> None:
    if not isinstance(places, int):
        raise TypeError(f"give a whole number of places, not {places!r}")
