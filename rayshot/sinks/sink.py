"""A sink that is exactly once: its rows are state until a durable snapshot has them, and the resource too.

A snapshot seals the open rows as the next batch. When it is durable and advances, all sealed batches up to its number
are published, in order. A batch leaves the state only when it is known to be visible: the snapshot that sealed it may
have been aborted, so that the next one must hold it too. Whoever goes back to a snapshot takes the resource first,
which keeps earlier lives out, and compares the numbers.

`again`: the resource may be ahead of the snapshot, and what comes behind it becomes visible a second time. The numbers
there then move back, when all actors are loaded, and count in a branch of their own. Until this has happened there is
no snapshot of the new life: it would not fit the resource.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from rayshot.errors import NotReady, SinkAhead, SinkBehind
from rayshot.sinks.backend import Backend, Held
from rayshot.sinks.publisher import Publisher

if TYPE_CHECKING:
    import pyarrow as pa

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
        branch: the branch in which the numbers count: see `Held`.
    """

    rows_waiting_max: ClassVar[int] = 1_000_000
    _publisher: Publisher | None = None

    def __init__(self) -> None:
        self.open: list[Any] = []
        self.sealed: dict[int, Rows] = {}
        self.sequence = 0
        self.branch = 0

    def __getstate__(self) -> dict[str, Any]:
        """The state: all but the connection. A class with a `__getstate__` of its own begins with this one."""
        return {name: value for name, value in vars(self).items() if name != "_publisher"}

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
        if kind is None:
            raise TypeError(f"a sink takes a list of dicts or an Arrow table, not {type(rows).__name__}")
        if self.open and kind != (before := getattr(self.open[0], "schema", "dicts")):
            raise TypeError(f"rows of one snapshot are of one kind: {before} came before, and now {kind}")
        if isinstance(rows, list):
            self.open += rows
        elif len(rows):
            self.open.append(rows)

    def on_snapshot(self, cut: Any) -> dict[str, int] | Callable[[], dict[str, int]]:
        """Seal what is open. The payload has `sequence`, `branch`, and how many `batches` and `rows` are sealed.

        A new actor takes the resource beside the handlers, for its first snapshot. Raises NotReady as long as the
        resource has not been moved back, SinkAhead if the actor is new and the resource is not.
        """
        publisher = self._publisher = self._publisher or self._connected(cut)
        if publisher.reset_to is not None:
            raise NotReady(f"{cut.system}/{cut.actor} has not been moved back to batch {publisher.reset_to} yet")
        if publisher.held is not None:
            self.branch = publisher.held.branch
        for sequence in [one for one in self.sealed if one <= publisher.published]:
            del self.sealed[sequence]
        if self.open:
            self.sequence += 1
            self.sealed[self.sequence], self.open = _together(self.open), []
        rows = sum(map(len, self.sealed.values()))
        payload = {"sequence": self.sequence, "branch": self.branch, "batches": len(self.sealed), "rows": rows}
        return payload if publisher.held is not None else partial(publisher.take_anew, payload)

    def on_commit(self, cut: Any) -> Callable[[], None] | None:
        """Publish all sealed batches up to the snapshot's, beside the handlers."""
        assert self._publisher is not None, "a commit follows a snapshot or a restore of this life"
        return self._publisher.due({one: rows for one, rows in self.sealed.items() if one <= cut.payload["sequence"]})

    def on_restore(self, back: Any) -> None:
        """Take the resource for this life, and compare it with the snapshot.

        Raises:
            SinkTaken: another run has the resource, and `takeover` does not allow to take it.
            SinkFenced: a later life has it.
            SinkAhead: it has more than the snapshot, or counts in another branch, and `again` does not allow this.
            SinkBehind: it lacks rows that the snapshot has not either: it was restored from a backup, or emptied.
        """
        publisher = self._publisher = self._connected(back)
        there, here = publisher.take(takeover=back.takeover), Held(self.sequence, self.branch)
        visible = self.sequence - len(self.sealed)  # the snapshot knew of so many batches that they are there
        if there.branch == here.branch and visible <= there.sequence <= here.sequence:
            return
        facts = {"actor": back.actor, "snapshot": back.snapshot, "there": there.document, "here": here.document}
        what = f"{back.system}/{back.actor} has {there}, and snapshot {back.snapshot} says {here}"
        if there.branch == here.branch and there.sequence < visible:
            raise SinkBehind(f"{what}, with rows from batch {visible + 1} on: batches between are nowhere", **facts)
        if there.branch < here.branch and not back.takeover:  # a run's lives only grow, and its branches with them
            raise SinkBehind(f"{what}: it was restored from a backup", **facts)
        if not back.again:
            raise SinkAhead(
                f"{what}: restore a snapshot that has as much, or pass outside='again', and what comes behind the "
                "snapshot becomes visible a second time",
                **facts,
            )
        publisher.move_back(here.sequence if there.branch == here.branch else visible)

    def has_room(self) -> bool:
        """Whether fewer than `rows_waiting_max` rows are durable and not visible yet."""
        return self._publisher is None or self._publisher.rows_waiting < self.rows_waiting_max

    def _connected(self, cut: Any) -> Publisher:
        backend = self.connect()
        backend.system, backend.sink = cut.system, cut.actor
        return Publisher(backend, cut.run, cut.life)


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
