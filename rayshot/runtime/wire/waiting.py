"""Who waits for whom, in words."""

from collections.abc import Iterable, Mapping
from typing import Any

SAID_MAX = 8
"""A text names so many actors at most."""


def tell_chain(names: Iterable[str], statuses: Mapping[str, Mapping[str, Any]]) -> str:
    """What keeps these actors, and those for which they wait, and so on. `statuses` has answers of `Host.status`."""
    told: dict[str, str] = {}
    to_tell = [*names]
    while to_tell:
        name = to_tell.pop(0)
        if name not in told:
            status = statuses.get(name)
            told[name] = f"{name!r} does not say what it does" if status is None else _tell(name, status)
            to_tell.extend(() if status is None else status["waits_for"])
    more = f"; and {len(told) - SAID_MAX} more" if len(told) > SAID_MAX else ""
    return "; ".join([*told.values()][:SAID_MAX]) + more


def _tell(name: str, status: Mapping[str, Any]) -> str:
    if status["waits_for"]:
        at = f" ({status['waits_at']})" if status["waits_at"] else ""
        callees = ", ".join(map(repr, status["waits_for"]))
        return f"{status['handler']} of {name!r}{at} has waited for {callees} for {status['waits_s']:.0f} s"
    if status["handler"]:
        return f"{status['handler']} of {name!r} runs"
    waiting = f", and {status['mailbox']} messages wait there" if status["mailbox"] else ""
    return f"{name!r} handles nothing{waiting}"
