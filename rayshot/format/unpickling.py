"""The one module that unpickles: bytes become live objects here and nowhere else; only `pickling` calls it.

It runs code that the bytes choose. A restore checks the signature of the bytes before. Between the processes of one
Ray cluster the bytes are trusted, as Ray trusts its own.
"""

import io
import pickle
from collections.abc import Sequence
from typing import Any, ClassVar

from rayshot.format.by_value import ClassMakers, Names
from rayshot.format.exceptions import fill_leniently, make_leniently


def unpickle(stream: bytes | memoryview, buffers: Sequence[Any] = (), names: Names | None = None) -> Any:
    """The value of a pickle with these out-of-band buffers, where `names` stand for globals that moved.

    Raises whatever the classes of the pickle raise.
    """
    try:
        return _Unpickler(stream, buffers, names).load() if names else pickle.loads(stream, buffers=buffers)
    except (TypeError, AttributeError):  # maybe of an exception's class
        return _LenientUnpickler(stream, buffers, names or {}).load()


class _Moved:
    """Finds what stands for globals and classes by value that moved."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._makers = ClassMakers(names)

    def find(self, module: str, name: str) -> Any:
        """What stands for this global; None if it did not move."""
        moved = self._names.get(f"{module}.{name}")
        return self._makers.find(module, name) if moved is None else moved


class _Unpickler(pickle.Unpickler):
    """Reads a pickle in which some globals and classes by value have moved."""

    def __init__(self, stream: bytes | memoryview, buffers: Sequence[Any], names: Names) -> None:
        super().__init__(io.BytesIO(stream), buffers=buffers)
        self._moved = _Moved(names)

    def find_class(self, module: str, name: str) -> Any:
        """See pickle.Unpickler."""
        moved = self._moved.find(module, name)
        return super().find_class(module, name) if moved is None else moved


_InPython: Any = pickle._Unpickler  # noqa: SLF001 - the other one's steps cannot be changed


class _LenientUnpickler(_InPython):  # type: ignore[misc]  # as far as types go, it is anything
    """As `_Unpickler`, but slow. It also makes exceptions whose classes refuse their arguments."""

    dispatch: ClassVar = dict(_InPython.dispatch)

    def __init__(self, stream: bytes | memoryview, buffers: Sequence[Any], names: Names) -> None:
        super().__init__(io.BytesIO(stream), buffers=buffers)
        self._moved = _Moved(names)

    def find_class(self, module: str, name: str) -> Any:
        """See pickle.Unpickler."""
        moved = self._moved.find(module, name)
        return super().find_class(module, name) if moved is None else moved

    def load_reduce(self) -> None:
        """Call a class or function."""
        arguments = self.stack.pop()
        called = self.stack[-1]
        is_exception = isinstance(called, type) and issubclass(called, BaseException)
        self.stack[-1] = make_leniently(called, arguments) if is_exception else called(*arguments)

    def load_build(self) -> None:
        """Give an object its state."""
        if isinstance(self.stack[-2], BaseException) and isinstance(self.stack[-1], dict):
            fill_leniently(self.stack[-2], self.stack.pop())
        else:
            super().load_build()

    dispatch[pickle.REDUCE[0]] = load_reduce
    dispatch[pickle.BUILD[0]] = load_build
