"""`rayshot.resume`: the one line with which a program begins, however often it is started."""

import logging
import os
from collections.abc import Callable
from typing import Any

import ray

from rayshot.errors import ConfigError
from rayshot.model.class_map import ClassMap
from rayshot.model.configuration import FailureConfig, SnapshotConfig, Trace, check_config, check_trace
from rayshot.model.resolution import AllowUnmapped
from rayshot.model.stored_options import ActorOptions
from rayshot.protocol.identity import check_name
from rayshot.runtime.keyring import load_keyring
from rayshot.runtime.naming import find_coordinator
from rayshot.runtime.settings import SystemSettings
from rayshot.runtime.starting import (
    ATTACH_S,
    attach_to,
    await_start,
    check_no_actor,
    ensure_ray,
    is_local,
    locate,
    make_room,
    restore,
    start,
)
from rayshot.runtime.states import STOPPED
from rayshot.runtime.system import System
from rayshot.store.beginning import check_nobody_lives, find_history

log = logging.getLogger("rayshot")


def resume(
    name: str,
    *,
    storage: str | os.PathLike[str],
    begin: Callable[[System], object],
    snapshot: SnapshotConfig | None = None,
    failure: FailureConfig | None = None,
    trace: Trace = False,
    takeover: bool = False,
    trust: str | None = None,
    class_map: ClassMap | None = None,
    allow_unmapped: AllowUnmapped = False,
    options: ActorOptions | None = None,
) -> System:
    """Attach to a system where it runs; else restore its latest snapshot; else begin it.

    So a program that is started anew, on this cluster or another one, goes on where its last snapshot was taken.

    Args:
        name: as for `rayshot.init`.
        storage: as for `rayshot.init`.
        begin: called with the system where there is no snapshot: makes its first actors, and may send them messages. No
            snapshot is committed before it has returned; then the first one is taken, and the system runs. If it
            raises, or its program dies, nothing is left, and the next `resume` calls it again. Who attaches meanwhile
            waits.
        snapshot: as for `rayshot.init`, also where the system is restored.
        failure: as for `rayshot.init`.
        trace: as for `rayshot.init`, also where the system is restored.
        takeover: True goes on although a life of the system may still run in another cluster: it is fenced out then.
        trust: as for `rayshot.restore`.
        class_map: as for `rayshot.restore`.
        allow_unmapped: as for `rayshot.restore`.
        options: as for `rayshot.restore`.

    Raises:
        LivesElsewhere: a life of the system, which does not run in this cluster, has said within the last 60 s that it
            runs. Two programs that resume one system in two clusters would fence each other out for ever.
        SnapshotAborted: it began, and its first snapshot could not be taken; nothing is left.
        ConfigError, NotFound, Untrusted, Damaged, Incompatible, RestoreFailed: as for `rayshot.init` and
            `rayshot.restore`. And what `begin` raises.
    """
    check_no_actor()
    check_name(name, "a system")
    check_config(snapshot or SnapshotConfig(), SnapshotConfig)
    check_config(failure or FailureConfig(), FailureConfig)
    check_trace(trace)
    if not callable(begin):
        raise ConfigError(f"begin={begin!r}: give a function that takes the system and makes its first actors")
    location, store = locate(storage)
    ensure_ray()
    running = _find_running(name)
    if running is not None:
        return attach_to(name, running, location)
    store.check()
    if not takeover:
        check_nobody_lives(store, name)
    try:
        if find_history(store, name).retained:
            return restore(
                storage,
                system=name,
                claim=None,  # a program that is started again and again must not keep a snapshot for each start
                trust=trust,
                class_map=class_map,
                allow_unmapped=allow_unmapped,
                options=options,
                config=snapshot,
                trace=trace,
            )
        make_room(name)
        keyring = load_keyring(local=is_local(location))
        configs = snapshot or SnapshotConfig(), failure or FailureConfig()
        settings = SystemSettings(name, location, keyring.names, *configs, trace, beginning=True)
        return _begin(System(start(settings, keyring)), begin)
    except (ConfigError, ray.exceptions.ActorAlreadyExistsError) as error:
        running = _find_running(name)
        if running is None and isinstance(error, ConfigError):
            raise
        if running is None:
            raise ConfigError(f"another program has just tried to start system {name!r}, in vain: try again") from error
        return attach_to(name, running, location)  # another process was faster


def _find_running(name: str) -> Any | None:
    """The coordinator of that system, unless it is stopped or dead. Waits while another program starts it."""
    coordinator = find_coordinator(name)
    if coordinator is None:
        return None
    try:
        return None if await_start(name, coordinator, ATTACH_S) == STOPPED else coordinator
    except ray.exceptions.RayActorError:
        return None


def _begin(system: System, begin: Callable[[System], object]) -> System:
    try:
        begin(system)
        system.begun()
    except BaseException:
        log.warning("system %r could not begin: what it has made is taken down", system.name)
        system.shutdown()
        raise
    return system
