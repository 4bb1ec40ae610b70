"""Where in a value a pickle fails to load: the path to the part that the opcode before a byte makes or fills."""

from collections.abc import Iterator, Sequence
from typing import Any

from rayshot.format.paths import deeper
from rayshot.inert.inert_object import Inert
from rayshot.inert.pickle_machine import PickleMachine

_PARTS_MAX = 100_000


def find_failing_part(stream: bytes | memoryview, buffers: Sequence[bytes | memoryview], at: int, name: str) -> str:
    """The path, which begins with `name`, to what the opcode that ends at byte `at` makes; runs nothing of it.

    If nothing in the value is that part, it is `name` itself. Raises as `inert.read`.
    """
    machine = _Stopping(bytes(stream), buffers)
    culprit = machine.run_to(at)
    return _path_to(machine.run(), culprit, name)


class _Stopping(PickleMachine):
    """Stops at a byte on its way."""

    def run_to(self, at: int) -> Any:
        """Run until this byte; returns what the last opcode has made or filled."""
        while self._at < min(at, len(self._data) - 1):
            code = self._data[self._at]
            self._at += 1
            self.operations.get(bytes([code]), PickleMachine.refuse)(self)
        return self._stack[-1] if self._stack else None


def _path_to(value: object, wanted: object, name: str) -> str:
    """The path to the wanted object, or else to the first object of it, if it is a class."""
    start = len(name)
    waiting: list[tuple[str, object]] = [(name, value)]
    seen: set[int] = set()
    while waiting and len(seen) < _PARTS_MAX:
        path, part = waiting.pop()
        if part is wanted or (type(part) is Inert and part.cls is wanted):
            return path
        if id(part) not in seen:
            seen.add(id(part))
            waiting += [(deeper(path, step, start), inner) for step, inner in reversed([*_parts(part)])]
    return name


def _parts(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        yield from ((f"[{key!r:.80}]", part) for key, part in value.items())
    elif isinstance(value, list | tuple):
        yield from ((f"[{index}]", part) for index, part in enumerate(value))
    elif isinstance(value, set | frozenset):
        yield from ((f"{{{part!r:.40}}}", part) for part in value)
    elif type(value) is Inert:
        attributes, args, state = value.parts
        yield from ((f".{name}", part) for name, part in attributes.items())
        yield from ((f"[{index}]", part) for index, part in enumerate(value.items))
        yield from ((f"[{key!r:.80}]", part) for key, part in value.entries.items())
        yield from (("", part) for part in (args, state, value.kwargs))
