"""What a coordinator says of itself to whoever attaches: the part of it that changes nothing."""

from typing import TYPE_CHECKING

import ray

import rayshot
from rayshot.runtime.coordinator.notices import UNTIL_ANSWERED

if TYPE_CHECKING:
    from rayshot.model.configuration import SnapshotConfig


class Inquiry:
    """A base of the coordinator's class."""

    _config: "SnapshotConfig"

    @ray.method(concurrency_group="ask", max_task_retries=UNTIL_ANSWERED)
    def version(self) -> str:
        """Of rayshot here: whoever comes with another one learns it before anything else is said."""
        return rayshot.__version__

    @ray.method(concurrency_group="ask", max_task_retries=UNTIL_ANSWERED)
    def config(self) -> "SnapshotConfig":
        """When snapshots are taken now, and which are kept."""
        return self._config
