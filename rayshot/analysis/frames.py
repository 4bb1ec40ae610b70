"""The cells of `messages`, column by column, one frame at a time.

Nearly all messages are tells with flat arguments, and one frame holds thousands of them. Their fields become columns
without a Python step for each message: a value that is the same for all is given once, and whether a method hides its
arguments is found out once per method. All other messages are read row by row, into the same block.
"""

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice, repeat
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import Any

from rayshot.analysis import values
from rayshot.analysis.message_rows import MessagePart, MessageRow
from rayshot.analysis.plain_json import as_json_arrays
from rayshot.analysis.view import Block, Cells, Column, Repeated
from rayshot.errors import BadManifest
from rayshot.format.codec import Frame, RecordedMessage, recorded_message, unpack_messages
from rayshot.inert.redaction import name_taken
from rayshot.snapshots.channel_state import ChannelState
from rayshot.snapshots.snapshot import Snapshot

ROWS_MIN = 4096
"""A block ends at this many rows, at BYTES_MIN bytes of frames, or at TEXT_LENGTH_MIN characters of single rows."""
BYTES_MIN = TEXT_LENGTH_MIN = 8 << 20

_Messages = list[list[Any]]
_Singles = dict[int, list[Any]]
"""The cells of single rows, by the places of their messages."""


def message_blocks(snapshot: Snapshot, part: MessagePart, columns: Sequence[Column]) -> Iterator[Block]:
    """The cells of `columns` for the messages of a part; raises what single rows would raise."""
    channel = snapshot.channel(part.sender, part.receiver)
    run = _Run(snapshot, channel, columns)
    for frame in channel.frames(part.first, part.last):
        number = frame.first
        if number == channel.arrived + 1:  # messages in the outbox are a separate run
            yield from run.end()
        try:
            for messages in _unpacked(frame):
                yield from run.add(number, messages, len(frame.body))
                number += len(messages)
        except BadManifest:  # reading them one by one finds the bad message
            yield from run.end()
            rest = (message for message in channel.decode(frame) if message.number >= number)
            while cells := [run.cells(message) for message in islice(rest, ROWS_MIN)]:
                yield Block(len(cells), list(zip(*cells, strict=True)))
    yield from run.end()


def _unpacked(frame: Frame) -> Iterator[_Messages]:
    unpacked = unpack_messages(frame, ROWS_MIN)
    while True:
        with _collector_off():
            messages = next(unpacked, None)
        if messages is None:
            return
        yield messages


class _Run:
    """Consecutive messages that wait in one place, from as many frames as make up a block."""

    def __init__(self, snapshot: Snapshot, channel: ChannelState, columns: Sequence[Column]) -> None:
        self._snapshot = snapshot
        self._channel = channel
        self._columns = columns
        self._first = 0
        self._messages: _Messages = []
        """The messages, beginning with number `first`."""
        self._bytes = 0

    def add(self, first: int, messages: _Messages, size: int) -> Iterator[Block]:
        """Add the messages of a frame of `size` bytes, beginning with number `first`; yields full blocks."""
        if not self._messages:
            self._first = first
        self._messages += messages
        self._bytes += size
        if len(self._messages) >= ROWS_MIN or self._bytes >= BYTES_MIN:
            yield from self.end()

    def end(self) -> Iterator[Block]:
        """Yield the blocks of all messages added since the last end."""
        messages, begin, length = self._messages, 0, 0
        singles: _Singles = {}
        for place in self._places_of_singles():
            number = self._first + place
            cells = self.cells(recorded_message(number, messages[place], self._channel.slots_of(number)))
            singles[place - begin] = cells
            length += sum(len(cell) for cell in cells if isinstance(cell, str))
            if length >= TEXT_LENGTH_MIN:
                yield self._block(self._first + begin, messages[begin : place + 1], singles)
                begin, length, singles = place + 1, 0, {}
        if begin < len(messages):
            yield self._block(self._first + begin, messages[begin:] if begin else messages, singles)
        self._messages, self._bytes = [], 0

    def cells(self, message: RecordedMessage) -> list[Any]:
        """The cells of one message, computed as for a single row."""
        row = MessageRow.of(self._channel, message)
        return [column.cell(self._snapshot, row) for column in self._columns]

    def _places_of_singles(self) -> Sequence[int]:
        """Messages that are not flat tells, that come with values beside them, or whose method hides its arguments."""
        heads = [fields[0] if fields else None for fields in self._messages]
        others = {head for head in set(heads) if type(head) is not str or name_taken(head) is not None}
        with_slots = self._channel.with_slots
        if not others and not with_slots:
            return ()
        return [place for place, head in enumerate(heads) if head in others or self._first + place in with_slots]

    def _block(self, first: int, messages: _Messages, singles: _Singles) -> Block:
        with _collector_off():
            return Block(len(messages), self._columns_of(first, messages, singles))

    def _columns_of(self, first: int, messages: _Messages, singles: _Singles) -> list[Cells]:
        flat = [fields for place, fields in enumerate(messages) if place not in singles] if singles else messages
        tells = _Tells(flat)
        alike = MessageRow.of(self._channel, RecordedMessage(first, "tell", "", (), {}))
        columns: list[Cells] = []
        for index, column in enumerate(self._columns):
            if column.name == "number":
                columns.append(range(first, first + len(messages)))
            elif column.name in _OF_TELLS:
                columns.append(_merged(_OF_TELLS[column.name](tells), singles, index, len(messages)))
            else:
                columns.append(Repeated(column.cell(self._snapshot, alike)))
        return columns


def _merged(of_tells: Cells, singles: _Singles, index: int, count: int) -> Cells:
    """The column of a block; `of_tells` are the cells of its tells."""
    if not singles:
        return of_tells
    cells = repeat(of_tells.cell) if isinstance(of_tells, Repeated) else iter(of_tells)
    return [singles[place][index] if place in singles else next(cells) for place in range(count)]


class _Tells:
    """The columns of flat tells."""

    def __init__(self, tells: _Messages) -> None:
        self._tells = tells

    @property
    def methods(self) -> Cells:
        methods = list(map(itemgetter(0), self._tells))
        return Repeated(methods[0]) if len(set(methods)) == 1 else methods

    @property
    def args(self) -> Cells:
        return self._json[0]

    @property
    def truncated(self) -> Cells:
        cut = self._json[1]
        return [place in cut for place in range(len(self._tells))] if cut else Repeated(cell=False)

    @cached_property
    def _json(self) -> tuple[list[bytes | str], set[int]]:
        return as_json_arrays([fields[1:] for fields in self._tells], values.in_json)


_OF_TELLS: Mapping[str, Callable[[_Tells], Cells]] = MappingProxyType(
    {
        "kind": lambda _: Repeated("tell"),
        "call_id": lambda _: Repeated(None),
        "method": attrgetter("methods"),
        "args": attrgetter("args"),
        "kwargs": lambda _: Repeated("{}"),
        "truncated": attrgetter("truncated"),
    }
)
"""Columns that differ between messages, for flat tells. All others, except `number`, have one value in a run."""


@contextmanager
def _collector_off() -> Iterator[None]:
    """Turn off Python's garbage collector: it would search thousands of new lists again and again, and find nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
