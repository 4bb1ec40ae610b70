"""Orders: what a coordinator tells the hosts of its life.

Ray may take a coordinator for dead that is only cut off, and start another one. The first one goes on until the storage
refuses it. So each order says who gave it, and a host that has heard of a later coordinator drops the orders of earlier
ones: otherwise a coordinator that was replaced could stop a system that is whole. It can still begin a snapshot with
`Host.record`, which the storage refuses.

Ray repeats an order that is lost on its way. Each says a fact that stays true, so a second time changes nothing.
"""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar

import ray

from rayshot.runtime.wire.answers import UNTIL_ANSWERED

H = TypeVar("H", bound="Obedient")
P = ParamSpec("P")
R = TypeVar("R")


class Issuer(NamedTuple):
    """Who gives an order: a coordinator of this life. `term` is the position of its EPOCH in the log.

    So a later coordinator has a higher term, be it of the same life or of another one.
    """

    life: int
    term: int


class Obedient(Protocol):
    """A host."""

    def obeys(self, issuer: Issuer) -> bool:
        """Whether the issuer is the latest coordinator of this life that the host has heard of. The host notes it."""


def order(method: Callable[Concatenate[H, P], R]) -> Callable[Concatenate[H, Issuer, P], R | None]:
    """Mark a method of a host as an order. Callers give the issuer first; the host returns None if it does not obey."""

    @wraps(method)
    def obeyed(host: H, issuer: Issuer, *args: P.args, **kwargs: P.kwargs) -> R | None:
        return method(host, *args, **kwargs) if host.obeys(issuer) else None

    del obeyed.__wrapped__  # Ray must read this signature, which has the issuer
    marked: Callable[Concatenate[H, Issuer, P], R | None] = ray.method(
        concurrency_group="control", max_task_retries=UNTIL_ANSWERED
    )(obeyed)
    return marked
