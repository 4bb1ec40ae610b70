"""Finds the message that ends its actor's process in life after life: the poison.

In a healthy life nobody says which message is handled, as this would cost each message something. After some rollbacks
in a row that led nowhere the next lives are careful: every actor that was lost in this row says, before it handles a
message, which one it is, and says when it has handled it. A message that was being handled at two deaths of its actor
in a row is the poison. A death from outside, between two messages or with another one, names nothing twice.

A message is named by its sender, its number on the channel and the digest of its bytes. The number alone is not enough:
in a new life an actor may send other messages under the numbers of those that are undone.

A poison becomes a dead letter if the policy says so: its actor passes over it in all further lives, until the snapshot
to which the system goes back holds it as handled. Only tells, calls and timers can be left out: without its creation an
actor does not exist, and without a reply another one would wait for ever.

It ends: rollbacks count as before, see `recovery`. A letter begins the count anew, and there are LETTERS_MAX of them in
a row. If there are to be letters, some rollbacks do not count: in a row one for each actor that was not careful yet
where others were, and between two letters one for each actor that names a message for the first time. Otherwise actors
that die by turns would stop the system before each of them has named its poison twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

LETTERS_MAX = 3
"""So many messages in a row become dead letters; at the next poison the system stops, as then the state is to blame."""


@dataclass(frozen=True, slots=True)
class HandledMessage:
    """A message that an actor handles. `number` is that on the channel from `sender`, `digest` that of its bytes.

    `method` is the name of the method that it calls, "" if it calls none. `removable`: the actor can do without it.
    """

    sender: str
    number: int
    digest: bytes
    method: str = field(default="", compare=False)
    removable: bool = field(default=True, compare=False)

    def __str__(self) -> str:
        called = f" (.{self.method})" if self.method else ""
        return f"message {self.number} from {self.sender}{called}"


@dataclass(frozen=True, slots=True)
class Caution:
    """How an actor handles its messages in a life. `says`: it says before each message which one it is.

    It passes over the messages `letters`.
    """

    says: bool
    letters: tuple[HandledMessage, ...] = ()


@dataclass(frozen=True, slots=True)
class Letter:
    """The message `message` becomes a dead letter of the actor `process`."""

    process: str
    message: HandledMessage


@dataclass(slots=True)
class Suspicion:
    """What is known of a row of rollbacks that led nowhere. `letters` outlive the row.

    `fruitless_max` is the policy's, and `dead_letters` says whether a poison becomes one.
    """

    fruitless_max: int
    dead_letters: bool
    letters: set[Letter] = field(default_factory=set)
    _lost: set[str] = field(default_factory=set)
    """The actors that were lost in this row."""
    _named: dict[str, HandledMessage] = field(default_factory=dict)
    """Actor -> the message that it handled when it was lost last, if it said so."""
    _have_named: set[str] = field(default_factory=set)
    """Those that have named a message since the last letter."""
    _pardoned: int = 0
    """How many rollbacks of this row do not count."""
    _letters_of_row: list[Letter] = field(default_factory=list)

    def take_over(self, process: str | None, fruitless: int) -> None:
        """A new coordinator knows from the log that so many rollbacks led nowhere, and for whom the last one was.

        It knows no names and no letters, so if there are to be letters it begins to count anew.
        """
        self._lost.update(() if process is None else (process,))
        self._pardoned = fruitless if self.dead_letters else 0

    def judge(self, process: str, handled: HandledMessage | None, fruitless: int) -> str | Letter | None:
        """Note that a process is lost behind so many rollbacks in a row that led nowhere.

        `handled` is the message that it had said to handle. Returns why the system must stop, or the letter without
        which it goes back once more, or None if it just goes back.
        """
        if fruitless == 0:
            self._begin_row()
        if process not in self._lost and self._is_careful(fruitless):
            self._pardon()
        self._lost.add(process)
        before = self._named.pop(process, None)
        if handled is not None:
            self._named[process] = handled
            if handled == before:
                return self._poisoned(Letter(process, handled), fruitless)
            if process not in self._have_named:
                self._have_named.add(process)
                self._pardon()
        if fruitless - self._pardoned < self.fruitless_max:
            return None
        last = f"; at last {process} handled {handled}" if handled is not None else ""
        return f"going back {fruitless} times led nowhere, so once more would not either{last}"

    def cautions(self, fruitless: int) -> Mapping[str, Caution]:
        """How the actors are to handle their messages in a life behind so many rollbacks that led nowhere.

        Actors that are not named handle them as always.
        """
        says = self._lost if self._is_careful(fruitless) else set()
        found = {}
        for process in sorted(says | {letter.process for letter in self.letters}):
            of_process = [letter.message for letter in self.letters if letter.process == process]
            of_process.sort(key=lambda message: (message.sender, message.number))
            found[process] = Caution(process in says, tuple(of_process))
        return found

    def _is_careful(self, fruitless: int) -> bool:
        return fruitless >= max(1, self.fruitless_max - 1)

    def _pardon(self) -> None:
        self._pardoned += self.dead_letters

    def _begin_row(self) -> None:
        self._lost.clear()
        self._pardoned = 0
        self._letters_of_row.clear()
        self._forget_names()

    def _forget_names(self) -> None:
        self._named.clear()
        self._have_named.clear()

    def _poisoned(self, letter: Letter, fruitless: int) -> str | Letter:
        message = letter.message
        kills = f"{letter.process} was lost twice in a row while it handled {message}"
        if not self.dead_letters:
            return f"{kills}: going back {fruitless} times led nowhere, so once more would not either"
        if not message.removable:
            return f"{kills}, which cannot become a dead letter: no tell, no call and no timer"
        if len(self._letters_of_row) >= LETTERS_MAX:
            these = ", ".join(f"{one.message} to {one.process}" for one in self._letters_of_row)
            return f"{kills}, and these in a row became dead letters before: {these}"
        self._letters_of_row.append(letter)
        self.letters.add(letter)
        self._forget_names()
        self._pardoned = fruitless + 1  # the rollback that follows counts in the log too
        return letter
