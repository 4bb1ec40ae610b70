"""What the tasks of an actor's event loop wait for, and whether a thread could bring it.

Each task of a loop is examined. A task that waits for other tasks waits for what those wait for. A task that waits for
a lock, an event or a queue waits for something else that runs on the loop. Any other wait may be ended from outside,
also by code that is not Python, so such a wait is never called hopeless.
"""

import asyncio
import asyncio.taskgroups
import threading
from collections.abc import Set as AbstractSet
from contextvars import ContextVar
from pathlib import Path
from typing import Any

handling_here: ContextVar[Any] = ContextVar("rayshot_handling", default=None)
"""Where several handlers of an actor run at once: the Handling of the one whose code runs."""
LOCKS = frozenset({asyncio.locks.__file__, asyncio.queues.__file__})
WAITS_OF_ASYNCIO = LOCKS | {asyncio.tasks.__file__, asyncio.timeouts.__file__}
"""Where the coroutines of asyncio stand that change nothing while they wait."""
_GROUPS = asyncio.taskgroups.__file__
_GATHERING = asyncio.tasks._GatheringFuture  # type: ignore[attr-defined]  # noqa: SLF001 - what gather returns
_WAIT = asyncio.tasks._wait.__code__  # type: ignore[attr-defined]  # noqa: SLF001 - where asyncio.wait waits
_ASYNCIO = str(Path(asyncio.__file__).parent)


def is_among_themselves(tasks: AbstractSet[asyncio.Task[Any]]) -> bool:
    """Whether `tasks`, all tasks of a loop, wait only for each other, or for locks, events and queues."""
    return bool(tasks) and all(_waits_inside(task, tasks) for task in tasks)


def _waits_inside(task: asyncio.Task[Any], tasks: AbstractSet[asyncio.Task[Any]]) -> bool:
    frames = _frames(task)
    code = frames[-1].f_code if frames else None
    if code is _WAIT:
        return all(_is_inside(future, tasks) for future in frames[-1].f_locals["fs"])
    if code is not None and (code.co_filename in LOCKS or code.co_filename == _GROUPS):
        return True
    return _is_inside(getattr(task, "_fut_waiter", None), tasks)


def _is_inside(future: Any, tasks: AbstractSet[asyncio.Task[Any]]) -> bool:
    if isinstance(future, _GATHERING):
        return all(child.done() or _is_inside(child, tasks) for child in future._children)  # noqa: SLF001
    return future in tasks or any(_wakes(task, future) for task in tasks)


def _wakes(task: asyncio.Task[Any], future: Any) -> bool:
    """Whether asyncio.shield made the future, so that it is done when the task is done."""
    callbacks = (callback for callback, _ in getattr(task, "_callbacks", None) or ())
    return any(
        cell.cell_contents is future
        for callback in callbacks
        if getattr(callback, "__qualname__", "") == "shield.<locals>._inner_done_callback"
        for cell in callback.__closure__
    )


def threads_besides(known: AbstractSet[threading.Thread]) -> set[threading.Thread]:
    """The threads that Python code started in this process, without `known` ones and those of rayshot and Ray."""
    return {thread for thread in threading.enumerate() if not _is_of_ours(thread)} - known


def _is_of_ours(thread: threading.Thread) -> bool:
    """Whether the thread is rayshot's or Ray's. Python makes a dummy for each native thread of Ray that it meets."""
    kind = type(thread)
    return (
        thread.name.startswith("rayshot-") or kind.__module__.startswith("ray.") or kind is threading._DummyThread  # noqa: SLF001 - there is no other name of it
    )


def place(task: asyncio.Task[Any]) -> str:
    """File and line where a task waits, in the innermost code outside asyncio."""
    own = [frame for frame in _frames(task) if not frame.f_code.co_filename.startswith(_ASYNCIO)]
    return f"{own[-1].f_code.co_filename}:{own[-1].f_lineno}" if own else "?"


def _frames(task: asyncio.Task[Any]) -> list[Any]:
    """The frames of the coroutines that a task waits in, the outermost first."""
    found = []
    waiting: Any = task.get_coro()
    while (frame := getattr(waiting, "cr_frame", None)) is not None:
        found.append(frame)
        waiting = waiting.cr_await
    return found
