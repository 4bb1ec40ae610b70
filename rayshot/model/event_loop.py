"""The event loop for an actor's coroutines: one loop for the actor's life, one handler at a time, each to its end.

The loop runs while an async handler runs, and stands still otherwise. Later handlers can use what a handler opens on
the loop, for example a session or a pool. No task outlives the handler that started it: a snapshot is taken between two
handlers, and would hold only half of what such a task does.
"""

import asyncio
import logging
import selectors
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from rayshot.errors import TaskLeftBehind, WaitsForHandler
from rayshot.model.loop_tasks import handling_here, is_among_themselves, place, threads_besides

log = logging.getLogger("rayshot")
TURNS_BEFORE = 2
"""The loop turns this often before a handler, to notice connections that were closed while the loop stood still."""
TURNS_AFTER = 20
"""The loop turns at most this often after a handler, for tasks that can end at once, such as a generator's end."""
TURNS_QUIET = 3
"""After this many turns without a task no more tasks come: generators that hold others end one after the other."""
CANCEL_S = 5.0
"""A cancelled task has this long to end."""
SILENCE_S = 10.0
"""A handler that waits only for other handlers is given up after this time: a thread may still have woken it."""
WARNING_FACTOR = 3
"""A waiting handler is warned of after SILENCE_S, and again each time its running time has grown by this factor."""

_owners: WeakKeyDictionary[asyncio.Task[Any], object] = WeakKeyDictionary()
"""The handlers that made these tasks, where several run at once."""
Ready = list[tuple[selectors.SelectorKey, int]]


class ActorLoop(asyncio.SelectorEventLoop):
    """An event loop that notices when its handler waits for something only another handler of its actor could bring.

    `main` is the task of the running handler; `hopeless` says that it was cancelled for this reason. Threads that are
    not in `threads_known` may wake it. `has_strays`: tasks were made while no async handler ran.
    """

    def __init__(self) -> None:
        self._files = _Files(self)
        super().__init__(self._files)
        self.main: asyncio.Task[Any] | None = None
        self.hopeless = False
        self.threads_known: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
        self._jobs: weakref.WeakSet[partial[Any]] = weakref.WeakSet()
        self.has_strays = False
        self.before_wait: Callable[[bool], None] | None = None
        """Called before the loop looks for what is ready, with whether it waits for that, as nothing else can go on."""
        self._what = ""
        self._began = self._warn_at = 0.0

    def begin(self, main: asyncio.Task[Any], what: str) -> None:
        """Note that a handler runs from now on; `what` names it."""
        self.main, self.hopeless, self._what = main, False, what
        self._began = self.time()
        self._warn_at = self._began + SILENCE_S

    def tell_turns(self, turn: Callable[[Any], None]) -> None:
        """Call `turn` before each step of a task, with the Handling to which this belongs, if there is one."""
        call_soon = self.call_soon

        def step(callback: Callable[..., Any], *args: Any) -> None:
            try:
                turn(handling_here.get())
            finally:
                callback(*args)

        self.call_soon = partial(call_soon, step)  # type: ignore[method-assign, assignment, arg-type]  # nobody else pays

    def create_task(self, *args: Any, **kwargs: Any) -> asyncio.Task[Any]:
        """See asyncio.BaseEventLoop."""
        self.has_strays |= self.main is None
        task = super().create_task(*args, **kwargs)
        if (handling := handling_here.get()) is not None:
            _owners[task] = handling
        return task

    def wait(self, poll: Callable[[float | None], Ready], timeout: float | None) -> Ready:
        """Wait as a selector does. `poll` is the selector's own wait; a timeout of None means that no timer is set."""
        if timeout == 0 or self.main is None:
            return poll(timeout)
        if timeout is None and self.is_stuck():
            ready = poll(SILENCE_S)
            if not ready and self.is_stuck():
                self.give_up()
            return ready
        left = max(0.0, self._warn_at - self.time())
        if timeout is not None and timeout < left:
            return poll(timeout)
        ready = poll(left)
        if not ready:
            self._warn(self.main)
        return ready

    @property
    def has_files(self) -> bool:
        """Whether the loop waits for a file, such as a connection. The file by which threads wake it does not count."""
        return len(self._files.get_map()) > 1

    @property
    def is_more_ready(self) -> bool:
        """Whether something can run now besides the code that asks this."""
        return bool(self._ready)  # type: ignore[attr-defined]  # asyncio's own, in all versions

    def is_stuck(self) -> bool:
        """Whether every task waits for a lock, an event or a queue, and nothing on this loop can bring it.

        False also if a thread may bring it: a thread that works for the loop, or one that the user started.
        """
        if self.has_files or self._jobs or not is_among_themselves(asyncio.all_tasks(self)):
            return False
        idle: frozenset[threading.Thread] = getattr(getattr(self, "_default_executor", None), "_threads", frozenset())
        return not threads_besides(idle.union(self.threads_known))

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """See asyncio.BaseEventLoop. A job of the default executor is known until it has ended."""
        job = partial(func, *args)
        self._jobs.add(job)
        return super().run_in_executor(executor, job)

    def give_up(self) -> None:
        """End the handler that is stuck."""
        if self.main is not None:
            self.hopeless = True
            self.main.cancel()

    def _warn(self, main: asyncio.Task[Any]) -> None:
        """Log that the handler still waits. The loop cannot know here whether it waits for another handler."""
        ran = self.time() - self._began
        self._warn_at = self._began + WARNING_FACTOR * ran
        log.warning(
            "%s began %.0f s ago and waits at %s; if it waits for another handler of its actor it waits for ever: "
            "rayshot help porting#async",
            self._what,
            ran,
            place(main),
        )


class _Files(selectors.DefaultSelector):
    """The selector of an ActorLoop; it lets the loop decide how long to wait."""

    def __init__(self, loop: ActorLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Ready:
        """See selectors.BaseSelector."""
        if self._loop.before_wait is not None:
            self._loop.before_wait(timeout != 0)
        return self._loop.wait(super().select, timeout)


class Coroutines:
    """Runs the coroutines of the actor `name`, on a loop that `new_loop` makes when the first coroutine runs."""

    def __init__(self, name: str, new_loop: Callable[[], ActorLoop] = ActorLoop) -> None:
        self._name = name
        self._new_loop = new_loop
        self._loop: ActorLoop | None = None
        self._is_of_thread = False
        self._is_spoilt = False
        self._threads = weakref.WeakSet(threading.enumerate())  # a timer that has run out still has its function

    def enter(self) -> None:
        """Belong to this thread: from now on `asyncio.get_event_loop()` in a plain handler gives the actor's loop."""
        self._is_of_thread = True
        self._open()

    def _open(self) -> ActorLoop:
        if self._loop is None or self._loop.is_closed() or self._loop.is_running():  # in a world actors share loops
            self._loop = self._new_loop()
            self._loop.threads_known = self._threads
            if self._is_of_thread:
                asyncio.set_event_loop(self._loop)
        return self._loop

    def end_plain(self) -> None:
        """End the tasks of a plain handler that has returned. Raises TaskLeftBehind if one of them does not end."""
        loop = self._loop
        if loop is None or not loop.has_strays:
            return
        left = loop.run_until_complete(self._end_tasks()) if asyncio.all_tasks(loop) else ()
        loop.has_strays = False
        if self._is_spoilt:
            self._drop()
        if left:
            raise self._left_behind(left)

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine to its end and return its result.

        Raises what the coroutine raises; TaskLeftBehind if a task that it started does not end with it; and
        WaitsForHandler if it waits for something that only another handler of the actor could bring.
        """
        loop = self._open()
        main = loop.create_task(self._whole(loop, coroutine))
        loop.has_strays = False
        loop.begin(main, f"actor {self._name!r}: handler {_name(coroutine)}")
        try:
            return loop.run_until_complete(main)
        finally:
            if not main.done():  # one of its tasks raised SystemExit, which leaves a loop at once
                main.cancel()
                with suppress(asyncio.CancelledError):
                    loop.run_until_complete(main)
            loop.main = None
            if self._is_spoilt:
                self._drop()

    def tell_turns(self, turn: Callable[[Any], None]) -> None:
        """See ActorLoop."""
        self._open().tell_turns(turn)

    def serve(self, coroutine: Coroutine[Any, Any, None], before_wait: Callable[[bool], None]) -> None:
        """Run a coroutine in which several handlers run at once; `before_wait` is called when none of them can go on.

        SystemExit of a task that a handler started leaves this function.
        """
        loop = self._open()
        main = loop.create_task(coroutine)
        loop.before_wait = before_wait
        try:
            loop.run_until_complete(main)
        finally:
            loop.before_wait = None
            loop.has_strays = False
            if not main.done():
                main.cancel()
                with suppress(asyncio.CancelledError):
                    loop.run_until_complete(main)

    async def whole(self, handler: Awaitable[Any]) -> Any:
        """Await a handler and the end of its tasks, on the loop that runs; see `run`."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ActorLoop), "handlers run on the actor's loop"
        return await self._whole(loop, handler)

    async def _whole(self, loop: ActorLoop, coroutine: Awaitable[Any]) -> Any:
        try:
            await _turn(TURNS_BEFORE)
            result = await coroutine
        except BaseException as error:
            _close(coroutine)
            left = await self._end_tasks()
            if loop.hopeless and isinstance(error, asyncio.CancelledError):
                raise self._waits_for_handler() from error
            if left:
                error.add_note(f"{_listed(left)} went on when this was raised, and was cancelled")
            raise
        if left := await self._end_tasks():
            raise self._left_behind(left)
        return result

    async def _end_tasks(self) -> tuple[str, ...]:
        """Cancel all other tasks that do not end at once; returns descriptions of these tasks."""
        quiet = 0
        for _ in range(TURNS_AFTER):
            await asyncio.sleep(0)
            quiet = 0 if others() else quiet + 1
            if quiet == TURNS_QUIET:
                return ()
        left = tuple(sorted({_described(task) for task in others()}))
        clock = asyncio.get_running_loop().time
        deadline = clock() + CANCEL_S
        while (going_on := others()) and clock() < deadline:
            for task in going_on:
                task.cancel()
            await asyncio.wait(going_on, timeout=CANCEL_S / 5)  # some need to be told twice
        self._is_spoilt = bool(going_on)  # they will not end: this loop turns no more
        return left

    def _left_behind(self, left: Iterable[str]) -> TaskLeftBehind:
        return TaskLeftBehind(
            f"actor {self._name!r}: the handler returned, and {_listed(left)} went on, a task that it had started. The "
            "task was cancelled: a snapshot cuts between two handlers, and would hold half of what the task does. "
            "Await it in the handler (asyncio.gather, asyncio.TaskGroup), or do it later with "
            "rayshot.current().after(seconds, self.method). What a library keeps running needs a loop in a thread of "
            "yours: rayshot help porting#async",
            actor=self._name,
            tasks=tuple(left),
        )

    def _waits_for_handler(self) -> WaitsForHandler:
        return WaitsForHandler(
            f"actor {self._name!r}: the handler waited for an event, a lock or a queue that only another handler "
            "of this actor could serve, and handlers run one at a time, to completion. Return, and continue in that "
            "other handler: rayshot help porting#async",
            actor=self._name,
        )

    def close(self) -> None:
        """End the loop's tasks and async generators, and close the loop. Call this when the actor is gone."""
        if self._loop is not None:
            try:
                self._loop.run_until_complete(self._end_all(self._loop))
            except Exception:
                log.exception("%s: an async generator did not end well", self._name)
            finally:
                self._drop()

    async def _end_all(self, loop: ActorLoop) -> None:
        await self._end_tasks()
        await asyncio.wait_for(loop.shutdown_asyncgens(), CANCEL_S)

    def _drop(self) -> None:
        loop, self._loop, self._is_spoilt = self._loop, None, False
        if loop is not None:
            loop.close()


def _close(coroutine: Awaitable[Any]) -> None:
    """It is not awaited any more; if it was not awaited at all, Python would complain."""
    if isinstance(coroutine, Coroutine | Generator):
        coroutine.close()


async def _turn(times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


def others() -> set[asyncio.Task[Any]]:
    """The other tasks of the handler that runs."""
    here, handling = asyncio.current_task(), handling_here.get()
    return {
        task for task in asyncio.all_tasks() if task is not here and (handling is None or _owners.get(task) is handling)
    }


def _described(task: asyncio.Task[Any]) -> str:
    """The qualified name of the task's coroutine, and the line where it stands."""
    coroutine: Any = task.get_coro()
    name = _name(coroutine)
    frame = getattr(coroutine, "cr_frame", None)
    return name if frame is None else f"{name} ({Path(frame.f_code.co_filename).name}:{frame.f_lineno})"


def _name(coroutine: Any) -> str:
    return getattr(coroutine, "__qualname__", None) or repr(coroutine)


def _listed(left: Iterable[str]) -> str:
    return ", ".join(left)
