"""Questions of actors and programs to a coordinator about actors. They change nothing."""

import time
from itertools import chain
from typing import TYPE_CHECKING, Any

from rayshot.errors import SystemRecovering
from rayshot.model.dead_letters import DeadLetter
from rayshot.runtime.coordinator.clock import TICK_S
from rayshot.runtime.door import door
from rayshot.runtime.wire.host_identity import Ending, Stop
from rayshot.runtime.wire.states import RECOVERING

if TYPE_CHECKING:
    from rayshot.runtime.coordinator.life import Life
    from rayshot.runtime.wire.settings import SystemSettings

FATE_S = 30.0
BACK_S = 20.0


class Questions:
    """A base of the coordinator's class."""

    _life: "Life"
    _settings: "SystemSettings"

    @door.method("wait", again=True)
    def fate(self, name: str, incarnation: int) -> Stop | Ending | None:
        """Why `name` does not answer: the system stopped, or the actor ended or never existed.

        None if that life is over, as the system goes back to a snapshot or went back. If the actor is still a member,
        waits at most FATE_S seconds for the news that explains its death.
        """
        deadline = time.monotonic() + FATE_S
        life = self._life
        while life.explains_nothing(name) and time.monotonic() < deadline:
            time.sleep(TICK_S)
        if life.stopped is None and (life.goes_back or life.incarnation != incarnation or life is not self._life):
            return None
        return life.fate(name)

    @door.method("wait", again=True)
    def actors(self) -> dict[str, Any]:
        """Ray handles of the living actors by name. See `_settled_life`."""
        life = self._settled_life()
        with life.lock:
            return dict(life.members.hosts)

    def _settled_life(self) -> "Life":
        """The present life, when all of its actors are known. Raises SystemRecovering after BACK_S seconds."""
        deadline = time.monotonic() + BACK_S
        while (life := self._life).state == RECOVERING:
            if time.monotonic() >= deadline:
                system = self._settings.system
                raise SystemRecovering(
                    f"system {system!r} goes back to its last snapshot by itself, and not all of its actors are there "
                    "yet: system.status() says what it waits for",
                    system=system,
                )
            time.sleep(TICK_S)
        return life

    @door.method("ask", again=True)
    def dead_letters(self) -> tuple[DeadLetter, ...]:
        """The dead letters of the actors that have ended, and the messages that actors pass over in all lives."""
        members = self._life.members
        return (*chain.from_iterable(tuple(members.letters.values())), *tuple(members.passed_over.values()))

    @door.method("wait", again=True)
    def is_there(self, name: str) -> bool | None:
        """Whether an actor of that name lives: False if it has ended, None if it never existed. See `_settled_life`."""
        life = self._settled_life()
        with life.lock:
            return life.members.is_there(name)
