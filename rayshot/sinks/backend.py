"""What a sink needs of the place into which it writes: three steps, each of which happens as a whole or not at all.

The fence lies at the resource. Processes of an earlier life may still write, two threads of one process may write for
two lives, and an answer may be lost behind a step that happened. So a backend decides by what the resource keeps, in
the same step in which it writes, and never by what it remembers.
"""

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from rayshot.errors import SinkBehind, SinkFenced, SinkRefused, SinkTaken

if TYPE_CHECKING:
    import pyarrow as pa

Rows: TypeAlias = "list[dict[str, Any]] | pa.Table"
"""The rows of a batch: dicts with the same keys, or an Arrow table. At least one row."""


UNFIT = (TypeError, ValueError, OverflowError)
"""What libraries raise for a value that they cannot write."""


@dataclass(frozen=True, slots=True)
class Held:
    """How far a resource is: the number of the last visible batch, 0 for none, and the branch in which it counts.

    A branch is 0, or the life in which the numbers were moved back. Numbers of two branches are not comparable.
    """

    sequence: int = 0
    branch: int = 0

    def __str__(self) -> str:
        return f"batch {self.sequence}" + (f" of branch {self.branch}" if self.branch else "")

    @property
    def document(self) -> dict[str, int]:
        """The same as JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Claim:
    """What a resource keeps of a sink: whose it is, and how far it is."""

    run: str
    life: int
    sequence: int = 0
    branch: int = 0

    @property
    def held(self) -> Held:
        """How far it is."""
        return Held(self.sequence, self.branch)

    @property
    def document(self) -> dict[str, Any]:
        """The same as JSON."""
        return asdict(self)

    def taken(self, sink: str, run: str, life: int, *, takeover: bool) -> "Claim":
        """The claim when this life has taken the sink. Raises as `Backend.take`."""
        if not (takeover and self.run != run):
            self.admit(sink, run, life)
        return replace(self, run=run, life=life)

    def admit(self, sink: str, run: str, life: int) -> None:
        """Raise SinkTaken if another run has the sink, SinkFenced if a later life has it."""
        if self.run != run:
            raise SinkTaken(
                f"{sink} belongs to another run, {self.run}: end that system, then pass takeover=True to the restore",
                sink=sink,
                there=self.run,
                run=run,
            )
        if self.life > life:
            raise SinkFenced(
                f"life {self.life} has {sink}, so life {life} may not write there",
                sink=sink,
                there=self.life,
                life=life,
            )

    def awaits(self, sink: str, run: str, life: int, sequence: int) -> bool:
        """Whether batch `sequence` is the next one; False if it is visible already. Raises as `Backend.publish`."""
        self.admit(sink, run, life)
        if self.sequence < sequence - 1:
            raise SinkBehind(
                f"{sink} has batches up to {self.sequence}, so batch {sequence} would leave a gap: it was restored "
                "from a backup, or emptied",
                sink=sink,
                there=self.sequence,
                sequence=sequence,
            )
        return self.sequence == sequence - 1


class Backend(Protocol):
    """A place for the rows of one sink. `Sink.connect` makes one for each life; one thread at a time uses it.

    A run is one storage's log, and its lives only grow. What belongs to the process, such as a pool of connections,
    survives a life. Errors of the network and of a resource that is away are raised as they are: the step is tried
    again, and so must be right if it had happened.
    """

    system: str = ""
    sink: str = ""
    """The names of the system and of the sink's actor, which `Sink` sets before the first step.

    Where a resource has room for several sinks, it keeps what it knows of this one under these names.
    """

    @property
    def name(self) -> str:
        """The sink in errors."""
        return f"{self.system}/{self.sink}"

    def take(self, run: str, life: int, *, takeover: bool = False) -> Held:
        """Make the sink this life's, so that no earlier life writes any more; return how far it is.

        A resource that does not know the sink is at (0, 0). May be called again in the same life.

        Args:
            run: the id of the run.
            life: the life, 1 or more.
            takeover: also take it from another run.

        Raises:
            SinkTaken: another run has it, and `takeover` is False.
            SinkFenced: a later life of this run has it.
        """
        ...

    def publish(self, run: str, life: int, sequence: int, rows: Rows) -> None:
        """Make batch `sequence` visible and move the sequence to it, in one step; nothing if it is visible already.

        Args:
            run: the id of the run.
            life: the life, which has taken the sink.
            sequence: the number of the batch, one above the number that is there.
            rows: see `Rows`.

        Raises:
            SinkTaken: another run has the sink.
            SinkFenced: a later life of this run has it.
            SinkBehind: earlier batches are not there.
            SinkRefused: the resource will never take these rows. Evidence: `sink`, `sequence`, `row` (an index, from
                0, or None if it is not known).
        """
        ...

    def reset(self, run: str, life: int, sequence: int) -> None:
        """Count from `sequence` again, in branch `life`; what is visible stays. Nothing if that branch is there.

        Raises as `publish`.
        """
        ...


def refusal(sink: str, sequence: int, row: int | None, why: str) -> SinkRefused:
    """The error for a batch that will never be taken, because of this row, or of no single one."""
    which = "the rows" if row is None else f"row {row}"
    text = f"{sink}: {which} of batch {sequence} will never be taken: {why.strip()}"
    return SinkRefused(text, sink=sink, sequence=sequence, row=row)
