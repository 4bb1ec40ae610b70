"""A sink that is exactly once: its rows are state until a durable snapshot has them, and the resource too.

A snapshot seals the open rows as the next batch. When it is durable and advances, all sealed batches up to its number
are published, in order. A batch leaves the state only when it is known to be visible: the snapshot that sealed it may
have been aborted, so that the next one must hold it too. Whoever goes back to a snapshot compares the name of the last
visible batch, its number and its line, with what the state knows, and takes the resource, which keeps all others out.

`again`: the resource may be ahead of the snapshot, and what comes behind it becomes visible a second time. The resource
then moves back, when all actors are loaded, to a line that is named after the restore. A later life of the same restore
finds that name there, and goes on where the first one was.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from rayshot.errors import SinkAhead, SinkBehind
from rayshot.inert.inert_object import short_repr
from rayshot.sinks.backend import Backend, Held
from rayshot.sinks.publisher import Publisher

if TYPE_CHECKING:
    import pyarrow as pa

    from rayshot.model.outside import ActorCut
    from rayshot.sinks.backend import Rows


class Sink:
    """Inherit from it, define `connect`, decorate your class, and call `write`; call `super().__init__()` in yours.

    The rows become visible when a snapshot that has them is durable, each once, whatever dies. Between two sinks
    nothing is atomic.

    Attributes:
        rows_waiting_max: no message is taken while so many rows, or more, are durable and not visible yet.
        open: the rows since the last snapshot: dicts, or Arrow tables.
        sealed: the rows that may not be visible yet, by the number of their batch; without gaps, up to `sequence`.
        sequence: the number of the last batch that a snapshot has sealed; 0 for none.
        lines: the line of each sealed batch, and of the last one before them: see `Held`.
    """

    rows_waiting_max: ClassVar[int] = 1_000_000
    _publisher: Publisher | None = None

    def __init__(self) -> None:
        self.open: list[Any] = []
        self.sealed: dict[int, Rows] = {}
        self.sequence = 0
        self.lines = {0: ""}

    def __getstate__(self) -> dict[str, Any]:
        """The state: all but the connection. A class with a `__getstate__` of its own begins with this one."""
        return {name: value for name, value in vars(self).items() if name != "_publisher"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take a state; that of a class which was no sink yet begins as a new one."""
        Sink.__init__(self)
        vars(self).update(state)

    def connect(self) -> Backend:
        """Return the place for the rows; called once in each life. To be defined by your class.

        Read passwords from the environment here: what is in `self` is in each snapshot.
        """
        raise NotImplementedError(f"{type(self).__qualname__} is a sink: define connect(self), which returns a backend")

    def write(self, rows: "Rows | pa.RecordBatch") -> None:
        """Add rows: a list of dicts, which is cheap, or an Arrow table or record batch, which is far cheaper.

        The dicts belong to the sink from now on. Between two snapshots all rows must be of one kind, all dicts have the
        same keys, and all tables the same schema.

        Raises:
            TypeError: they are neither, or of another kind or schema than the rows before; nothing was added.
        """
        kind = "dicts" if isinstance(rows, list) else getattr(rows, "schema", None)
        if kind is None or type(rows).__module__.partition(".")[0] not in ("builtins", "pyarrow"):
            raise TypeError(f"a sink takes a list of dicts or an Arrow table, not {type(rows).__name__}")
        if self.open and kind != (before := getattr(self.open[0], "schema", "dicts")):
            raise TypeError(f"rows of one snapshot are of one kind: {before} came before, and now {kind}")
        if isinstance(rows, list):
            self._check_keys(rows)
            self.open += rows
        elif len(rows):
            self.open.append(rows)

    def _check_keys(self, rows: list[Any]) -> None:
        """A batch that no place takes must not become durable."""
        first = next(iter(self.open or rows), None)
        keys = first.keys() if isinstance(first, dict) else None
        for row in rows:
            if not (isinstance(row, dict) and row and row.keys() == keys):
                wanted = f"a dict with the keys {', '.join(map(str, keys))}" if keys else "a dict that is not empty"
                raise TypeError(f"each row of a snapshot is {wanted}: this is {short_repr(row)}")

    def on_snapshot(self, cut: "ActorCut") -> dict[str, Any] | Callable[[], dict[str, Any]]:
        """Seal what is open. The payload has `sequence`, `line`, and how many `batches` and `rows` are sealed.

        Beside the handlers, a new actor takes the resource for its first snapshot, and a resource that is still to be
        moved back is. Raises SinkAhead there if the actor is new, and batches are visible.
        """
        is_new, mine = self._publisher is None, ":".join(map(str, cut.token))
        publisher = self._publisher = self._publisher or self._connected(cut)
        if is_new:
            self.lines = {0: mine}
        for sequence in [one for one in self.sealed if one <= publisher.published]:
            del self.sealed[sequence]
        if self.open:
            rows_now = _together(self.open)  # it may fail, and then nothing is sealed
            self.sequence += 1
            self.sealed[self.sequence], self.open = rows_now, []
            self.lines[self.sequence] = mine
        self.lines = {one: line for one, line in self.lines.items() if one >= self._visible}
        rows = sum(map(len, self.sealed.values()))
        here = Held(self.sequence, self.lines[self.sequence])
        payload = {**here.document, "batches": len(self.sealed), "rows": rows}
        if publisher.is_taken and publisher.reset_to is None:
            return payload
        return partial(publisher.prepare, payload, Held(0, mine), again=bool(cut.again))

    def on_commit(self, cut: "ActorCut") -> Callable[[], None] | None:
        """Publish all sealed batches up to the snapshot's, beside the handlers."""
        assert self._publisher is not None, "a commit follows a snapshot or a restore of this life"
        upto = self.sequence if cut.payload is None else cut.payload["sequence"]  # None: its class was no sink yet
        return self._publisher.due({one: (self.lines[one], rows) for one, rows in self.sealed.items() if one <= upto})

    def on_restore(self, back: "ActorCut") -> None:
        """Compare the resource with the snapshot, and take it for this life. If it raises, nothing was changed there.

        Raises:
            SinkTaken: another run has the resource, or a copy of this one, and `takeover` does not allow to take it.
            SinkFenced: a later life has it, and `takeover` does not allow to take it.
            SinkAhead: it has a batch that the snapshot does not know, and `again` does not allow this.
            SinkBehind: it lacks batches that the snapshot has not either.
        """
        publisher = self._publisher = self._connected(back)
        self._compare(publisher.look(), back)
        there = publisher.take(takeover=back.takeover)
        if not self._compare(there, back):
            later = (
                there.sequence > self.sequence and there.line == self.lines[self.sequence]
            )  # and a life goes in order
            self.lines = dict.fromkeys(self.lines, back.again)
            publisher.move_back(Held(self.sequence if later else self._visible, back.again))

    @property
    def _visible(self) -> int:
        """The last batch that the state knows to be visible."""
        return self.sequence - len(self.sealed)

    def _compare(self, there: Held, back: "ActorCut") -> bool:
        """Whether the resource fits the state; False if it does not, and is to be moved back. Raises as on_restore."""
        if back.again and there.line == back.again:  # an earlier life of this restore has moved it back
            self.lines = dict.fromkeys(self.lines, back.again)
        if self.lines.get(there.sequence) == there.line or (there == Held() and self._visible == 0):
            return True
        here = Held(self.sequence, self.lines[self.sequence])
        facts = {"actor": back.actor, "snapshot": back.snapshot, "there": there.document, "here": here.document}
        what = f"{back.system}/{back.actor} has {there}, and snapshot {back.snapshot} says {here}"
        if there.sequence < self._visible:
            raise SinkBehind(
                f"{what}, of which {self._visible} were visible: it came from a backup, was emptied, or was moved back",
                **facts,
            )
        if not back.again:
            raise SinkAhead(
                f"{what}: restore a snapshot that knows this batch, or pass outside='again', and what comes behind the "
                "snapshot becomes visible a second time",
                **facts,
            )
        return False

    def has_room(self) -> bool:
        """Whether fewer than `rows_waiting_max` rows are durable and not visible yet."""
        return self._publisher is None or self._publisher.rows_waiting < self.rows_waiting_max

    def _connected(self, cut: "ActorCut") -> Publisher:
        backend = self.connect()
        backend.system, backend.sink = cut.system, cut.actor
        return Publisher(backend, cut.token)


def _together(pieces: list[Any]) -> "Rows":
    """The rows of one batch, and nothing else: a slice of a table would be stored with the whole table."""
    if isinstance(pieces[0], dict):
        return pieces
    import pyarrow as pa  # noqa: PLC0415 - whoever wrote a table has it

    table = pa.concat_tables(
        [pa.Table.from_batches([one]) if isinstance(one, pa.RecordBatch) else one for one in pieces]
    ).combine_chunks()
    if table.get_total_buffer_size() <= 2 * table.nbytes:
        return cast("Rows", table)
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return cast("Rows", pa.ipc.open_stream(stream.getvalue()).read_all())
