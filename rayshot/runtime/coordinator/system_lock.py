"""The one lock of a coordinator."""

import threading
from types import TracebackType


class SystemLock:
    """Covers all that a coordinator knows of its system: the lives, their members and their snapshots.

    A thread that holds it may take it again. Who holds it waits for nobody: neither for the storage, nor for Ray's
    control service, nor for another process.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._owner: int | None = None
        self._depth = 0

    @property
    def is_held(self) -> bool:
        """Whether this thread holds it."""
        return self._owner == threading.get_ident()

    def __enter__(self) -> None:
        self._lock.acquire()
        self._owner = threading.get_ident()
        self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = None
        self._lock.release()
