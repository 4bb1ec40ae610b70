"""What a scratch process does with a trial: it loads the state, and says what came of it.

It never drops what it made, also not the half-made objects of a load that failed: their `__del__` could remove the file
or close the connection that the living actor uses. It must end by `os._exit`, with the garbage collector off.
"""

import importlib
import mmap
import resource
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rayshot.format.failing_part import find_failing_part
from rayshot.format.outline import globals_of
from rayshot.format.pickling import Keeping, load_names, load_state
from rayshot.format.references import provide_references
from rayshot.model.cell import Cell
from rayshot.model.event_loop import Coroutines
from rayshot.model.specification import ActorSpecification, find_class
from rayshot.proving.trial import PROVED, Answer, Trial, judge

LOOKED_THROUGH_BYTES_MAX = 1 << 20
"""A longer stream is not searched for modules to import before it is loaded."""
_MEMORY_BYTES_MIN, _MEMORY_FACTOR = 256 << 20, 12
"""A load may take so many bytes, and this times the bytes of the state if that is more."""


class _Reference:
    """Stands for an object that a restore would put into Ray again."""

    def __init__(self, value: object) -> None:
        self.value = value


class Load:
    """One load in a scratch process. Everything that it makes stays alive with it."""

    def __init__(self, trial: Trial, descriptor: int) -> None:
        self._trial = trial
        self._keeping = Keeping()
        self._made: list[Any] = []
        self._parts = _mapped(descriptor, trial.sizes)

    def import_modules(self) -> None:
        """Import what the class and the state need: it may take long, and much address space, which is not theirs."""
        specification = ActorSpecification.unpack(self._trial.specification)
        with suppress(Exception):
            self._made.append(specification.resolve())
        stream = self._parts[0]
        if stream.nbytes <= LOOKED_THROUGH_BYTES_MAX:
            with suppress(Exception):  # the load says what is wrong with it
                for module in sorted({module for module, _ in globals_of(stream)}):
                    with suppress(Exception):
                        importlib.import_module(module)

    def run(self, *, exactly: bool) -> Answer:
        """Load the state. `exactly`: more slowly, and an error comes with the path to the part that raised it."""
        if not self._trial.is_whole:
            _limit_memory(sum(self._trial.sizes))
        provide_references(_Reference, _value_of, _Reference)
        try:
            self._load(exactly=exactly)
        except BaseException as error:  # noqa: BLE001 - loading runs any code, and whatever it raises is the answer
            self._made.append(error)
            answer = judge(error)
            return answer._replace(path=self._path()) if exactly and answer.word == "refuted" else answer
        return PROVED

    def _load(self, *, exactly: bool) -> None:
        trial = self._trial
        specification = ActorSpecification.unpack(trial.specification)
        names = None if trial.names is None else load_names(trial.names)
        specification = specification if names is None else _of_today(specification.recast(names))
        cell = Cell(trial.actor, _Nowhere(), time.monotonic, Coroutines(trial.actor))  # type: ignore[arg-type]
        self._made += [cell, specification, names]
        own = cell.become(specification, specification.resolve())
        self._keeping.exactly = exactly
        with self._keeping:
            state = load_state(self._parts[0], self._parts[1:], own, names)
        self._made += [own, state]
        if trial.is_whole:
            cell.load(state, trial.version)

    def _path(self) -> str:
        try:
            at = self._keeping.position
            return "" if at is None else find_failing_part(self._parts[0], self._parts[1:], at, self._trial.actor)
        except Exception:  # noqa: BLE001 - without its path the answer is as true
            return ""


def _of_today(recorded: ActorSpecification) -> ActorSpecification:
    """The specification with the class that has this name here, and so with its version; the recorded one if none has.

    Raises CodeMismatch if the class is not to be found.
    """
    found = find_class(recorded.class_module, recorded.class_name)
    return recorded if found is None else ActorSpecification.of(found, recorded.options)


class _Nowhere:
    """The port of an actor that only a trial makes: it hears its wishes, and sends nothing."""

    def request_end(self) -> None:
        """The actor had asked for its end."""


def _mapped(descriptor: int, sizes: Sequence[int]) -> list[memoryview]:
    """The parts of a state in a file; what is written to them stays in this process."""
    whole = memoryview(mmap.mmap(descriptor, sum(sizes), access=mmap.ACCESS_COPY)) if sum(sizes) else memoryview(b"")
    parts, offset = [], 0
    for size in sizes:
        parts.append(whole[offset : offset + size])
        offset += size
    return parts


def _limit_memory(state_bytes: int) -> None:
    """Let this process take no more than a state of this size needs: who takes all memory hurts the whole node."""
    now = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    limit = now + max(_MEMORY_BYTES_MIN, _MEMORY_FACTOR * state_bytes)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _value_of(reference: _Reference) -> object:
    return reference.value
