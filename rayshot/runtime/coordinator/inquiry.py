"""How a coordinator answers questions about itself, mostly from programs that attach. They change nothing."""

from typing import TYPE_CHECKING

import ray

import rayshot
from rayshot.runtime.wire.answers import UNTIL_ANSWERED

if TYPE_CHECKING:
    from rayshot.model.configuration import FailureConfig, SnapshotConfig
    from rayshot.runtime.coordinator.life import Life
    from rayshot.runtime.wire.settings import SystemSettings


class Inquiry:
    """A base of the coordinator's class."""

    _life: "Life"
    _settings: "SystemSettings"

    @ray.method(concurrency_group="hello")
    def hello(self) -> None:
        """Answers at once, whatever else is done here. The call fails if Ray starts the coordinator again."""

    @ray.method(concurrency_group="ask", max_task_retries=UNTIL_ANSWERED)
    def version(self) -> str:
        """The version of rayshot here: programs with another version learn it before they ask anything else."""
        return rayshot.__version__

    @ray.method(concurrency_group="ask", max_task_retries=UNTIL_ANSWERED)
    def failure(self) -> "FailureConfig":
        """What the failure of an actor means for the system."""
        return self._settings.failure

    @ray.method(concurrency_group="ask", max_task_retries=UNTIL_ANSWERED)
    def config(self) -> "SnapshotConfig":
        """When snapshots are taken now, and which are kept."""
        return self._life.runner.config
