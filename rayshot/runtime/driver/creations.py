"""The actors that a driver made: whose constructors have not returned, and whose creations it keeps."""

from collections.abc import Collection

from rayshot.model.specification import ActorSpecification


class Creations:
    """See the module.

    A creation is message 1 to its actor. The driver keeps it, and makes the actor again if the system goes back to a
    snapshot without it; the machine says which these are. It gives up an actor that waits for room, so it waits for it
    only once.
    """

    def __init__(self) -> None:
        self._retained: dict[str, ActorSpecification] = {}
        self._unborn: set[str] = set()
        self.given_up: frozenset[str] = frozenset()
        """The actors that the driver waited for in vain, and has not heard of since."""

    def __contains__(self, name: object) -> bool:
        """Whether the creation of this actor is kept."""
        return name in self._retained

    def __getitem__(self, name: str) -> ActorSpecification:
        """What the actor was made from."""
        return self._retained[name]

    def add(self, name: str, specification: ActorSpecification) -> None:
        """An actor is being made, in this life for the first time."""
        self._retained[name] = specification
        self._unborn.add(name)

    def started(self, name: str) -> None:
        """The actor's process runs, so the actor has its place: the driver waits for it again."""
        self.given_up -= {name}

    def constructed(self, name: str) -> None:
        """Its constructor has returned, or never will."""
        self._unborn.discard(name)

    def ended(self, name: str) -> None:
        """The actor has ended in this life."""
        self.constructed(name)
        self.given_up -= {name}

    def give_up(self, names: Collection[str]) -> None:
        """Wait for these no more, unless their processes start after all."""
        self.given_up |= set(names)

    def forget(self, name: str) -> None:
        """Nobody can need this creation again."""
        self._retained.pop(name, None)

    @property
    def awaited(self) -> set[str]:
        """All actors that are neither constructed nor given up."""
        return set(self._unborn) - self.given_up
