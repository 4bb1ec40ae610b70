"""Guards for Ray functions that a program may call with rayshot objects: the error says what to call instead.

In every process that loads rayshot, calls of `ray.kill`, `ray.cancel` and `ray.get_actor` come here first, even if the
functions were imported by name before. For Ray's own objects they work as before. In the process of a rayshot actor,
`ray.actor.exit_actor` ends the actor in order, and the runtime context knows the actor's own handle and name.
"""

import functools
import logging
import sys
from collections.abc import Callable
from typing import Any

import ray
from ray.actor import exit_actor
from ray.runtime_context import RuntimeContext

from rayshot.errors import ConfigError, NameOfSystem, UnsupportedVersion
from rayshot.format.suggestion import porting
from rayshot.model.handle import ActorHandle
from rayshot.runtime.door import private_names
from rayshot.runtime.door.door import NAMESPACE
from rayshot.runtime.door.plain_handles import PlainHandle, find_actor
from rayshot.runtime.door.roster import system_with

log = logging.getLogger("rayshot")
_hosts: set[Any] = set()
_guarded: list[str] = []


def know_host(host: Any) -> None:
    """This Ray actor is one of ours: the results of its calls cannot be cancelled."""
    _hosts.add(private_names.id_of(host))


def forget_host(host: Any) -> None:
    """This Ray actor is gone."""
    _hosts.discard(private_names.id_of(host))


def guard_functions() -> None:
    """Install the guards in Ray's functions. A second call changes nothing. Raises UnsupportedVersion."""
    if not _guarded:
        for function, guard in (
            (ray.kill, _guard_kill),
            (ray.cancel, _guard_cancel),
            (ray.get_actor, _guard_get_actor),
        ):
            _guard(function, guard)
            _guarded.append(function.__name__)


def _guard(function: Any, guard: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace the function inside Ray's wrapper: this reaches all code that already has the wrapper."""
    inner = getattr(function, "__wrapped__", None)
    for cell in getattr(function, "__closure__", None) or ():
        if cell.cell_contents is inner and inner is not None:
            cell.cell_contents = functools.wraps(inner)(guard(inner))
            return
    raise UnsupportedVersion(
        f"Ray {ray.__version__} has ray.{function.__name__} in another form than rayshot knows: {private_names.HOW}",
        ray=ray.__version__,
    )


def _guard_kill(inner: Callable[..., Any]) -> Callable[..., Any]:
    def kill(actor: Any, **options: Any) -> Any:
        if isinstance(actor, ActorHandle):
            raise ConfigError(
                f"ray.kill({actor!r}) would leave messages and snapshots waiting for the actor: call "
                f"rayshot.kill(handle), which ends it in its turn; see {porting('ray-kill')}"
            )
        return inner(find_actor(actor, "kill") if isinstance(actor, PlainHandle) else actor, **options)

    return kill


def _guard_cancel(inner: Callable[..., Any]) -> Callable[..., Any]:
    def cancel(ray_waitable: Any, **options: Any) -> Any:
        if isinstance(ray_waitable, ray.ObjectRef) and ray_waitable.task_id().actor_id() in _hosts:
            raise ConfigError(
                "ray.cancel(ref): a call of an actor of rayshot is a message with a number, which a snapshot may hold: "
                "it cannot be taken back. Let the handler look at a flag that another message sets; see "
                f"{porting('cancel')}"
            )
        return inner(ray_waitable, **options)

    return cancel


def _guard_get_actor(inner: Callable[..., Any]) -> Callable[..., Any]:
    def get_actor(name: str, namespace: str | None = None) -> Any:
        try:
            return inner(name, namespace)
        except ValueError:
            system = None if namespace == NAMESPACE else system_with(name)
            if system is None:
                raise
        raise NameOfSystem(
            f"ray.get_actor({name!r}) finds actors of Ray's own, and {name!r} is one of system {system!r}: call "
            f"system.get_actor({name!r}), or Class.options(name={name!r}, get_if_exists=True).remote(...), or give "
            f"its handle as an argument; see {porting('ray-get-actor')}",
            actor=name,
        )

    return get_actor


def be_actor(own_handle: Callable[[], ActorHandle], name: str) -> None:
    """This process belongs to an actor of ours: adapt Ray's `exit_actor` and runtime context to it."""
    exit_actor.__code__ = _leave.__code__  # not the name: a module may have imported it before
    RuntimeContext.current_actor = property(lambda _: own_handle())
    RuntimeContext.get_actor_name = lambda _: name


def name_in_logs(instance: object) -> None:
    """If the actor's class defines `repr`, let Ray begin the printed lines of this process with it."""
    if type(instance).__repr__ is object.__repr__:
        return
    try:
        words = " ".join(repr(instance).split())
    except Exception:
        log.exception("%s has no name in Ray's log lines, its repr raised", type(instance).__qualname__)
        return
    for stream in (sys.stdout, sys.stderr):
        print(f"{private_names.LOG_NAME}{words}", file=stream, flush=True)


def _leave() -> None:
    """The code of `ray.actor.exit_actor` in an actor's process. It runs with the globals of Ray's own function."""
    from rayshot.errors import ConfigError, OutsideHandler  # noqa: PLC0415 - see above
    from rayshot.format.suggestion import porting  # noqa: PLC0415
    from rayshot.model.current import current  # noqa: PLC0415

    try:
        current()
    except OutsideHandler:
        raise ConfigError(
            "ray.actor.exit_actor() ends the actor of the handler that calls it: on another thread, tell the actor, "
            f"and let a handler call it; see {porting('exit-actor')}"
        ) from None
    raise SystemExit("exit_actor() was called")
