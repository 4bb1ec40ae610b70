"""What a sink needs of the place into which it writes: three steps, each of which happens as a whole or not at all.

The fence lies at the resource. Processes of an earlier life may still write, two threads of one process may write for
two lives, and an answer may be lost behind a step that happened. So a backend decides by what the resource keeps, in
the same step in which it writes, and never by what it remembers.
"""

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from rayshot.errors import SinkBehind, SinkFenced, SinkRefused, SinkTaken
from rayshot.model.outside import FencingToken

if TYPE_CHECKING:
    import pyarrow as pa

Rows: TypeAlias = "list[dict[str, Any]] | pa.Table"
"""The rows of a batch: dicts with the same keys, or an Arrow table. At least one row."""


UNFIT = (TypeError, ValueError, OverflowError)
"""What libraries raise for a value that they cannot write."""


@dataclass(frozen=True, slots=True)
class Held:
    """How far a resource is: the number of the last visible batch, 0 for none, and the line to which it belongs.

    Two lives that go back to one snapshot both number what follows from the same number on. So a batch has a name: its
    number and its line, which is the life that sealed it, or the restore that counts it a second time.
    """

    sequence: int = 0
    line: str = ""

    def __str__(self) -> str:
        return f"batch {self.sequence}" + (f" of line {self.line}" if self.line else "")

    @property
    def document(self) -> dict[str, Any]:
        """The same as JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Claim:
    """What a resource keeps of a sink: the token of whose it is, and how far it is."""

    run: str
    life: int
    owner: str
    sequence: int = 0
    line: str = ""

    @property
    def token(self) -> FencingToken:
        """Whose it is."""
        return FencingToken(self.run, self.life, self.owner)

    @property
    def held(self) -> Held:
        """How far it is."""
        return Held(self.sequence, self.line)

    @property
    def document(self) -> dict[str, Any]:
        """The same as JSON."""
        return asdict(self)

    def taken(self, sink: str, token: FencingToken, *, takeover: bool) -> "Claim":
        """The claim when this life has taken the sink. Raises as `Backend.take`."""
        if not (takeover or token.may_take(self.token)):
            self.admit(sink, token)
        return replace(self, **token._asdict())

    def moved(self, held: Held) -> "Claim":
        """The claim when the sink is so far."""
        return replace(self, sequence=held.sequence, line=held.line)

    def admit(self, sink: str, token: FencingToken) -> None:
        """Raise an OutsideConflict unless this very life has taken the sink."""
        if self.token == token:
            return
        facts = {"sink": sink, "there": self.token._asdict(), "here": token._asdict()}
        if self.run == token.run and self.life > token.life:
            raise SinkFenced(f"life {self.life} has {sink}, so life {token.life} may not write there", **facts)
        if self.run == token.run and self.life < token.life:
            text = f"{sink} is there as life {self.life} had it, and life {token.life} took it: it came from a backup"
            raise SinkBehind(text, **facts)
        other = f"a copy of this storage, in life {self.life}" if self.run == token.run else f"another run, {self.run}"
        raise SinkTaken(f"{sink} belongs to {other}: end that system, then restore with takeover=True", **facts)

    def awaits(self, sink: str, token: FencingToken, sequence: int) -> bool:
        """Whether batch `sequence` is the next one; False if it is visible already. Raises as `Backend.publish`."""
        self.admit(sink, token)
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

    What belongs to the process, such as a pool of connections, survives a life. Errors of the network and of a resource
    that is away are raised as they are: the step is tried again, and so must be right if it had happened.
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

    def look(self) -> Held:
        """How far the resource is, whoever has it; (0, "") if it does not know the sink. Changes nothing."""
        ...

    def take(self, token: FencingToken, *, takeover: bool = False) -> Held:
        """Make the sink this life's, so that nobody else writes any more; return how far it is.

        May be called again in the same life.

        Args:
            token: the life that takes it.
            takeover: take it from whoever has it.

        Raises:
            SinkTaken: another run has it, or a copy of this one, and `takeover` is False.
            SinkFenced: a later life of this run has it, and `takeover` is False.
        """
        ...

    def publish(self, token: FencingToken, sequence: int, line: str, rows: Rows) -> None:
        """Make a batch visible and move to its number and line, in one step; nothing if it is visible already.

        Args:
            token: the life, which has taken the sink.
            sequence: the number of the batch, one above the number that is there.
            line: the line of the batch.
            rows: see `Rows`.

        Raises:
            SinkTaken: another run has the sink, or a copy of this one.
            SinkFenced: a later life of this run has it.
            SinkBehind: earlier batches are not there.
            SinkRefused: the resource will never take these rows. Evidence: `sink`, `sequence`, `row` (an index, from
                0, or None if it is not known).
        """
        ...

    def reset(self, token: FencingToken, sequence: int, line: str) -> None:
        """Count from `sequence` on again, in this line; what is visible stays. Nothing if it is in this line already.

        Raises as `publish`.
        """
        ...


def refusal(sink: str, sequence: int, row: int | None, why: str) -> SinkRefused:
    """The error for a batch that will never be taken, because of this row, or of no single one."""
    which = "the rows" if row is None else f"row {row}"
    text = f"{sink}: {which} of batch {sequence} will never be taken: {why.strip()}"
    return SinkRefused(text, sink=sink, sequence=sequence, row=row)
