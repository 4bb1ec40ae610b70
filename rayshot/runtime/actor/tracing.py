"""The trace of one actor: what it handled, sent and recorded, event by event, so that its snapshots can be proved.

Every record has a segment of the trace: the events since the last snapshot that is known to be committed. So the
segments of committed snapshots have no gap between them. `rayshot/audit/segment.py` says how a segment is written; it
reads segments, and shares no code with this file.

Everything here runs on the worker's thread, except `over` and `sent_by_thread`.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgpack

from rayshot.format.codec import Codec
from rayshot.format.slots import Slot
from rayshot.model.cell import Cell
from rayshot.model.configuration import Trace
from rayshot.model.current import runs_here
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.channel.outbox import Outbox

SEGMENT_VERSION = 2
HANDLED_RUN, HANDLED, HANDLED_IN_FULL, FIRED, RECORDED, ENDED, SENT, SUSPENDED, RESUMED = range(9)
AT_TOP, PASS_BEGAN, PASS_WAITED, LOOP_OVER = range(9, 13)
TICKS_IN_A_SECOND = 10_000
"""The time of an event is written in ticks since the event before it."""
TRACE_BYTES_MAX = 64 << 20
"""If a trace grows above so many bytes between two commits, it is given up until the next record."""

log = logging.getLogger("rayshot")
_pack = msgpack.Packer(use_bin_type=True).pack


class _Mark(NamedTuple):
    """A point in the trace where a segment can start: its offset, its time, and the counters at that point."""

    snapshot: str
    offset: int
    number: int
    tick: int
    sent: Mapping[str, int]
    received: Mapping[str, int]


class Tracer:
    """Writes one actor's trace. With `full`, it also holds the bytes of each handled message.

    `first` is the number of the next event. `late`: other events happened before, so the trace starts with the next
    record. `at_top`: a method is at the top of a pass of its loop.
    """

    def __init__(
        self,
        name: str,
        *,
        full: bool,
        first: int = 1,
        late: bool = False,
        at_top: bool = False,
        bytes_max: int = TRACE_BYTES_MAX,
    ) -> None:
        self._name = name
        self.full = full
        self._bytes_max = bytes_max
        self._events = bytearray()
        self._dropped = 0
        self.number = first
        self._began_at, self._began = time.time(), time.monotonic()
        self._tick = 0
        self._base: _Mark | None = None if late else _Mark("", 0, first, 0, {}, {})
        self._marks: dict[SnapshotId, _Mark] = {}
        self._over: deque[tuple[SnapshotId, bool]] = deque()
        self._indexes: dict[str, int] = {}
        self._sends: list[int] = []
        self._sent_by_thread: list[str] = []
        self._handled: tuple[str, bytes | memoryview] | None = None
        self._method = ""
        self._at_top, self._in_pass, self._loop_ended = at_top, False, False
        self._run_of, self._run = ("", ""), 0

    def restored(self, snapshot: SnapshotId, sent: Mapping[str, int], received: Mapping[str, int]) -> None:
        """The actor was loaded from a snapshot, and has done nothing since."""
        self._base = _Mark(str(snapshot), 0, 1, self._tick, dict(sent), dict(received))

    def watch(self, sender: str, messages: msgpack.Unpacker, body: bytes | memoryview) -> Iterator[list[Any]]:
        """Yield the messages. Each counts as handled as soon as anything else happens after it."""
        start = 0
        self.settle()  # these messages may be answers to messages that were sent before
        for message in messages:
            end = messages.tell()
            self._handled, self._method = (sender, body[start:end]), ""
            yield message
            self.settle()
            start = end

    def calls(self, method: str) -> None:
        """The message that is handled now calls this method."""
        self._method = method

    def keep_values(self, codec: Codec, message: list[Any], slots: Sequence[Slot]) -> None:
        """The message that is handled now has slots: the trace keeps copies of their values, but not of references."""
        if self.full and self._handled is not None:
            try:
                self._handled = self._handled[0], codec.filled(message, slots)
            except Exception as error:  # noqa: BLE001 - unpickling runs code of the values' classes: the handler gets it
                log.debug("%s: the values of a message are not in the trace: %r", self._name, error)

    def sent(self, receiver: str) -> None:
        """The running handler sent a message."""
        self._sends.append(self._index(receiver))

    def sent_by_thread(self, receiver: str) -> None:
        """Another thread of the actor sent a message. Call from any thread, in one step with the message's number.

        The trace has it after the running handler, but before any message that may answer it.
        """
        self._sent_by_thread.append(receiver)

    def suspended(self) -> None:
        """The running handler waits for answers. What it sent until now has left."""
        self._settle_threads()
        if self._handled is not None:
            self._add((SUSPENDED, self._index(self._handled[0]), self._sends))
        else:
            if not self._in_pass:  # its method was begun anew, and has not come to the top of its loop
                self._begin_pass("", 0)
            self._add((PASS_WAITED, self._sends))
        self._sends.clear()

    def resumed(self, sender: str, number: int) -> None:
        """An answer came while a handler waits, or a method is at the top of a pass: this message, before its turn."""
        if self._sends and (self._in_pass or self._handled is not None):  # of another task, before this answer
            self.suspended()
        self._settle_beside()
        self._add((RESUMED, self._index(sender), number))

    def come_to_top(self) -> None:
        """A method is at the top of a pass of its loop, for the first time or as a pass is over.

        The first time the message that began it counts as handled.
        """
        if self._handled is not None:
            self.settle()
        self._settle_threads()
        if self._in_pass or self._sends or not self._at_top:
            self._add((AT_TOP, self._sends))
            self._sends.clear()
        self._at_top, self._in_pass = True, False

    def pass_began(self, sender: str, number: int) -> None:
        """A pass of a loop begins with this answer, before its turn; ("", 0): with none."""
        assert self._at_top, "a pass begins at a top"
        self.settle()
        self._begin_pass(sender, number)

    def _begin_pass(self, sender: str, number: int) -> None:
        assert not self._in_pass, "one pass is over before the next one begins"
        self._add((PASS_BEGAN, self._index(sender), number))
        self._in_pass = True

    def passed_over(self, sender: str, count: int) -> None:
        """At the top of a pass, the turn came of the next `count` messages of the sender: answers that it has had."""
        assert self._at_top, "a handler's answers come in their turn"
        assert not self._in_pass, "the answer of a pass counts as handled behind it"
        self.settle()
        self._add_to_run(sender, "", count)

    def loop_over(self) -> None:
        """A method with a loop has ended. What it has sent since the last event is its own."""
        self._loop_ended = True

    def fired(self, message: bytes) -> None:
        """A timer fired, and its message to the actor itself was sent."""
        del self._sends[-1:]
        self.settle()
        self._add((FIRED, message if self.full else None))

    def recorded(self, snapshot: SnapshotId, sent: Mapping[str, int], received: Mapping[str, int]) -> None:
        """The actor recorded a snapshot with these counters."""
        self.settle()
        while self._over:
            over, committed = self._over.popleft()
            self._forget(over, committed=committed)
        self._add((RECORDED, str(snapshot)))
        mark = _Mark(str(snapshot), self._end, self.number, self._tick, dict(sent), dict(received))
        if self._base is None:
            self._start_at(mark)
        self._marks[snapshot] = mark
        if self._at_top:  # a segment that starts here says so
            self._add((AT_TOP, []))

    def ended(self) -> None:
        """The actor ended."""
        self.settle()
        self._add((ENDED,))

    def over(self, snapshot: SnapshotId, *, committed: bool) -> None:
        """A snapshot ended. If it was committed, earlier events are not needed any more. Call from any thread."""
        self._over.append((snapshot, committed))

    def segment(self) -> bytes:
        """All events since the base, as bytes."""
        self.settle()
        self._end_run()
        base = self._base or _Mark("", 0, self.number, self._tick, {}, {})
        fields = (
            SEGMENT_VERSION,
            self.full,
            None if self._base is None else base.snapshot,
            base.number,
            base.sent,
            base.received,
            list(self._indexes),
            bytes(self._events),
            [self._began_at, base.tick],
        )
        packed: bytes = _pack(fields)
        return packed

    @property
    def _end(self) -> int:
        return self._dropped + len(self._events)

    def _index(self, name: str) -> int:
        return self._indexes.setdefault(name, len(self._indexes))

    def settle(self) -> None:
        """Write down the handler that has ended, if any, and the messages that were sent beside it."""
        if self._handled is not None:
            self._settle_handled(*self._handled)
            self._handled = None
        elif self._loop_ended:
            self._add((LOOP_OVER, self._sends))
            self._sends.clear()
            self._at_top = self._in_pass = self._loop_ended = False
        self._settle_beside()

    def _settle_beside(self) -> None:
        """Write down the messages that no handler has sent."""
        if self._sends and self._handled is None and not self._in_pass:
            self._add((SENT, self._sends))
            self._sends.clear()
        self._settle_threads()

    def _settle_threads(self) -> None:
        if count := len(self._sent_by_thread):
            self._add((SENT, [self._index(receiver) for receiver in self._sent_by_thread[:count]]))
            del self._sent_by_thread[:count]

    def _settle_handled(self, sender: str, message: bytes | memoryview) -> None:
        if self.full:
            self._add((HANDLED_IN_FULL, self._index(sender), self._sends, bytes(message), self._index(self._method)))
            self._sends.clear()
        elif self._sends:
            self._add((HANDLED, self._index(sender), self._sends, self._index(self._method)))
            self._sends.clear()
        else:
            self._add_to_run(sender, self._method, 1)

    def _add_to_run(self, sender: str, method: str, count: int) -> None:
        if (sender, method) != self._run_of:
            self._end_run()
            self._run_of = sender, method
        self._run += count

    def _end_run(self) -> None:
        """Write down how many messages of one sender and method were handled in a row without a send."""
        if self._run:
            (sender, method), count, self._run = self._run_of, self._run, 0
            self._write((HANDLED_RUN, self._index(sender), count, self._index(method)), count)
        self._run_of = "", ""

    def _add(self, event: tuple[object, ...]) -> None:
        self._end_run()
        self._write(event, 1)

    def _write(self, event: tuple[object, ...], count: int) -> None:
        self.number += count
        if self._base is None:
            return
        before, self._tick = self._tick, int((time.monotonic() - self._began) * TICKS_IN_A_SECOND)
        self._events += _pack((*event, self._tick - before))
        if len(self._events) > self._bytes_max:
            self._base = None
            self._marks.clear()
            self._drop_to(self._end)

    def _forget(self, snapshot: SnapshotId, *, committed: bool) -> None:
        mark = self._marks.pop(snapshot, None)
        if committed and mark is not None and self._base is not None and mark.offset >= self._base.offset:
            self._start_at(mark)
            self._marks = {k: other for k, other in self._marks.items() if other.offset > mark.offset}

    def _start_at(self, mark: _Mark) -> None:
        self._base = mark
        self._drop_to(mark.offset)

    def _drop_to(self, offset: int) -> None:
        del self._events[: offset - self._dropped]
        self._dropped = offset


class Tracing:
    """Whether an actor is traced: its `tracer`, or None. It changes only between two batches, under the lock."""

    def __init__(self, name: str, cell: Cell, trace: Trace) -> None:
        self.tracer: Tracer | None = None
        self._name = name
        self._cell = cell
        self._ended_at = -1
        if trace:
            self.begin(full=trace == "full")

    def begin(self, *, full: bool) -> None:
        """Begin to trace an actor that has done nothing yet."""
        self.tracer = Tracer(self._name, full=full)
        self._cell.tell_methods(self.tracer.calls)

    def hear_sends(self) -> Callable[[str], None] | None:
        """A function to call with the receiver of each message that the actor sends, on the sending thread.

        None if the actor is not traced.
        """
        tracer, cell = self.tracer, self._cell
        if tracer is None:
            return None

        def sent(receiver: str) -> None:
            (tracer.sent if runs_here(cell) else tracer.sent_by_thread)(receiver)

        return sent

    def is_so(self, full: bool | None) -> bool:  # noqa: FBT001 - as Ray calls it
        """Whether the actor is traced with this value of `full`; for None, whether it is not traced."""
        return (self.tracer and self.tracer.full) is full

    def switch(self, full: bool | None, channels: Mapping[str, Outbox]) -> None:  # noqa: FBT001 - see above
        """Trace the actor from now on, or with None stop it. Call on the worker's thread."""
        if self.tracer is not None:
            self._ended_at = self.tracer.number
        # A number is never used twice in a life. A gap says that the events in between were not traced.
        first = self._ended_at + 2
        tracer = self.tracer = None
        if full is not None:
            at_top = self._cell.now.loop is not None
            tracer = self.tracer = Tracer(self._name, full=full, first=first, late=True, at_top=at_top)
        self._cell.tell_methods(None if tracer is None else tracer.calls)
        for channel in channels.values():
            channel.trace_sends(self.hear_sends())
