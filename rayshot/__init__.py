"""Consistent snapshots of running Ray actors and of every message in flight between them.

The public face. Names are looked up on first use, so that `import rayshot` imports neither Ray nor PySpark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rayshot.format.codec import RecordedMessage as Message
    from rayshot.model.configuration import FailureConfig, SnapshotConfig
    from rayshot.model.current import current
    from rayshot.model.loop import loop
    from rayshot.model.outside import ActorCut
    from rayshot.model.waits_first import waits_first
    from rayshot.primitives.event import Event
    from rayshot.primitives.queue import Queue
    from rayshot.primitives.semaphore import Lock, Semaphore
    from rayshot.runtime.opening.attach import attach
    from rayshot.runtime.opening.init import init, restore
    from rayshot.runtime.opening.resume import resume
    from rayshot.runtime.opening.system import System
    from rayshot.snapshots.catalog import open  # noqa: A004 - users read `rayshot.open`
    from rayshot.snapshots.snapshot import Snapshot
    from rayshot.snapshots.upkeep.copying import copy
    from rayshot.typed import Actor, ActorHandle, Reply, actor, gather, get, kill, method, wait

    _driver_port: Any
    _frame: Any
    _hear: Any
    _open_table: Any
    _result_of: Any

_HOMES = {
    "Actor": ("rayshot.model.actor_class", "Actor"),
    "ActorHandle": ("rayshot.model.handle", "ActorHandle"),
    "ActorCut": ("rayshot.model.outside", "ActorCut"),
    "Event": ("rayshot.primitives.event", "Event"),
    "FailureConfig": ("rayshot.model.configuration", "FailureConfig"),
    "Lock": ("rayshot.primitives.semaphore", "Lock"),
    "Message": ("rayshot.format.codec", "RecordedMessage"),
    "Queue": ("rayshot.primitives.queue", "Queue"),
    "Reply": ("rayshot.model.reply", "Reply"),
    "Semaphore": ("rayshot.primitives.semaphore", "Semaphore"),
    "Snapshot": ("rayshot.snapshots.snapshot", "Snapshot"),
    "SnapshotConfig": ("rayshot.model.configuration", "SnapshotConfig"),
    "System": ("rayshot.runtime.opening.system", "System"),
    "actor": ("rayshot.model.actor_class", "actor"),
    "attach": ("rayshot.runtime.opening.attach", "attach"),
    "copy": ("rayshot.snapshots.upkeep.copying", "copy"),
    "current": ("rayshot.model.current", "current"),
    "gather": ("rayshot.model.reply", "gather"),
    "get": ("rayshot.model.reply", "get"),
    "init": ("rayshot.runtime.opening.init", "init"),
    "kill": ("rayshot.model.handle", "kill"),
    "loop": ("rayshot.model.loop", "loop"),
    "method": ("rayshot.model.methods", "method"),
    "open": ("rayshot.snapshots.catalog", "open"),
    "restore": ("rayshot.runtime.opening.init", "restore"),
    "resume": ("rayshot.runtime.opening.resume", "resume"),
    "wait": ("rayshot.model.reply", "wait"),
    "waits_first": ("rayshot.model.waits_first", "waits_first"),
    "_driver_port": ("rayshot.runtime.opening.ports", "driver_port"),
    "_frame": ("rayshot.explorer.report", "frame"),
    "_hear": ("rayshot.runtime.opening.ports", "hear"),
    "_result_of": ("rayshot.runtime.opening.ports", "result_of"),
    "_open_table": ("rayshot.analysis.table", "open_table"),
}

__all__ = [
    "Actor",
    "ActorCut",
    "ActorHandle",
    "Event",
    "FailureConfig",
    "Lock",
    "Message",
    "Queue",
    "Reply",
    "Semaphore",
    "Snapshot",
    "SnapshotConfig",
    "System",
    "actor",
    "attach",
    "copy",
    "current",
    "gather",
    "get",
    "init",
    "kill",
    "loop",
    "method",
    "open",
    "restore",
    "resume",
    "wait",
    "waits_first",
]
__version__ = "0.2.0"


if not TYPE_CHECKING:  # else type checkers would believe that every name exists

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'rayshot' has no attribute {name!r}")
        module, attribute = _HOMES[name]
        value = globals()[name] = getattr(import_module(module), attribute)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
