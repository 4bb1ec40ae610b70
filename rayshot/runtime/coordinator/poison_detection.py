"""What watched actors say of the messages that they handle, in one life of a system; see `protocol.poison`."""

import time
from typing import TYPE_CHECKING

from rayshot.protocol.poison import Caution, MessageId

if TYPE_CHECKING:
    from collections.abc import Mapping

WATCHED_S = 60.0
"""Actors are watched for so many seconds of a life at most, if no two snapshots come before."""
COMMITS = 2
"""Behind the second snapshot of a life they are not watched any more: the first may lack what they did in it."""


class PoisonDetection:
    """The messages that watched actors handle now, by actor. Any thread may call.

    `cautions` says how actors are to handle their messages in this life. It is empty in a life that others before it
    give no reason to doubt.
    """

    def __init__(self) -> None:
        self.cautions: Mapping[str, Caution] = {}
        self._handled: dict[str, MessageId] = {}
        self._commits = 0
        self._until = 0.0

    def resumed(self) -> None:
        """The life runs."""
        self._until = time.monotonic() + WATCHED_S

    def committed(self) -> None:
        """A snapshot of this life was committed."""
        self._commits += 1

    def begins(self, actor: str, message: MessageId) -> bool:
        """An actor is about to handle this message. Returns False if it need not be watched any more."""
        caution = self.cautions.get(actor)
        watched = caution is not None and caution.says
        if not watched or self._commits >= COMMITS or time.monotonic() >= self._until:
            self.ends(actor)
            return False
        self._handled[actor] = message
        return True

    def ends(self, actor: str) -> None:
        """An actor has handled its message."""
        self._handled.pop(actor, None)

    def handled_by(self, actor: str) -> MessageId | None:
        """The message that an actor had said to handle, and not to have handled."""
        return self._handled.get(actor)
