"""A restart: a system that was stopped with a savepoint goes on from it at once, in new processes."""

import logging

from rayshot.errors import ConfigError, RayshotError, RestoreFailed
from rayshot.model.configuration import CLAIM, FailureConfig, SnapshotConfig
from rayshot.places.kinds import open_store
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.door import door
from rayshot.runtime.door.naming import find_coordinator
from rayshot.runtime.opening.from_snapshot import Choice, Fitting, bring_back
from rayshot.runtime.opening.start import is_local
from rayshot.runtime.wire.host_identity import HostIdentity
from rayshot.runtime.wire.keyring import load_keyring
from rayshot.snapshots.snapshot import Snapshot
from rayshot.snapshots.upkeep.pins import pin_of

log = logging.getLogger("rayshot")


def check_restart(snapshot: Snapshot, running: HostIdentity, fitting: Fitting) -> None:
    """Raise if this program could not go on from such a snapshot: nothing was stopped yet. See `System.restart`."""
    fitting.of(snapshot)
    ours, theirs = load_keyring(local=is_local(running.storage)).signing.key_id, snapshot.envelope.key_id
    if ours != theirs:
        raise ConfigError(
            f"this program would sign the snapshots of system {running.system!r} with the key {ours}, and the system "
            f"signs with {theirs}: restart it from a program that has this key. The system goes on"
        )


def go_on_from(
    savepoint: SnapshotId,
    before: HostIdentity,
    fitting: Fitting,
    configs: tuple[SnapshotConfig, FailureConfig],
    *,
    kept: bool,
) -> HostIdentity:
    """Begin the life after `before`; see `System.restart`. A savepoint that is not `kept` belongs to the new life."""
    storage, system = before.storage, before.system
    where = f"rayshot.restore({system!r}, storage={storage!r}, snapshot='{savepoint}')"
    try:
        return bring_back(
            storage,
            system,
            Choice(lambda view: view.snapshot(savepoint), pin_of(open_store(storage), system, before.incarnation)),
            fitting,
            claim=None if kept else CLAIM,
            snapshots=configs[0],
            failure=configs[1],
            trace=before.trace,
            loops=before.loops,
            files=before.outside.files,
        )
    except (RayshotError, door.CallFailed) as error:
        evidence = error.evidence if isinstance(error, RayshotError) else {}
        if isinstance(error, ConfigError) and find_coordinator(system) is not None:
            advice = f"Another program has begun a life of it: rayshot.attach({system!r}) reaches that life"
        else:
            advice = f"Nothing is lost: {where} goes on from it, with this code or the code from before"
        raise RestoreFailed(
            f"system {system!r} is stopped with the savepoint {savepoint}, and could not go on: {error}. {advice}",
            **{**evidence, "snapshot": str(savepoint)},
        ) from error
    except BaseException:
        log.warning("the restart of %r was interrupted behind its stop: %s goes on from its savepoint", system, where)
        raise
