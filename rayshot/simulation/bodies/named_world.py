"""Names of actors in worlds: worlds have no unique names, so a handle belongs to the world of its port."""

from typing import Protocol

from rayshot.errors import StaleHandle
from rayshot.model.handle import ActorHandle


class NamedWorld(Protocol):
    """The world that a handle is compared with."""

    system: str


def name_in(handle: ActorHandle, world: NamedWorld) -> str:
    """The name of an actor of `world`. Raises StaleHandle if it belongs to another world, even one of the same name."""
    port = handle._port  # noqa: SLF001 - worlds have no unique names, so the port decides
    if port is not None and getattr(port, "world", None) is not world:
        raise StaleHandle(
            f"{handle!r} belongs to another world; channels do not cross worlds: use get_actor({handle.name!r}) of "
            "this one",
            handle=repr(handle),
        )
    return handle.name_in(world.system)
