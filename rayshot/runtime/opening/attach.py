"""`rayshot.attach`: find a running system by its name. This module begins no system and reads no storage."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from rayshot.errors import ClusterUnreachable, ConfigError, NotReady, RayshotError, SystemNotFound, SystemStopped
from rayshot.protocol.identity import check_name
from rayshot.runtime.door import door
from rayshot.runtime.door.cluster import connect
from rayshot.runtime.door.naming import find_coordinator, running_systems
from rayshot.runtime.driver.enrolment import check_label
from rayshot.runtime.opening.init import attach_to
from rayshot.runtime.opening.shape import in_one_shape
from rayshot.runtime.opening.start import check_no_actor, identify
from rayshot.runtime.opening.system import System
from rayshot.runtime.wire.answers import SILENT_S
from rayshot.runtime.wire.initiation import some_names
from rayshot.runtime.wire.states import STOPPED

if TYPE_CHECKING:
    from rayshot.runtime.wire.host_identity import HostIdentity

LOOK_S = 5.0
"""Seconds that each system has to answer when several systems are asked, or when the caller is in a hurry."""


class Found(NamedTuple):
    """A system with a coordinator in this cluster. `life` and `storage` are None if the coordinator does not answer."""

    name: str
    state: str
    life: int | None
    storage: str | None


@in_one_shape
def attach(name: str | None = None, *, address: str | None = None, as_: str | None = None) -> System:
    """Attach to a running system, from any process of the cluster. Creates nothing, and needs no storage and no keys.

    Connects to Ray if this process is not connected, but never starts a cluster. Waits while another program begins or
    restores the system. In which system `Class.remote()` makes its actor from now on, `rayshot.init` says.

    Args:
        name: the system's name; None for the only system that runs in the cluster.
        address: host:port of a Ray head; None for the address in RAY_ADDRESS, else the only cluster of this machine.
        as_: a name under which this program is known in the system, such as "ingest-7", so that it can go on after its
            death where it was: when it attaches again, from any node, `system.told` says how many of its tells and
            calls each actor has for ever. Skip as many of what you send to that actor, and send the rest:

                system = rayshot.attach("bank", as_="ingest-7")
                book = system.get_actor("book")
                for line in lines[system.told.get("book", 0) :]:
                    book.add.tell(line)

            So each line counts once, if the program had the name from its first run on, and sends the same to each
            actor in the same order. A process that begins or restores the system has no name: only `attach` gives one,
            as the first thing that a process does with the system. Questions are calls, and count; the creation of an
            actor does not. Actors that have ended are not in `told`. What earlier processes told and no actor has is
            dropped, and a snapshot is taken, so this takes some time. A name is letters, digits, `_`, `.`, `-`, at most
            100 characters. A program that lives keeps its name.

    Raises:
        NameInUse: a program that lives is attached under the name `as_`, also after a minute.
        SnapshotAborted: with `as_`; the snapshot failed.
        SystemNotFound: no system of this name, or no system at all, runs in the cluster.
        ClusterUnreachable: no cluster answers at the address. ClusterRefused: the cluster refuses this program because
            of a wrong token, another version of Ray, Python or rayshot, or an address of Ray Client. Both come within
            ten seconds.
        ConfigError: several systems or several local clusters run and none was named; this process is connected to
            another cluster, or belongs to an actor; the name or the address is not valid. With `as_` also: it is not a
            name, this process is a driver of the system already, or it runs a plain task, and Ray keeps it for others.
        NotReady: with `as_`; the system could not let the program in for 300 s: the message says why.
        NoAnswer: the system's coordinator does not answer. SystemRecovering: nor does it, as Ray starts it again.
    """
    check_no_actor()
    if name is not None:
        check_name(name, "a system")
    label = "" if as_ is None else check_label(as_)
    where = connect(address)
    with naming(where):
        found = find(name, where)
        return attach_to(found, find_coordinator(found), label=label)


def look(name: str, where: str, patience_s: float = SILENT_S) -> System:
    """As `attach`, but for reading only, and in any state of the system.

    The coordinator has `patience_s` seconds to answer, but at least LOOK_S and at most SILENT_S. Raises SystemNotFound,
    NoAnswer, SystemRecovering.
    """
    coordinator = find_coordinator(name)
    if coordinator is None:
        raise _not_found(name, where, running_systems())
    return System(identify(name, coordinator, min(SILENT_S, max(LOOK_S, patience_s))))


def find(name: str | None, where: str) -> str:
    """`name`, if this system runs in the cluster at `where`; for None the name of the only system there.

    Raises SystemNotFound, ConfigError.
    """
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
    """The state of each of these systems. If a coordinator does not answer, the state is "silent" or "gone"."""
    asked = {name: coordinator for name in names if (coordinator := find_coordinator(name)) is not None}
    states = {name: coordinator.state.remote() for name, coordinator in asked.items()}
    identities = {name: coordinator.identity.remote() for name, coordinator in asked.items()}
    refs = [*states.values(), *identities.values()]
    door.wait(refs, num_returns=len(refs), timeout=LOOK_S) if refs else None
    return [_found(name, states[name], identities[name]) for name in asked]


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Errors raised inside name the cluster. Ray's errors for a lost coordinator or cluster become rayshot's.

    The coordinator or the cluster may be lost for a moment or for good.
    """
    try:
        yield
    except RayshotError as error:
        if where not in error.message:
            raise type(error)(f"{error.message} (Ray cluster at {where})", **error.evidence) from error
        raise
    except door.Unavailable as error:
        raise NotReady(
            f"the system's coordinator died and is started anew in the Ray cluster at {where}: try again", address=where
        ) from error
    except door.NotReached as error:
        raise SystemStopped(
            f"the system's coordinator is gone in the Ray cluster at {where}: its program goes on with rayshot.resume",
            address=where,
        ) from error
    except door.CLUSTER_GONE as error:
        # A new head at the same address refuses programs that were connected to the old head.
        raise ClusterUnreachable(
            f"the Ray cluster at {where} that this program had joined is gone: call ray.shutdown(), and try again",
            address=where,
        ) from error


def _found(name: str, state: Any, identity: Any) -> Found:
    try:
        told: HostIdentity = door.get(identity, timeout=0)
        return Found(name, door.get(state, timeout=0), told.incarnation, told.storage)
    except door.TimedOut:
        return Found(name, "silent", None, None)
    except door.NotReached:
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
