"""Orders: what a coordinator tells the hosts of its life.

Ray may take a coordinator for dead that is only cut off, and start another one. The first one goes on until the storage
refuses it. So each order says who gave it, and a host that has heard of a later coordinator drops the orders of earlier
ones: otherwise a coordinator that was replaced could stop a system that is whole. It can still begin a snapshot with
`Host.record`, which the storage refuses.

Ray repeats an order that is lost on its way. Each says a fact that stays true, so a second time changes nothing.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar, cast

from rayshot.runtime.door import door

H = TypeVar("H", bound="Obedient")
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Issuer(NamedTuple):
    """Who gives an order: a coordinator of this life. `term` is the position of its EPOCH in the log.

    So a later coordinator has a higher term, be it of the same life or of another one.
    """

    life: int
    term: int


class Obedient(Protocol):
    """A host."""

    def obeys(self, issuer: Issuer) -> Any | None:
        """What the host is in the issuer's life, if it is in that life and has heard of no later coordinator.

        The host notes the issuer. The order must change only what this returns: the host may be loaded anew meanwhile,
        and then it is something else in another life.
        """


def order(method: Callable[Concatenate[H, T, P], R]) -> Callable[Concatenate[H, Issuer, P], R | None]:
    """Mark a method of a host as an order. It gets what `obeys` returned.

    Callers give the issuer instead; the host returns None if it does not obey.
    """

    @wraps(method)
    def obeyed(host: H, issuer: Issuer, *args: P.args, **kwargs: P.kwargs) -> R | None:
        obedient = host.obeys(issuer)
        return None if obedient is None else method(host, obedient, *args, **kwargs)

    del obeyed.__wrapped__  # Ray must read this signature, which has the issuer
    return cast("Callable[Concatenate[H, Issuer, P], R | None]", door.method("control", again=True)(obeyed))
