"""How commands reach a running system: the cluster, the name, errors on the way, and a quiet terminal."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf, isnan
from typing import TYPE_CHECKING, Any

import click

from rayshot.errors import ClusterUnreachable, NotReady, SystemStopped

if TYPE_CHECKING:
    from rayshot.runtime.opening.system import System


class Seconds(click.FloatRange):
    """A number of seconds, from 0 to inf. NaN is refused: it is below no bound, so a wait for it would never end."""

    def __init__(self) -> None:
        super().__init__(min=0)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """See click."""
        found = super().convert(value, param, ctx)
        return self.fail(f"{value!r} is not a number of seconds.", param, ctx) if isnan(found) else found


def address_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the option `--address`."""
    return click.option(
        "--address",
        metavar="HOST:PORT",
        envvar="RAY_ADDRESS",
        help="A head of the Ray cluster; if left out, RAY_ADDRESS, or else the only cluster of this machine.",
    )(command)


def name_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the argument NAME, the system; if left out: RAYSHOT_SYSTEM, or the only system."""
    return click.argument("name", required=False, envvar="RAYSHOT_SYSTEM")(command)


@contextmanager
def cluster(address: str | None) -> Iterator[str]:
    """Stay connected to the cluster; yields its address, which every error inside names."""
    keep_terminal()
    from rayshot.runtime.door.cluster import connect, disconnect  # noqa: PLC0415 - commands that read a storage need no Ray
    from rayshot.runtime.opening.attach import naming  # noqa: PLC0415

    try:
        where = connect(address, quietly=True)
        with naming(where):
            yield where
    except ClusterUnreachable:
        disconnect()  # another cluster may take its place
        raise


@contextmanager
def system(name: str | None, address: str | None, patience_s: float = inf) -> Iterator[tuple["System", str]]:
    """Attach to a system in any state, for one command; yields the system and the cluster's address.

    If the system does not answer, a caller learns this after `patience_s`, or little later.
    """
    with cluster(address) as where:
        from rayshot.runtime.opening.attach import find, look  # noqa: PLC0415

        yield look(find(name, where), where, patience_s), where


def check_running(reached: "System") -> None:
    """Raise SystemDown if the system is stopped, NotReady if it begins or is being restored."""
    status = reached.status()
    if status.state == "stopped":
        raise SystemStopped(status.detail, system=reached.name)
    if status.state != "running":
        raise NotReady(
            f"system {reached.name!r} is {status.state}: wait with `rayshot status {reached.name} --wait running`"
        )


def keep_terminal() -> None:
    """Let only this program's own prints reach stderr: Ray's libraries write to the file descriptor by themselves.

    If a program starts without stderr, Ray would refuse to work, and its libraries would write into the file that is
    opened next.
    """
    if sys.stderr is None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        if nowhere != 2:  # noqa: PLR2004 - that of stderr
            os.dup2(nowhere, 2)
            os.close(nowhere)
        sys.stderr = os.fdopen(2, "w")
    try:
        if sys.stderr.fileno() != 2:  # noqa: PLR2004 - that of stderr
            return
        own, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    except (OSError, ValueError, AttributeError):  # it is closed, or not a file
        return
    sys.stderr.flush()
    os.dup2(nowhere, 2)
    os.close(nowhere)
    sys.stderr = os.fdopen(own, "w", buffering=1, errors="backslashreplace")
