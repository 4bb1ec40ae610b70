"""What every beginning of a life needs: a cluster, a storage, room, and a coordinator."""

import logging
import os
import time
from typing import Any

import rayshot
from rayshot.errors import ClusterRefused, ConfigError, NoAnswer, RayshotError, SystemRecovering
from rayshot.model.configuration import FailureConfig, SnapshotConfig, Trace, check_config, check_loops, check_trace
from rayshot.model.port import find_port
from rayshot.places.kinds import open_store
from rayshot.places.local import LocalStore
from rayshot.protocol.identity import check_name
from rayshot.runtime.actor.process import ActorProcess
from rayshot.runtime.coordinator.coordinator import GROUPS, Coordinator
from rayshot.runtime.coordinator.starter import UNWATCHED_S
from rayshot.runtime.coordinator.teardown import take_down
from rayshot.runtime.door import door, here
from rayshot.runtime.door.cluster import connected_to
from rayshot.runtime.door.naming import coordinator_name, find_coordinator
from rayshot.runtime.driver.progress import wait_with_progress
from rayshot.runtime.wire.answers import SILENT_S, get_answer, noticing_restart, the_coordinator
from rayshot.runtime.wire.host_identity import HostIdentity
from rayshot.runtime.wire.keyring import Keyring, offer_keys
from rayshot.runtime.wire.settings import SystemSettings
from rayshot.runtime.wire.states import BEGINNING, LOADING, STOPPED

log = logging.getLogger("rayshot")
DEATH_S = UNWATCHED_S + 5.0
"""If a program dies while it starts a system, this is known after so many seconds; Ray tells it two seconds later."""
START_S = 300.0
"""Seconds that a coordinator may take to start: it needs no room in the cluster, but reads the log of its system."""
LOOK_S = 0.2


def check_no_actor() -> None:
    """Raise ConfigError in an actor's process.

    An actor sends through its own channels. No snapshot would hold the messages of a driver inside an actor.
    """
    port = find_port()
    if isinstance(port, ActorProcess):
        raise ConfigError(
            f"actor {port.name!r} of system {port.system!r} cannot start, attach to or restore a system: give it the "
            f"handles of the actors that it needs as arguments"
        )


def check_arguments(
    name: str, snapshots: SnapshotConfig | None, failure: FailureConfig | None, trace: Trace, loops: object
) -> None:
    """Check what `init` and `resume` take alike. Raises ConfigError, also in an actor's process."""
    check_no_actor()
    check_name(name, "a system")
    check_config(snapshots or SnapshotConfig(), SnapshotConfig)
    check_config(failure or FailureConfig(), FailureConfig)
    check_trace(trace)
    check_loops(loops)


def locate(storage: str | os.PathLike[str]) -> tuple[str, Any]:
    """The storage address in a form that every process of the cluster can use, and the store there.

    Raises ConfigError if no process, or not every process, can find a storage there; for one that cannot be written,
    the store's own `check` does.
    """
    store, address = open_store(storage), os.fspath(storage)
    if address.startswith("memory://"):
        raise ConfigError("memory:// lives inside one process, a system in many: give a folder")
    if isinstance(store, LocalStore) and "://" not in address:
        address = str(store.folder)
    if isinstance(store, LocalStore):
        store.refuse_file()  # before Ray is started
    return address, store


def locate_files(files: str | os.PathLike[str] | None) -> str | None:
    """As `locate`, of the place for files of actors; it is also checked. Raises ConfigError."""
    if files is None:
        return None
    address, store = locate(files)
    store.check()
    return address


def is_local(location: str) -> bool:
    """Whether a storage address names a folder."""
    return "://" not in location or location.startswith("file://")


def identify(name: str, coordinator: Any, within_s: float = SILENT_S) -> HostIdentity:
    """The identity of a running life.

    Raises ClusterRefused if another version of rayshot runs it; NoAnswer, SystemRecovering.
    """
    with noticing_restart(name, coordinator):
        version = getattr(coordinator, "version", None)  # an older one has no such method
        theirs = None if version is None else get_answer(version.remote(), the_coordinator(name), within_s)
        if theirs != rayshot.__version__:
            raise ClusterRefused(
                f"system {name!r} in the Ray cluster at {connected_to()} runs with rayshot "
                f"{theirs or '(an older one)'}, and this is rayshot {rayshot.__version__}: install the version of the "
                "cluster",
                theirs=theirs,
                ours=rayshot.__version__,
            )
        identity = get_answer(coordinator.identity.remote(), the_coordinator(name), within_s)
    assert isinstance(identity, HostIdentity)
    return identity


def await_start(name: str, coordinator: Any, patience_s: float) -> str:
    """Wait while another program begins or restores a system; return its state then.

    Raises ConfigError if this takes longer than `patience_s` seconds; NoAnswer, SystemRecovering.
    """
    deadline = time.monotonic() + patience_s
    state = ""

    def is_over(timeout_s: float) -> bool:
        nonlocal state
        with noticing_restart(name, coordinator):
            state = get_answer(coordinator.state.remote(), the_coordinator(name))
        if state not in (LOADING, BEGINNING):
            return True
        if time.monotonic() > deadline:
            raise ConfigError(
                f"system {name!r} is {state} in this cluster, by another program, also after {patience_s:g} s: wait "
                f"for it, or end that program, and try again {DEATH_S:g} s later"
            )
        time.sleep(min(timeout_s, LOOK_S))
        return False

    wait_with_progress(is_over, lambda: f"waiting for another program that starts system {name!r}")
    return state


def start(settings: SystemSettings, keyring: Keyring) -> HostIdentity:
    """Make the coordinator of a new life. If this fails, or the user presses Ctrl-C, nothing is left.

    Raises NoAnswer, SystemRecovering, and NameUsed if one exists.
    """
    name = coordinator_name(settings.system)
    coordinator = door.make(Coordinator, GROUPS, name, settings, restarts=True, num_cpus=0)
    if settings.loading or settings.beginning:
        coordinator.watch_starter.remote([coordinator.stay.remote()], here.place())
    try:
        identity = get_answer(coordinator.identity.remote(), the_coordinator(settings.system), START_S)
        offer_keys(coordinator, settings.system, keyring)
    except (door.CallFailed, NoAnswer, SystemRecovering, KeyboardInterrupt) as error:
        if isinstance(error, KeyboardInterrupt):  # this may take seconds
            log.warning("Ctrl-C: system %r has not begun, and what it has made is taken down", settings.system)
        take_down(settings.system, coordinator)
        cause = getattr(error, "cause", None)
        if isinstance(cause, RayshotError):
            raise cause from error
        raise
    assert isinstance(identity, HostIdentity)
    return identity


def make_room(system: str) -> None:
    """Take down what is left of an earlier life. Raises ConfigError if that life still runs.

    If the program that starts a life dies, this life is over a moment later. So a life that is starting gets this time.
    """
    running = find_coordinator(system)
    if running is None:
        return
    try:
        state = await_start(system, running, DEATH_S)
    except door.NotReached:  # its process is gone, and Ray does not start it again
        state = STOPPED
    if state != STOPPED:
        raise ConfigError(
            f"system {system!r} is {state} in this cluster: shut it down before it is restored, with "
            f"rayshot.init({system!r}, storage=...).shutdown()"
        )
    take_down(system, running)
