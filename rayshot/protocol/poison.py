"""Finds the message that ends its actor's process in life after life: the poison.

In a healthy life nobody says which message is handled, as this would cost each message something. An actor that was
lost again and again is watched in the next lives: it says, before it handles a message, which one it is, and says when
it has handled it. A message that was being handled at two deaths of its actor in a row is the poison. A death from
outside, between two messages or with another one, names nothing twice.

A message is named by its sender, its number on the channel and the digest of its bytes. The number alone is not enough:
in a new life an actor may send other messages under the numbers of those that are undone.

What a method with `rayshot.loop` handles is never the message that began it, which is at work at each death. It is the
answer with which the present pass began, and at the top of a pass it is nothing. A handler that waits for others may
take long, so it often meets a death from outside: two such deaths are the same only if its last answer is the same.

A poison becomes a dead letter if the policy says so: its actor passes over it in all further lives, until the snapshot
to which the system goes back holds it as handled. Only tells, calls, timers and what a loop asked for can be left out,
as the loop asks for the next one. Without its creation an actor does not exist, and without any other answer it would
wait for ever.

Deaths add up for one process only, and only as long as they may have one cause:

==============================================  ================================================================
a process is lost                               what counts
==============================================  ================================================================
in a life with a second commit                  1 for it, and 0 for all others: see `recovery`
in a life with one commit                       1 more for it, 0 for all others. Watch and names stay, as two may die
                                                by turns of messages of their own
in a life without a commit                      1 more for it, and what was for all others
when it handled another message than last time  1 for it, OTHERS_MAX times in a row: what is told again with random
                                                bytes has its number again, so this is another message, or one of a
                                                sender that does otherwise each time
when it handled the poison, which is left out   0 for it; at most LETTERS_MAX times in a row for each process
==============================================  ================================================================

It ends: where `fruitless_max` deaths count for one process, its next one stops the system. Processes that have another
name in each life never come to that, so all losses together may be ALL_MAX times as many.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

LETTERS_MAX = 3
"""So many messages in a row become dead letters of one actor; at its next poison the system stops, as then its state is
to blame."""
OTHERS_MAX = 16
"""So many times in a row the count of an actor begins anew, because it died with another message than before."""
ALL_MAX = 32
"""All actors together may be lost so many times as often as one of them."""


@dataclass(frozen=True, slots=True)
class MessageId:
    """A message that an actor handles. `number` is that on the channel from `sender`, `digest` that of its bytes.

    `method` is the name of the method that it calls, "" if it calls none; if `is_answer`, that of the method which gave
    it. `removable`: the actor can do without it. `waits` is empty while its handler runs; while that waits, it is a
    digest of the last answer that it got.
    """

    sender: str
    number: int
    digest: bytes
    method: str = field(default="", compare=False)
    removable: bool = field(default=True, compare=False)
    is_answer: bool = field(default=False, compare=False)
    waits: bytes = b""

    def __str__(self) -> str:
        called = f" ({'answer of ' if self.is_answer else ''}.{self.method})" if self.method else ""
        return f"message {self.number} from {self.sender}{called}"


@dataclass(frozen=True, slots=True)
class Caution:
    """How an actor handles its messages in a life. `says`: it says before each message which one it is.

    It passes over the messages `letters`.
    """

    says: bool
    letters: tuple[MessageId, ...] = ()


@dataclass(frozen=True, slots=True)
class Poison:
    """The message `message` becomes a dead letter of the actor `process`."""

    process: str
    message: MessageId


@dataclass(slots=True)
class Suspicion:
    """What is known of a row of rollbacks that led nowhere. `letters` outlive the row.

    `fruitless_max` is the policy's, and `dead_letters` says whether a poison becomes one. `losses` are always those of
    the row, see `Past`.
    """

    fruitless_max: int
    dead_letters: bool
    letters: set[Poison] = field(default_factory=set)
    _handled: dict[str, MessageId | None] = field(default_factory=dict)
    """Actor that was watched when it was lost last -> the message that it handled then, None if it handled none."""
    _pardoned: dict[str, int] = field(default_factory=dict)
    """Actor -> how many of its rollbacks do not count."""
    _all_pardoned: int = 0
    """How many of all rollbacks do not count."""
    _others: Counter[str] = field(default_factory=Counter)
    """Actor -> how often its count began anew since its last letter."""
    _letters_of_row: list[Poison] = field(default_factory=list)

    def take_over(self, losses: Mapping[str, int]) -> None:
        """A new coordinator knows from the log who was lost how often.

        It knows no names and no letters, so if there are to be letters it begins to count anew.
        """
        if self.dead_letters:
            self._pardoned = dict(losses)

    def judge(
        self, process: str, handled: MessageId | None, losses: Mapping[str, int], fruitless: int
    ) -> str | Poison | None:
        """Note that a process is lost behind these losses, when so many rollbacks for it led nowhere.

        `handled` is the message that it had said to handle. Returns why the system must stop, or the letter without
        which it goes back once more, or None if it just goes back.
        """
        if not losses:
            self._begin_row()
        if self._is_watched(process, losses):
            known, before = process in self._handled, self._handled.get(process)
            if known and handled is not None and handled == before:
                return self._poisoned(Poison(process, replace(handled, waits=b"")), losses)
            self._handled[process] = handled
            if known and not _may_be_one(before, handled) and self._others[process] < OTHERS_MAX:
                self._others[process] += 1
                self._pardoned[process] = losses[process]
        return self._hopeless(process, handled, losses, fruitless)

    def cautions(self, losses: Mapping[str, int]) -> Mapping[str, Caution]:
        """How the actors are to handle their messages in a life behind these losses.

        Actors that are not named handle them as always.
        """
        says = {process for process in losses if self._is_watched(process, losses)}
        found = {}
        for process in sorted(says | {letter.process for letter in self.letters}):
            of_process = [letter.message for letter in self.letters if letter.process == process]
            of_process.sort(key=lambda message: (message.sender, message.number))
            found[process] = Caution(process in says, tuple(of_process))
        return found

    def _is_watched(self, process: str, losses: Mapping[str, int]) -> bool:
        return losses.get(process, 0) >= max(1, self.fruitless_max - 1)

    def _begin_row(self) -> None:
        self._handled.clear()
        self._pardoned.clear()
        self._all_pardoned = 0
        self._others.clear()
        self._letters_of_row.clear()

    def _hopeless(
        self, process: str, handled: MessageId | None, losses: Mapping[str, int], fruitless: int
    ) -> str | None:
        together = sum(losses.values()) - self._all_pardoned
        if together >= self.fruitless_max * ALL_MAX:
            return f"going back {together} times led nowhere, for {len(losses)} actors by turns"
        if min(fruitless, losses.get(process, 0) - self._pardoned.get(process, 0)) < self.fruitless_max:
            return None
        last = f"; at last {process} handled {handled}" if handled is not None else ""
        return f"going back {fruitless} times led nowhere, so once more would not either{last}"

    def _poisoned(self, letter: Poison, losses: Mapping[str, int]) -> str | Poison:
        process, message = letter.process, letter.message
        times = losses[process]
        kills = f"{process} was lost twice in a row while it handled {message}"
        if not self.dead_letters:
            return f"{kills}: going back {times} times led nowhere, so once more would not either"
        if not message.removable:
            return f"{kills}, which cannot become a dead letter: no tell, no call and no timer"
        before = [one.message for one in self._letters_of_row if one.process == process]
        if len(before) >= LETTERS_MAX:
            return f"{kills}, and these in a row became dead letters before: {', '.join(map(str, before))}"
        self._letters_of_row.append(letter)
        self.letters.add(letter)
        del self._handled[process]
        self._others[process] = 0
        self._pardoned[process] = times + 1  # the rollback that follows counts in the log too
        self._all_pardoned = sum(losses.values()) + 1
        return letter


def _may_be_one(one: MessageId | None, other: MessageId | None) -> bool:
    """Whether two deaths with these messages may have one cause: with other bytes each time, or behind a message."""
    if one is None or other is None:
        return one is other
    return (one.sender, one.number) == (other.sender, other.number)
