"""`rayshot.attach`: systems that run, found by name. Nothing is begun here, and no storage is asked."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import ray

from rayshot.errors import ClusterUnreachable, ConfigError, NotReady, RayshotError, SystemNotFound, SystemStopped
from rayshot.protocol.identity import check_name
from rayshot.runtime.life.starting import attach_to, check_no_actor, identify
from rayshot.runtime.life.system import System
from rayshot.runtime.ray.cluster import connect
from rayshot.runtime.ray.naming import find_coordinator, running_systems
from rayshot.runtime.wire.answers import SILENT_S
from rayshot.runtime.wire.initiation import some_names
from rayshot.runtime.wire.states import STOPPED

if TYPE_CHECKING:
    from rayshot.runtime.wire.host_identity import HostIdentity

LOOK_S = 5.0
"""Where several systems are asked, or somebody is in a hurry, each has so long to say how it is."""


class Found(NamedTuple):
    """A system that has a coordinator in this cluster. `life` and `storage` are None where that does not answer."""

    name: str
    state: str
    life: int | None
    storage: str | None


def attach(name: str | None = None, address: str | None = None) -> System:
    """Attach to a system that runs, from any process of the cluster. Creates nothing, and needs no storage, no keys.

    Connects to Ray where nobody has, and never starts a cluster. Waits while another program begins or restores the
    system. Actors that this driver makes from now on belong to it, as after `rayshot.init`.

    Args:
        name: which; None for the only one that runs in the cluster.
        address: host:port of a Ray head; None for that of RAY_ADDRESS, else the only cluster of this machine.

    Raises:
        SystemNotFound: no such system, or none, runs in the cluster.
        ClusterUnreachable: no cluster is there; ClusterRefused where it refuses this program: a wrong token, another
            version of Ray, Python or rayshot, an address of Ray Client. Within ten seconds.
        ConfigError: several systems or several local clusters run and none was named; this process is connected to
            another cluster, or is an actor's; a name or an address that cannot be.
        NoAnswer: the system's coordinator says nothing.
    """
    check_no_actor()
    if name is not None:
        check_name(name, "a system")
    where = connect(address)
    with naming(where):
        found = find(name, where)
        return attach_to(found, find_coordinator(found))


def look(name: str, where: str, patience_s: float = SILENT_S) -> System:
    """As `attach`, in whatever state the system is: for whoever only looks. Raises SystemNotFound, NoAnswer.

    That within `patience_s`, but a coordinator has LOOK_S to answer in any case, and never more than SILENT_S.
    """
    coordinator = find_coordinator(name)
    if coordinator is None:
        raise _not_found(name, where, running_systems())
    return System(identify(name, coordinator, min(SILENT_S, max(LOOK_S, patience_s))))


def find(name: str | None, where: str) -> str:
    """The name of a system in the cluster at `where`: this one, or the only one. Raises SystemNotFound, ConfigError."""
    names = running_systems()
    if name in names:
        return name
    if name is not None or not names:
        raise _not_found(name, where, names)
    if len(names) == 1:
        return names[0]
    systems = list_systems(names)
    living = [one.name for one in systems if one.state != STOPPED]
    if len(living) == 1:
        return living[0]
    raise ConfigError(f"several systems run in the Ray cluster at {where}: {_described(systems)}. Name one of them")


def list_systems(names: Iterable[str]) -> list[Found]:
    """How each of these systems is; of one that does not answer the state is "silent", or "gone"."""
    asked = {name: coordinator for name in names if (coordinator := find_coordinator(name)) is not None}
    states = {name: coordinator.state.remote() for name, coordinator in asked.items()}
    identities = {name: coordinator.identity.remote() for name, coordinator in asked.items()}
    refs = [*states.values(), *identities.values()]
    ray.wait(refs, num_returns=len(refs), timeout=LOOK_S) if refs else None
    return [_found(name, states[name], identities[name]) for name in asked]


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Errors inside name the cluster; a coordinator or a cluster that is gone, for a moment or for good, is ours."""
    try:
        yield
    except RayshotError as error:
        if where not in error.message:
            raise type(error)(f"{error.message} (Ray cluster at {where})", **error.evidence) from error
        raise
    except ray.exceptions.ActorUnavailableError as error:
        raise NotReady(
            f"the system's coordinator died and is started anew in the Ray cluster at {where}: try again", address=where
        ) from error
    except ray.exceptions.RayActorError as error:
        raise SystemStopped(
            f"the system's coordinator is gone in the Ray cluster at {where}: its program goes on with rayshot.resume",
            address=where,
        ) from error
    except (ray.exceptions.AuthenticationError, ray.exceptions.RpcError) as error:
        # A head that is replaced at its address refuses whoever was connected to the one before.
        raise ClusterUnreachable(
            f"the Ray cluster at {where} that this program had joined is gone: call ray.shutdown(), and try again",
            address=where,
        ) from error


def _found(name: str, state: Any, identity: Any) -> Found:
    try:
        told: HostIdentity = ray.get(identity, timeout=0)
        return Found(name, ray.get(state, timeout=0), told.incarnation, told.storage)
    except ray.exceptions.GetTimeoutError:
        return Found(name, "silent", None, None)
    except ray.exceptions.RayActorError:
        return Found(name, "gone", None, None)


def _not_found(name: str | None, where: str, names: list[str]) -> SystemNotFound:
    there = f"; there run {some_names(names)}" if names else ", and no other one" if name is not None else ""
    which = "no system" if name is None else f"no system {name!r}"
    return SystemNotFound(
        f"{which} runs in the Ray cluster at {where}{there}. A program that calls rayshot.resume begins one",
        address=where,
        systems=names,
    )


def _described(systems: list[Found]) -> str:
    return ", ".join(f"{one.name} ({one.state})" for one in systems)
