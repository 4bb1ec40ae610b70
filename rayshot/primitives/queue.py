"""`rayshot.Queue`: as `ray.util.queue.Queue`, and who waits for an item or for room waits in the state of an actor.

So no snapshot waits for a getter: it holds who waits, and since which call. Snapshots have the classes here by name:
keep them here.
"""

import queue
import sys
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rayshot.model.actor_class import actor
from rayshot.model.loop_calls import answers
from rayshot.model.port import result_of
from rayshot.primitives.waiters import Waiters, seconds_of

if TYPE_CHECKING:
    from rayshot.typed import ActorHandle, T
else:
    T = TypeVar("T")

NOTHING = False, None
"""The answer to a getter that gets nothing; others get `(True, item)`."""


@actor
class QueueActor:
    """The items of a queue, and the calls that wait for items and for room, the first first."""

    __rayshot_answers_late__ = True

    def __init__(self, maxsize: int) -> None:
        self.maxsize = maxsize
        self.items: deque[Any] = deque()
        self.getters = Waiters()
        self.putters = Waiters(brings=True)

    def qsize(self) -> int:
        """How many items are there. Those that wait for room do not count."""
        return len(self.items)

    def empty(self) -> bool:
        """Whether no item is there."""
        return not self.items

    def full(self) -> bool:
        """Whether there is no room."""
        return 0 < self.maxsize <= len(self.items)

    def put(self, item: Any, timeout: float | None = None) -> bool:
        """Add an item when there is room; answers whether it was added in time."""
        if self.full():
            self.putters.add(timeout, otherwise=False, value=item)
            return False
        self._add(item)
        return True

    def get(self, timeout: float | None = None) -> tuple[bool, Any]:
        """Take the first item when there is one; answers `(True, item)`, or NOTHING if there is none in time."""
        if self.items:
            return True, self._take()
        self.getters.add(timeout, otherwise=NOTHING)
        return NOTHING

    def put_nowait(self, item: Any) -> bool:
        """Add an item if there is room; answers whether there was."""
        return self.put_nowait_batch([item])

    def get_nowait(self) -> tuple[bool, Any]:
        """As `get`, at once."""
        return (True, self._take()) if self.items else NOTHING

    def put_nowait_batch(self, items: list[Any]) -> bool:
        """Add all items if there is room for all; answers whether there was."""
        if 0 < self.maxsize < len(self.items) + len(items):
            return False
        for item in items:
            self._add(item)
        return True

    def get_nowait_batch(self, count: int) -> list[Any] | None:
        """Take so many items if they are there; None if not."""
        return [self._take() for _ in range(count)] if count <= len(self.items) else None

    def _add(self, item: Any) -> None:
        waiting = self.getters.take()
        if waiting is None:
            self.items.append(item)
        else:
            waiting[0].give((True, item))

    def _take(self) -> Any:
        taken = self.items.popleft()
        while not self.full() and (waiting := self.putters.take()) is not None:
            putter, item = waiting
            putter.give(value=True)
            self.items.append(item)
        return taken


def _item_of(answer: tuple[bool, T]) -> T:
    is_there, item = answer
    if not is_there:
        raise _error("Empty")("no item is there")
    return item


class Queue(Generic[T]):
    """A first-in, first-out queue for actors, drivers, tasks and plain actors: `ray.util.queue.Queue` with snapshots.

    Who waits in `get` or `put` inside a handler waits as with `rayshot.get`: no snapshot can hold its actor meanwhile.
    At the top of a loop use `rayshot.loop(queue.get)`, and with many calls at a time `queue.actor.get.remote()`.

    Whose process is killed while it waits takes nothing once that is noticed. Of a program, a task or a plain actor
    this takes up to three seconds; an item that comes sooner still goes to it, and is lost, as with Ray's class.

    Args:
        maxsize: how many items have room; 0 or less: any number.
        actor_options: options of the queue's actor, as `name` and `num_cpus`. With a name and `get_if_exists=True`
            this is the queue of that name, if there is one: its items and its size stay.

    Errors are those of Ray's class: `ray.util.queue.Empty` and `Full`, which are `queue.Empty` and `queue.Full`;
    ValueError for a timeout below 0; TypeError for a maxsize or timeout that is no number. `actor` is the handle of the
    queue's actor; None behind `shutdown`. `Queue[str]` says to type checkers what the items are.
    """

    def __class_getitem__(cls, _item: object) -> Any:
        return cls  # else an object would keep what it was made by, and a state would have that

    def __init__(self, maxsize: int = 0, actor_options: dict[str, Any] | None = None) -> None:
        if not isinstance(maxsize, int | float):
            raise TypeError(f"maxsize is {maxsize!r}, not a number")
        self.maxsize = maxsize
        self.actor: ActorHandle[Any] | None = QueueActor.options(**(actor_options or {})).remote(maxsize)  # type: ignore[attr-defined]

    def __len__(self) -> int:
        return self.size()

    def size(self) -> int:
        """How many items are there."""
        found: int = result_of(self._actor.qsize.remote())
        return found

    def qsize(self) -> int:
        """As `size`."""
        return self.size()

    def empty(self) -> bool:
        """Whether no item is there."""
        return self.size() == 0

    def full(self) -> bool:
        """Whether there is no room."""
        return bool(result_of(self._actor.full.remote()))

    def put(self, item: T, block: bool = True, timeout: float | None = None) -> None:
        """Add an item. Waits for room, for `timeout` seconds at most; raises Full if there is none."""
        _check_put(result_of(self._put(item, timeout, block=block)))

    async def put_async(self, item: T, block: bool = True, timeout: float | None = None) -> None:
        """As `put`, in a coroutine."""
        _check_put(await self._put(item, timeout, block=block))

    @answers("get", _item_of)
    def get(self, block: bool = True, timeout: float | None = None) -> T:
        """Take the first item. Waits for one, for `timeout` seconds at most; raises Empty if there is none."""
        item: T = _item_of(result_of(self._get(timeout, block=block)))
        return item

    async def get_async(self, block: bool = True, timeout: float | None = None) -> T:
        """As `get`, in a coroutine."""
        item: T = _item_of(await self._get(timeout, block=block))
        return item

    def put_nowait(self, item: T) -> None:
        """As `put`, at once."""
        self.put(item, block=False)

    def get_nowait(self) -> T:
        """As `get`, at once."""
        return self.get(block=False)

    def put_nowait_batch(self, items: Iterable[T]) -> None:
        """Add all items at once. Raises Full, and adds none, if there is no room for all; TypeError if not iterable."""
        if not isinstance(items, Iterable):
            raise TypeError(f"put_nowait_batch takes items, not {items!r}")
        _check_put(result_of(self._actor.put_nowait_batch.remote([*items])))

    def get_nowait_batch(self, num_items: int) -> list[T]:
        """Take so many items at once. Raises Empty, and takes none, if there are fewer; TypeError, ValueError."""
        if not isinstance(num_items, int):
            raise TypeError(f"get_nowait_batch takes a number of items, not {num_items!r}")
        if num_items < 0:
            raise ValueError(f"num_items is {num_items}, not at least 0")
        items: list[T] | None = result_of(self._actor.get_nowait_batch.remote(num_items))
        if items is None:
            raise _error("Empty")(f"there are fewer than {num_items} items")
        return items

    def shutdown(self, force: bool = False, grace_period_s: float = 5) -> None:
        """End the queue's actor when it has handled what this process sent to it; who waits there gets ActorExited.

        Nothing ends it sooner, so the arguments change nothing. Afterwards the queue cannot be used.
        """
        del force, grace_period_s
        if self.actor is not None:
            self.actor.__ray_terminate__.tell()
            self.actor = None

    @property
    def _actor(self) -> "ActorHandle[Any]":
        if self.actor is None:
            raise RuntimeError("this queue was shut down")
        return self.actor

    def _put(self, item: T, timeout: float | None, *, block: bool) -> Any:
        if not block:
            return self._actor.put_nowait.remote(item)
        return self._actor.put.remote(item, seconds_of(timeout))

    def _get(self, timeout: float | None, *, block: bool) -> Any:
        if not block:
            return self._actor.get_nowait.remote()
        return self._actor.get.remote(seconds_of(timeout))


def _check_put(was_added: bool) -> None:
    if not was_added:
        raise _error("Full")("there is no room")


def _error(name: str) -> type[Exception]:
    """Ray's class of that name, if this program has its module; otherwise the class from which that is derived."""
    found: type[Exception] = getattr(sys.modules.get("ray.util.queue", queue), name)
    return found
