"""How a coordinator answers questions about itself, mostly from programs that attach. They change nothing."""

from typing import TYPE_CHECKING

import rayshot
from rayshot.runtime.door import door

if TYPE_CHECKING:
    from rayshot.model.configuration import FailureConfig, SnapshotConfig
    from rayshot.runtime.coordinator.life import Life
    from rayshot.runtime.wire.settings import SystemSettings


class Inquiry:
    """A base of the coordinator's class."""

    _life: "Life"
    _settings: "SystemSettings"

    @door.method("hello")
    def hello(self) -> None:
        """Answers at once, whatever else is done here. The call fails if Ray starts the coordinator again."""

    @door.method("ask", again=True)
    def version(self) -> str:
        """The version of rayshot here: programs with another version learn it before they ask anything else."""
        return rayshot.__version__

    @door.method("ask", again=True)
    def failure(self) -> "FailureConfig":
        """What the failure of an actor means for the system."""
        return self._settings.failure

    @door.method("ask", again=True)
    def config(self) -> "SnapshotConfig":
        """When snapshots are taken now, and which are kept."""
        return self._life.runner.config
