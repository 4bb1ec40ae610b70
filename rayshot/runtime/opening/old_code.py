"""Who attaches to a system that runs, with classes that were changed since, learns that their actors run the old code.

A new version of a class comes into a system by a restart or a restore, and never by itself.
"""

import logging
import sys
from collections.abc import Iterable
from itertools import islice

from rayshot.model.specification import user_class_of
from rayshot.runtime.door import door
from rayshot.runtime.wire.class_code import digest_of_code
from rayshot.runtime.wire.host_identity import ActorOffer, HostIdentity
from rayshot.runtime.wire.initiation import some_names

log = logging.getLogger("rayshot")
ASKED_MAX = 100
"""So many actors are asked at most: those of one class seldom have different code."""
WITHIN_S = 2.0
"""An actor that has not answered by then is not waited for."""


def warn_of_old_code(identity: HostIdentity) -> None:
    """Log a warning for each class of this program that has other code than the system's actors of it.

    A class that this program has not, or has not imported, is left out. If the system is not to be reached now, whoever
    uses it learns that there.
    """
    try:
        hosts = door.get(identity.coordinator.actors.remote(), timeout=WITHIN_S)
        asked = {name: host.hello.remote() for name, host in islice(sorted(hosts.items()), ASKED_MAX)}
        refs = list(asked.values())
        ready, _ = door.wait(refs, num_returns=len(refs), timeout=WITHIN_S) if refs else ([], [])
    except (door.CallFailed, door.TimedOut):
        return
    old: dict[str, list[str]] = {}
    for name, ref in asked.items():
        code = _code(ref) if ref in ready else None
        if code is not None and _is_other(*code):
            old.setdefault(code[1], []).append(name)
    for qualified, names in old.items():
        log.warning(
            "system %r runs with another code of class %s than this program has: %s. Its actors go on with theirs. "
            "system.restart() stops the system with a savepoint and goes on from it with this program's code",
            identity.system,
            qualified,
            some_names(names),
        )


def _code(ref: object) -> tuple[str, str, str] | None:
    """What the answer of an actor says of its class; None from one that died, or is not born yet."""
    try:
        offer = door.get(ref)
    except door.CallFailed:
        return None
    assert offer is None or isinstance(offer, ActorOffer)
    return None if offer is None else offer.code


def _is_other(module: str, qualified: str, digest: str) -> bool:
    """Whether this program has that class, with other code."""
    found = _loaded(module, qualified.split("."))
    return found is not None and digest_of_code(found) != digest


def _loaded(module: str, path: Iterable[str]) -> type | None:
    """The user's class of that name, if its module is loaded: nothing is imported for this."""
    found: object = sys.modules.get(module)
    for name in path:
        found = getattr(found, name, None)
    return user_class_of(found)
