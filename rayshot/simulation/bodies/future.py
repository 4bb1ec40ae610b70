"""The future result of a test's call."""

from collections.abc import Callable
from typing import Any, NoReturn

from rayshot.errors import NotAnObjectRef
from rayshot.model.calls import Unanswered


class Future(Unanswered):
    """The result of `.remote(...)` in a test. `result` runs the world until the call is answered."""

    def __init__(self, what: str, run_until: Callable[[Callable[[], bool], str], None]) -> None:
        self._what = what
        self._run_until = run_until
        self._done = False
        self._ok = True
        self._value: Any = None

    def __repr__(self) -> str:
        return f"<Future of {self._what}: {'answered' if self._done else 'open'}>"

    def __reduce__(self) -> NoReturn:
        raise NotAnObjectRef("a Future is not a value: send its .result()")

    def done(self) -> bool:
        """Whether the call was answered, or never will be."""
        return self._done

    def result(self) -> Any:
        """The result; runs the world until it is there. Raises what the handler raised, and ActorExited."""
        if not self._done:
            self._run_until(self.done, self._what)
        if not self._ok:
            raise self._value
        return self._value

    def get(self, timeout: float | None = None) -> Any:
        """As `result`; a world has the time that it takes."""
        del timeout
        return self.result()

    def settle(self, value: Any, *, ok: bool) -> None:
        """Internal: set the result, or with `ok=False` the exception. The first one counts, as after a rollback."""
        if not self._done:
            self._done, self._ok, self._value = True, ok, value
