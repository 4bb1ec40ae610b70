"""Rewrite recorded messages for this program: moved classes get their new places, and specifications are today's.

Each message is checked before any handler runs: a message that names a missing class would be lost later, at its turn.
Only messages in a snapshot are rewritten, never messages sent from then on: a name that moved may have another meaning
in the running program.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rayshot.errors import CodeMismatch
from rayshot.format.classes_by_value import Names
from rayshot.format.codec import CALL, CREATE, PICKLED, REPLY, Codec, Frame, split_frame
from rayshot.format.global_names import find_global
from rayshot.format.outline import globals_of
from rayshot.format.pickle_bytes import PICKLE_START, mentions
from rayshot.format.pickling import ALL_PLACES, load_message, recast_parts
from rayshot.format.reshaping import LostPart, Reshaped
from rayshot.model.specification import ActorSpecification

Recast = TypeVar("Recast")


class _Gone(Exception):
    """A global that cannot be found anywhere."""


class Recasting:
    """Rewrites the messages that were in flight to the actor `receiver`, and the one that began its loop.

    `names` says which globals moved. `unborn` is the specification of a receiver that is not yet born: it replaces the
    one in the message that creates the receiver. It is None for a receiver that is born.
    """

    def __init__(self, codec: Codec, receiver: str, names: Names, unborn: ActorSpecification | None) -> None:
        self._codec = codec
        self._receiver = receiver
        self.names = names
        self._specification = None if unborn is None else unborn.pack()
        self._found: set[tuple[str, str]] = set()

    def frame(self, frame: Frame) -> Frame:
        """The frame with all its messages rewritten. Raises as `message`."""
        if frame.count == 0 or not self._concerns(frame.body):
            return frame
        messages = split_frame(frame)
        return frame._replace(
            body=b"".join(self.message(number, one) for number, one in enumerate(messages, frame.first))
        )

    def message(self, number: int, message: bytes) -> bytes:
        """Rewrite message `number` of its channel. Raises CodeMismatch if it does not fit the moved classes."""
        if not self._concerns(message):
            return message
        return self._recast(number, lambda: self._message(message))

    def state(self, state: dict[str, Any]) -> None:
        """Rewrite the messages in a recorded state that began its loops, and its first waits. Raises as `message`."""
        for one in (state.get("loop"), *state.get("parked", ())):
            if one is not None:
                one["message"] = self.message(one["number"], one["message"])

    def parts(self, number: int, parts: Sequence[Any]) -> Sequence[Any]:
        """Rewrite the pickle of a value beside a message, its stream first. Raises as `message`."""
        return self._recast(number, lambda: self._parts(parts))

    def _parts(self, parts: Sequence[Any]) -> Sequence[Any]:
        stream = bytes(parts[0])
        self._check_globals(stream)
        return recast_parts(parts, self.names) if any(mentions(stream, name) for name in self.names) else parts

    def _recast(self, number: int, work: Callable[[], Recast]) -> Recast:
        try:
            return work()
        except Exception as error:  # unpickling and pickling run code of the values' classes
            raise self._mismatch(number, error) from error

    def _mismatch(self, number: int, error: Exception) -> CodeMismatch:
        whose = f"message {number} in flight to {self._receiver!r}"
        if isinstance(error, _Gone):
            return CodeMismatch(
                f"{whose} holds {error}, which this program does not have: import the module "
                "that defines it, or give its new name with rename_classes={'old.module.Class': NewClass}",
                receiver=self._receiver,
                number=number,
                class_name=str(error),
            )
        if isinstance(error, LostPart):
            why = f"{whose} holds what this program does not have: {error}"
            return CodeMismatch(why, receiver=self._receiver, number=number)
        return CodeMismatch(
            f"{whose} cannot be read with rename_classes: {error!r}", receiver=self._receiver, number=number
        )

    def _concerns(self, body: bytes | memoryview) -> bool:
        return self._specification is not None or PICKLE_START in bytes(body)

    def _message(self, message: bytes) -> bytes:
        codec = self._codec
        (fields,) = codec.unpacker(message)
        match fields[0]:
            case head if head is PICKLED:
                self._check_globals(fields[2])
                if not any(mentions(fields[2], name) for name in self.names):
                    return message
                return codec.tell(*load_message(fields[1], fields[2], self.names, ALL_PLACES))
            case head if head is CALL:
                return codec.call(fields[1], self._message(fields[2]))
            case head if head is REPLY:
                return codec.pack([REPLY, fields[1], fields[2], self._message(fields[3])])
            case head if head is CREATE:
                return codec.create(self._specification or fields[1], self._message(fields[2]))
        return message

    def _check_globals(self, pickled: bytes) -> None:
        """Raise _Gone for a global that has not moved and cannot be found. Imports modules, but calls nothing."""
        for module, name in globals_of(pickled) - self._found:
            moved = self.names.get(f"{module}.{name}")
            stays = moved is None or (isinstance(moved, Reshaped) and moved.to is None)
            if stays and find_global(module, name) is None:
                raise _Gone(f"{module}.{name}")
            self._found.add((module, name))
