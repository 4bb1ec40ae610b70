"""The drivers of this process: one for each system and life, attached when it is first needed.

Programs begin, restore and attach to systems by `rayshot.init` and similar functions. A plain task or a plain actor has
not called them. There the first use of a handle attaches the process to the handle's system, and waits while that is
being restored. Each `Class.remote()` makes its actor in the only system that runs.

A program may have several systems. `Class.remote()` never chooses one of them: it makes its actor in the system that
`Class.options(system=...)` names, else in that of the innermost `with` block, else in the only one. A program that
begins a system while it has another one has several, also when it has shut all but one down: whoever reads the line
`Class.remote()` cannot see that. It has one again when it begins one while it has none.

A program that calls `ray.shutdown()` and then `ray.init()` has left its cluster, even if it joins the same one again.
The handles of Ray's actors that it had before do not work any more, and if it passes one on, Ray ends its process. So
all its ports are closed then.
"""

import threading
import time
from collections import deque
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any

from rayshot.errors import ConfigError, SystemRecovering, SystemStopped
from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.door import door
from rayshot.runtime.door.naming import find_coordinator, running_systems
from rayshot.runtime.driver.exit import wait_at_exit
from rayshot.runtime.driver.port import DriverPort
from rayshot.runtime.driver.session import RAY_LEFT
from rayshot.runtime.driver.subscription import Subscription
from rayshot.runtime.wire.answers import RECOVERY_WAIT_S, get_answer, noticing_restart, the_coordinator
from rayshot.runtime.wire.host_identity import HostIdentity
from rayshot.runtime.wire.states import LOADING, STATES

_lock = threading.Lock()
"""Covers what follows. Nobody waits for Ray under it, as all threads that make actors need it."""
_begun: list[DriverPort] = []
"""The program's systems that are not shut down; at least one stays, unless the program leaves the cluster."""
_several: list[str] = []
"""The names of the systems that the program has begun since it had none; it says itself in which it makes an actor."""
_inside: ContextVar[str | None] = ContextVar("inside", default=None)
"""The system of the innermost `with` block."""
_attached: dict[str, DriverPort] = {}
"""Ports that were attached without a call of `rayshot.init`, by the system's name."""
_attaching: dict[str, threading.Lock] = {}
"""By the system's name, held by the thread that asks for the system, as the coordinator may be silent."""
_heard: deque[tuple[bytes, tuple[SnapshotId, ...]]] = deque(maxlen=64)
"""News of open snapshots, by life, for a port that does not exist yet. The snapshots of older news are over by then."""
LOOK_S = 0.1
JOIN_S = 1.0
"""Ray may start within a call that holds the lock of a port. That port is closed a moment later, when the call ends."""


def begin(identity: HostIdentity, label: str = "") -> DriverPort:
    """The port of a system that the program begins, restores or attaches to.

    `label` is the name under which it attaches, if any. Raises ConfigError if this process is a driver already then.
    """
    looked_at: DriverPort | None = None
    while True:
        with _lock:
            port = _living(identity.system)
            if not label or port is looked_at:
                if port is None or port.life.identity.life != identity.life:
                    port = _new_port(identity, label)
                _attached.pop(identity.system, None)
                if all(one.down is not None for one in _begun):
                    _several.clear()
                if port.system not in _several:
                    _several.append(port.system)
                _begun[:] = [*(one for one in _begun if one.down is None and one.system != port.system), port]
                _tell_news(port)
                return port
        if port is not None and port.session.has_coordinator:
            raise ConfigError(
                f"this program is a driver of system {identity.system!r} already: say as_={label!r} where it attaches "
                f"first, before it uses any handle of that system"
            )
        looked_at = port


def shut(port: DriverPort) -> None:
    """The program shut this system down."""
    with _lock:
        _begun[:] = [other for other in _begun if other is not port] or [port]


def give_up(port: DriverPort, why: str) -> None:
    """The program could not attach through this port after all. The coordinator treats it as dead from now on."""
    port.close(SystemStopped(why, system=port.system))
    with _lock:
        _begun[:] = [other for other in _begun if other is not port]
        _several[:] = [name for name in _several if any(name == other.system for other in _begun)]
    port.session.liveness.end()


def enter(system: str) -> str | None:
    """From now on new actors are made in this system, in this thread or task. Returns what `leave` takes."""
    before = _inside.get()
    _inside.set(system)
    return before


def leave(before: str | None) -> None:
    """The block that `enter` began is over."""
    _inside.set(before)


def driver_port(system: str | None = None) -> DriverPort:
    """The port for a handle of `system`; if that is None, for a new actor. A port that is down says why when used.

    Raises ConfigError if a new actor may be meant for several systems; SystemStopped if no system runs; NoAnswer,
    SystemRecovering.
    """
    with _lock:
        begun, attached, several = list(_begun), list(_attached.values()), list(_several)
    if system is None:
        system = _inside.get()
    if system is None:
        if len(several) > 1:
            down = {port.system for port in begun if port.down is None}
            raise _unclear([name if name in down else f"{name} (shut down)" for name in several])
        if begun:
            return begun[-1]
        return _attach(_only_system())
    ports = [port for port in (*reversed(begun), *attached) if port.system == system]
    for port in ports:
        if port.down is None:
            return port
    return ports[0] if ports and not ports[0].session.has_later_life else _attach(system)


def _living(system: str) -> DriverPort | None:
    ports = (port for port in (*reversed(_begun), *_attached.values()) if port.system == system)
    return next((port for port in ports if port.down is None), None)


def _only_system() -> str:
    """The only system that runs in this cluster, whichever this process has used: Ray gives it to any task."""
    names = running_systems() if door.is_joined() else []
    if len(names) > 1:
        raise _unclear(names)
    if names:
        return names[0]
    raise SystemStopped("this process belongs to no rayshot system; call rayshot.init(name, storage=...) first")


def _unclear(names: list[str]) -> ConfigError:
    """The error for a new actor that may be meant for each of several systems."""
    return ConfigError(
        f"a new actor may be meant for any of the systems {', '.join(names)}: say which, as in "
        f"Class.options(system={names[0].partition(' ')[0]!r}).remote(...), or make it inside a `with` block of its "
        "system, which shuts that down at its end",
        systems=names,
    )


def _attach(system: str) -> DriverPort:
    while True:
        with _lock:
            turn = _attaching.setdefault(system, threading.Lock())
        with turn:
            with _lock:
                port = _living(system)
            if port is not None:
                return port
            identity = _ask(system)
            with _lock:
                if (port := _living(system)) is not None:
                    return port  # this program began the system meanwhile
                if _attaching.get(system) is turn:  # otherwise it has left the cluster meanwhile, and asks in the next
                    port = _new_port(identity)
                    for other in [name for name, old in _attached.items() if old.down is not None]:
                        del _attached[other]
                    _attached[system] = port
                    _tell_news(port)
                    return port


def _ask(system: str) -> HostIdentity:
    """What a driver must know of the system. Raises SystemStopped, NoAnswer, SystemRecovering."""
    coordinator = find_coordinator(system) if door.is_joined() else None
    if coordinator is None:
        raise SystemStopped(
            f"system {system!r} does not run in this cluster: restore it with "
            f"rayshot.restore({system!r}, storage=...), or begin it with rayshot.init({system!r}, storage=...)",
            system=system,
        )
    try:
        with noticing_restart(system, coordinator):
            _await_restored(system, coordinator)
            identity = get_answer(coordinator.identity.remote(), the_coordinator(system))
    except door.NotReached as error:
        raise SystemStopped(f"system {system!r} cannot be attached to: {error}", system=system) from error
    assert isinstance(identity, HostIdentity), f"system {system!r} says {identity!r} when asked for its identity"
    return identity


def _await_restored(system: str, coordinator: Any) -> None:
    """Wait while a system is being restored: an actor that has not joined yet would count as one that never existed.

    Raises SystemRecovering after RECOVERY_WAIT_S.
    """
    deadline = time.monotonic() + RECOVERY_WAIT_S
    while (state := get_answer(coordinator.state.remote(), the_coordinator(system))) == LOADING:
        if time.monotonic() >= deadline:
            raise SystemRecovering(
                f"system {system!r} is still being restored, after {RECOVERY_WAIT_S:g} s. Nothing was sent",
                system=system,
            )
        time.sleep(LOOK_S)
    assert state in STATES, f"system {system!r} is {state!r}"


def _new_port(identity: HostIdentity, label: str = "") -> DriverPort:
    port = DriverPort(identity, label)
    wait_at_exit(port.session)
    if identity.heals:
        Subscription(port.session, port.maker)
    return port


def _joining() -> None:
    """This program joins a cluster. Ray calls this at the end of each `ray.init`."""
    if _begun or _attached:
        leaving = threading.Thread(target=_leave, name="rayshot-left", daemon=True)
        leaving.start()
        leaving.join(JOIN_S)


def _leave() -> None:
    with _lock:
        ports = [*_begun, *_attached.values()]
        _begun.clear()
        _several.clear()
        _attached.clear()
        _attaching.clear()
    for port in ports:
        port.session.leave(RAY_LEFT)


door.when_joined(_joining)


def _tell_news(port: DriverPort) -> None:
    """Tell a new port the news that this process heard before the port existed."""
    for life, tags in tuple(_heard):
        if life == port.life.identity.life:
            port.session.calls.hear(tags)


def hear(life: bytes, tags: Iterable[SnapshotId]) -> None:
    """This process got a result that may show effects of open snapshots of a system's life. Takes no lock."""
    heard = tuple(SnapshotId(*tag) for tag in tags)
    if (life, heard) not in _heard:
        _heard.append((life, heard))
    for port in (*_begun, *_attached.values()):
        if port.life.identity.life == life:
            port.session.calls.hear(heard)


def result_of(reference: Any) -> Any:
    """The outcome of a call of this program, as `ray.get` gives it."""
    return door.get(reference)
