"""How Ray actors are made from specifications."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any

from rayshot.errors import ConfigError, NameTaken, SystemStopped
from rayshot.model.specification import ActorSpecification
from rayshot.runtime.actor.durable_fetches import DURABLE_AT_ONCE
from rayshot.runtime.actor.outcomes import AGAIN_AT_ONCE
from rayshot.runtime.door import door
from rayshot.runtime.door.naming import actor_name
from rayshot.runtime.door.roster import Roster
from rayshot.runtime.wire.answers import ask_until_settled, get_told, noticing_restart, the_coordinator
from rayshot.runtime.wire.host_identity import CALLS_AT_ONCE, HostIdentity

RECORDS_AT_ONCE = 4
"""So many calls for records run at once; further ones wait in a queue, and the markers tell of their snapshots."""
GROUPS = {
    "transport": 1,
    "values": 1,
    "calls": CALLS_AT_ONCE,
    "again": AGAIN_AT_ONCE,
    "durable": DURABLE_AT_ONCE,
    "credit": 4,
    "control": 2,
    "load": 1,
    "record": RECORDS_AT_ONCE,
    "watch": 1,
}

WAITING_AT_ONCE = 64
"""So many calls of drivers may wait at a time at a queue, a lock or another one of `rayshot.primitives`, and at an
actor whose handlers run at once: that is what they are for."""
_PRIMITIVES = "rayshot.primitives."

NAMES_TRIED_MAX = 100
"""So many names in a row may be taken before an actor without a name of its own gets none."""


def spawn_host(
    host: type,
    identity: HostIdentity,
    specification: ActorSpecification,
    name: str,
    *,
    loading: bool = False,
    maker: str = "",
) -> Any:
    """Start the host of the actor `name`, of the class `host`; returns its Ray handle at once.

    `maker` is the driver that will send the creation, if a driver does.
    Raises NameTaken, and ConfigError if Ray refuses the options.
    """
    went_back = identity.heals and identity.incarnation > 1
    if went_back and not loading and Roster(identity.system, identity.incarnation).find(name) is not None:
        raise name_taken(name, identity.system)  # Ray knows it by the name of an earlier life
    told = specification.ray_options if identity.heals else {}
    many_wait = specification.at_once > 1 or specification.class_module.startswith(_PRIMITIVES)
    at_once = WAITING_AT_ONCE if many_wait else CALLS_AT_ONCE
    own = replace(identity, name=name, loading=loading, maker=maker, options=told, calls_at_once=at_once)
    ray_name = actor_name(identity.system, identity.incarnation, name)
    try:
        wishes = _seeded(specification.ray_options, identity.hash_seed)
        return _made(host, specification.class_name, ray_name, wishes, own, at_once)
    except ValueError as error:
        if "already" in str(error):
            raise name_taken(name, identity.system) from error
        raise ConfigError(f"Ray refuses the options of actor {name!r}: {error}") from error


def spawn_anonymous(
    host: type, identity: HostIdentity, specification: ActorSpecification, names: Iterator[str]
) -> tuple[str, Any]:
    """As `spawn_host`, under the first of `names` that is free; returns this name too.

    A handler's names follow from its message, so a program can know them, and give one by hand before.
    """
    for name in islice(names, NAMES_TRIED_MAX):
        with suppress(NameTaken):
            return name, spawn_host(host, identity, specification, name)
    raise name_taken(name, identity.system)


def is_there(identity: HostIdentity, name: str) -> bool | None:
    """Whether an actor of that name lives; see Port. Waits while the system goes back to a snapshot.

    Raises SystemStopped, SystemRecovering, NoAnswer.
    """
    whom, ask = the_coordinator(identity.system), identity.coordinator.is_there.remote

    def told() -> Any:
        with noticing_restart(identity.system, identity.coordinator):
            return get_told(ask(name), whom)

    try:
        there: bool | None = ask_until_settled(told)
    except door.NotReached as error:
        raise SystemStopped(f"{whom} is gone: {error}", system=identity.system) from error
    return there


def name_taken(name: str, system: str) -> NameTaken:
    """The error for a name that cannot be used again: messages to an ended actor must not reach another one."""
    return NameTaken(
        f"there is an actor named {name!r} already in system {system!r}, or there was in this life: give another name",
        actor=name,
    )


def spawn_spare(spare: type, ray_name: str, modules: frozenset[str], hash_seed: int | None) -> Any:
    """Start a process of the class `spare`, see `spare.Spare`; returns its Ray handle at once.

    It gets a node where an actor without options may be.
    """
    wishes = _seeded({"scheduling_strategy": "SPREAD"}, hash_seed)
    return _made(spare, spare.__name__, ray_name, wishes, modules)


def _seeded(ray_options: Mapping[str, Any], hash_seed: int | None) -> Mapping[str, Any]:
    """The options with the system's seed of `hash()`, if it has one; a variable that the user gave wins.

    The specification does not have it: a snapshot would ask for its value, and an actor could become no spare process.
    """
    if hash_seed is None:
        return ray_options
    runtime_env = ray_options.get("runtime_env") or {}
    variables = {"PYTHONHASHSEED": str(hash_seed), **(runtime_env.get("env_vars") or {})}
    return {**ray_options, "runtime_env": {**runtime_env, "env_vars": variables}}


def _made(
    host: type,
    class_name: str,
    ray_name: str,
    ray_options: Mapping[str, Any],
    told: Any,
    calls_at_once: int = CALLS_AT_ONCE,
) -> Any:
    """A process of this class. Ray never starts it again, as that would lose the state.

    A call that waits for one of its arguments does not delay later calls.
    """
    groups = {**GROUPS, "calls": calls_at_once}
    return door.make(_named(host, class_name.rpartition(".")[2]), groups, ray_name, told, **ray_options)


@cache
def _named(host: type, class_name: str) -> type:
    """The class under the name of the user's, so that Ray's displays show it."""
    return type(class_name, (host,), {})
