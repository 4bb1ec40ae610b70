"""The event loop of a simulated world: one thread and virtual time; no clock decides anything.

`asyncio.sleep(3600)` takes no time, and a function that a handler gives to a thread runs at once. Only a wait for a
real connection takes real time.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rayshot.model.current import enter
from rayshot.model.event_loop import ActorLoop, Ready

LOOK_S = 0.01
"""Where handlers run at once that wait for a connection, the loop waits so long for it before others go on."""


class VirtualLoop(ActorLoop):
    """See the module."""

    def __init__(self, idle: Callable[[float | None], bool], *, is_shared: bool) -> None:
        """`idle` is called with the seconds to the next timer when nothing is ready.

        It lets the rest of the world go on, if the running handler waits for that. It returns whether it did, and has
        moved time if the timer came first. Actors share the loop, or else handlers of one actor run there at once: then
        `idle` is called between any two turns, with 0 if something is ready.
        """
        self._now = 0.0
        super().__init__()
        self._idle = idle
        self.is_shared = is_shared

    def pass_s(self, seconds: float) -> None:
        """Move time."""
        self._now += seconds

    def time(self) -> float:
        """Virtual seconds; see asyncio.BaseEventLoop."""
        return self._now

    def wait(self, poll: Callable[[float | None], Ready], timeout: float | None) -> Ready:
        """Move time to the next timer; give up at once if nothing can ever come."""
        if self.has_files and self.is_shared:
            began = time.monotonic()
            ready = poll(timeout)
            self._now += time.monotonic() - began
            return ready
        ready = poll(LOOK_S if self.has_files and timeout != 0 else 0)
        if not ready and (timeout != 0 or not self.is_shared) and self._idle(timeout):
            return ready
        if not ready and timeout is None and not self.is_stuck():
            return poll(None)  # one of the user's threads will wake it
        if not ready and timeout is None:
            self.give_up()
        elif not ready:
            self._now += timeout or 0.0
        return ready

    def run_in_executor(self, executor: Any, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Call the function now, outside any handler, as it would be on a thread."""
        del executor
        future = self.create_future()
        before = enter(None)
        try:
            future.set_result(function(*args))
        except Exception as error:  # noqa: BLE001 - the code that awaits the future gets the error
            future.set_exception(error)
        finally:
            enter(before)
        return future

    def __del__(self) -> None:
        """Close the loop here, as nobody says when a world ends."""
        if not self.is_closed():
            self.close()


@contextmanager
def no_loop_around() -> Iterator[None]:
    """Hide a running loop: a world in a notebook runs inside one, and its actors must not see it."""
    around = asyncio._get_running_loop()  # noqa: SLF001 - made for code that makes loops
    asyncio._set_running_loop(None)  # noqa: SLF001
    try:
        yield
    finally:
        asyncio._set_running_loop(around)  # noqa: SLF001
