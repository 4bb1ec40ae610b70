"""What a scratch process does with a trial: it loads the state, and says what came of it.

It never drops what it made, also not the half-made objects of a load that failed: their `__del__` could remove the file
or close the connection that the living actor uses. It must end by `os._exit`, with the garbage collector off.
"""

import importlib
import mmap
import resource
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rayshot.errors import CodeMismatch
from rayshot.format.classes_by_value import Names
from rayshot.format.codec import CALL, CREATE, END, REPLY, Codec
from rayshot.format.global_names import find_global
from rayshot.format.outline import globals_of
from rayshot.format.pickling import Keeping, load_names, load_state
from rayshot.format.references import provide_references
from rayshot.format.slots import FAILED, VALUE, Slot, StoredValue
from rayshot.model.cell import Cell
from rayshot.model.event_loop import Coroutines
from rayshot.model.handle import ActorHandle
from rayshot.model.recasting import Recasting
from rayshot.model.specification import ActorSpecification
from rayshot.proving.failing_part import find_failing_part
from rayshot.proving.trial import PROVED, Trial, TrialAnswer, judge

LOOKED_THROUGH_BYTES_MAX = 1 << 20
"""A longer stream is not searched for modules to import before it is loaded."""
_MEMORY_BYTES_MIN, _MEMORY_FACTOR = 256 << 20, 12
"""A load may take so many bytes, and this times the bytes of the state if that is more."""


class _Reference:
    """Stands for an object that a restore would put into Ray again."""

    def __init__(self, value: object) -> None:
        self.value = value


class TrialLoad:
    """One load in a scratch process. Everything that it makes stays alive with it."""

    def __init__(self, trial: Trial, descriptor: int) -> None:
        self._trial = trial
        self._keeping = Keeping()
        self._made: list[Any] = []
        self._parts = _mapped(descriptor, trial.sizes)
        self._names: Names = {}
        self._message = 0

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

    def run(self, *, exactly: bool) -> TrialAnswer:
        """Load the state, or the messages.

        `exactly`: more slowly, and an error of the state comes with the path to the part that raised it.
        """
        if not self._trial.is_whole:
            _limit_memory(sum(self._trial.sizes))
        provide_references(_Reference, _value_of, _Reference)
        try:
            self._load(exactly=exactly)
        except BaseException as error:  # noqa: BLE001 - loading runs any code, and whatever it raises is the answer
            self._made.append(error)
            answer = judge(self._of_code(error))
            if self._message:
                return answer._replace(path=f"message {self._message}")
            return answer._replace(path=self._path()) if exactly and answer.word == "refuted" else answer
        return PROVED

    def _load(self, *, exactly: bool) -> None:
        trial = self._trial
        specification = ActorSpecification.unpack(trial.specification)
        self._names = {} if trial.names is None else load_names(trial.names)
        self._keeping.exactly = exactly
        if trial.messages:
            with self._keeping:
                for number, message in load_messages(trial, self._parts, self._names):
                    self._message = number
                    self._made.append(message)
            return
        specification = specification.recast(self._names)
        cell = Cell(trial.actor, _Nowhere(), time.monotonic, Coroutines(trial.actor))  # type: ignore[arg-type]
        self._made += [cell, specification]
        own = cell.become(specification, specification.resolve())
        with self._keeping:
            state = load_state(self._parts[0], self._parts[1:], own, self._names)
        self._made += [own, state]
        if trial.is_whole:
            cell.load(state, trial.version)

    def _of_code(self, error: BaseException) -> BaseException:
        """CodeMismatch in the place of an error that says that a class is gone from its module, as for a restore."""
        if not (self._trial.is_whole and isinstance(error, AttributeError)):
            return error
        with suppress(Exception):
            for module, name in globals_of(self._parts[0]):
                if f"{module}.{name}" not in self._names and find_global(module, name) is None:
                    return CodeMismatch(f"{module}.{name} is not to be found here")
        return error

    def _path(self) -> str:
        try:
            at = self._keeping.position
            return "" if at is None else find_failing_part(self._parts[0], self._parts[1:], at, self._trial.actor)
        except Exception:  # noqa: BLE001 - without its path the answer is as true
            return ""


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


def load_messages(trial: Trial, parts: Sequence[memoryview], names: Names) -> Iterator[tuple[int, object]]:
    """The messages in flight, read as their receiver reads them after a restore, and handed to nobody.

    It gives the number of each one before it is loaded, and again with what it holds.

    Raises CodeMismatch for what this program does not have, and whatever the classes of the values raise.
    """
    codec = Codec(ActorHandle, lambda handle: handle.name, lambda name: ActorHandle("", name, None, None))
    recasting = Recasting(codec, trial.actor, names, None)
    rest = iter(parts)
    for number, kinds in trial.messages:
        yield number, None
        message = recasting.message(number, bytes(next(rest)))
        slots = []
        for kind, count in kinds:
            content = StoredValue(recasting.parts(number, [next(rest) for _ in range(count)]))
            slots.append(Slot(VALUE if kind == FAILED else kind, content=content))  # an error is loaded, not raised
        yield number, _decoded(codec, message, slots)


def _decoded(codec: Codec, message: bytes, slots: Sequence[Slot]) -> object:
    fields = next(codec.unpacker(message))
    if fields[0] == END:
        return None
    return codec.decode_tell(fields[-1] if fields[0] in (CALL, REPLY, CREATE) else fields, slots)
