"""Names of anonymous actors: their class, and a mark.

An actor that a handler makes gets a mark that follows from the message that is handled. So when a system goes back to a
snapshot and the message is handled again, the actor gets the same name again, and handles of it go on.
The system's name is not used, so a snapshot that is restored as another system makes the same names there.

Elsewhere, in a driver or in a thread of the user, nothing says what is done again. There the mark is random.
"""

import hashlib
import uuid

from rayshot.protocol.identity import NAME_LENGTH_MAX, check_actor_name

MARK_LENGTH = 16
"""Hexadecimal digits. With 8 of them, two of 65,000 names would be equal in 4 of 10 systems."""


def random_name(class_name: str) -> str:
    """A random name for an anonymous actor of a class. Raises ConfigError if no actor can have such a name."""
    return _with_mark(class_name, uuid.uuid4().hex[:MARK_LENGTH])


def child_name(class_name: str, creator: str, sender: str, number: int, place: int) -> str:
    """The name of an anonymous actor that the actor `creator` makes while it handles a message.

    It is message `number` of `sender`, and the same handler took `place` names before. Raises ConfigError as
    `random_name`.
    """
    made_by = "\0".join((creator, sender, str(number), str(place)))  # no name contains this character
    return _with_mark(class_name, hashlib.blake2b(made_by.encode(), digest_size=MARK_LENGTH // 2).hexdigest())


def _with_mark(class_name: str, mark: str) -> str:
    stem = class_name.rpartition("<locals>.")[2].lower().replace(".", "-")
    return check_actor_name(f"{stem[: NAME_LENGTH_MAX - MARK_LENGTH - 1]}-{mark}")


class ChildNames:
    """The names for anonymous actors that the handlers of the actor `creator` make."""

    def __init__(self, creator: str) -> None:
        self._creator = creator
        self._message = ("", 0)
        self.taken = 0
        """How many names the message has that took the last one."""

    def go_on(self, sender: str, number: int, taken: int) -> None:
        """The handler of this message goes on, and has taken so many names."""
        self._message, self.taken = (sender, number), taken

    def take(self, class_name: str, sender: str, number: int) -> str:
        """The next name, while message `number` of `sender` is handled. Raises ConfigError as `random_name`."""
        if self._message != (sender, number):
            self._message, self.taken = (sender, number), 0
        place, self.taken = self.taken, self.taken + 1
        return child_name(class_name, self._creator, sender, number, place)
