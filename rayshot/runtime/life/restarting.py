"""A restart: a system that was stopped with a savepoint goes on from it at once, in new processes."""

from rayshot.errors import RayshotError, RestoreFailed
from rayshot.model.configuration import CLAIM, SnapshotConfig
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.life.bringing_back import Choice, bring_back
from rayshot.runtime.life.fitting import Fitting
from rayshot.runtime.wire.host_identity import HostIdentity


def go_on_from(
    savepoint: SnapshotId, before: HostIdentity, fitting: Fitting, config: SnapshotConfig, *, kept: bool
) -> HostIdentity:
    """Begin the life after `before`; see `System.restart`. A savepoint that is not `kept` belongs to the new life."""
    storage, system = before.storage, before.system
    try:
        return bring_back(
            storage,
            system,
            Choice(lambda view: view.snapshot(savepoint)),
            fitting,
            claim=None if kept else CLAIM,
            config=config,
            trace=before.trace,
        )
    except RayshotError as error:
        raise RestoreFailed(
            f"system {system!r} is stopped with the savepoint {savepoint}, and could not go on: {error}. Nothing is "
            f"lost: rayshot.restore({storage!r}, system={system!r}, snapshot='{savepoint}') goes on from it, with this "
            f"code or the code from before",
            **{**error.evidence, "snapshot": str(savepoint)},
        ) from error
