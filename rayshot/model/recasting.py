"""Recorded messages as this program takes them: with classes where they went, and with the specifications of today.

Each is looked at before any handler runs: one that names a class that is nowhere would be lost later, when its turn
comes. Only what a snapshot holds is written anew, never what is sent from then on: a name that moved may mean something
else among the living.
"""

from collections.abc import Sequence
from typing import Any

from rayshot.errors import CodeMismatch
from rayshot.format.codec import CALL, CREATE, PICKLED, REPLY, Codec, Frame, split_frame
from rayshot.format.outline import globals_of
from rayshot.format.pickle_bytes import PICKLE_START, mentions
from rayshot.format.pickling import ALL_PLACES, Names, load_message, recast_parts
from rayshot.model.specification import ActorSpecification, find_global


class _Gone(Exception):
    """A global that is nowhere to be found."""


class Recasting:
    """Writes anew what was in flight to the actor `receiver`.

    `names` says which globals moved. `unborn` is the specification of a receiver that is not born yet: it goes into the
    message that creates it; None for one that is born.
    """

    def __init__(self, codec: Codec, receiver: str, names: Names, unborn: ActorSpecification | None) -> None:
        self._codec = codec
        self._receiver = receiver
        self._names = names
        self._specification = None if unborn is None else unborn.pack()
        self._found: set[tuple[str, str]] = set()

    def frame(self, frame: Frame) -> Frame:
        """A frame with all its messages as they are to be. Raises as `message`."""
        if frame.count == 0 or not self._concerns(frame.body):
            return frame
        messages = split_frame(frame)
        return frame._replace(
            body=b"".join(self.message(number, one) for number, one in enumerate(messages, frame.first))
        )

    def message(self, number: int, message: bytes) -> bytes:
        """One message, number `number` of its channel. Raises CodeMismatch where it does not fit what moved."""
        if not self._concerns(message):
            return message
        try:
            return self._message(message)
        except Exception as error:  # unpickling and pickling run code of the values' classes
            raise self._mismatch(number, error) from error

    def parts(self, number: int, parts: Sequence[Any]) -> Sequence[Any]:
        """The pickle of what lies beside a message, stream first, as it is to be. Raises as `message`."""
        stream = bytes(parts[0])
        try:
            self._check_globals(stream)
            return recast_parts(parts, self._names) if any(mentions(stream, name) for name in self._names) else parts
        except Exception as error:  # as in `message`
            raise self._mismatch(number, error) from error

    def _mismatch(self, number: int, error: Exception) -> CodeMismatch:
        whose = f"message {number} in flight to {self._receiver!r}"
        if isinstance(error, _Gone):
            return CodeMismatch(
                f"{whose} holds {error}, which this program has not: import "
                "what defines it, or say where it went with rename_classes={'old.module.Class': NewClass}",
                receiver=self._receiver,
                number=number,
                class_name=str(error),
            )
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
                if not any(mentions(fields[2], name) for name in self._names):
                    return message
                return codec.tell(*load_message(fields[1], fields[2], self._names, ALL_PLACES))
            case head if head is CALL:
                return codec.call(fields[1], self._message(fields[2]))
            case head if head is REPLY:
                return codec.pack([REPLY, fields[1], fields[2], self._message(fields[3])])
            case head if head is CREATE:
                return codec.create(self._specification or fields[1], self._message(fields[2]))
        return message

    def _check_globals(self, pickled: bytes) -> None:
        """Raise _Gone for a global that has not moved and is not to be found. Imports modules, and calls nothing."""
        for module, name in globals_of(pickled) - self._found:
            if f"{module}.{name}" not in self._names and find_global(module, name) is None:
                raise _Gone(f"{module}.{name}")
            self._found.add((module, name))
