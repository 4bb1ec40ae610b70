"""The actors that a driver made and that no durable snapshot holds."""

from collections.abc import Collection, Mapping

from rayshot.model.specification import ActorSpecification


class Creations:
    """They are made again if the system goes back to a snapshot without them. Call everything under the lock."""

    def __init__(self) -> None:
        self._made: dict[str, ActorSpecification] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._made

    def add(self, name: str, specification: ActorSpecification) -> None:
        """An actor was made."""
        self._made[name] = specification

    def without(self, sent: Mapping[str, int], ended: Collection[str]) -> dict[str, ActorSpecification]:
        """The actors that a cut does not hold, in the order in which they were made.

        The cut has the driver's messages up to these numbers: message 1 to an actor is its creation.
        """
        return {name: made for name, made in self._made.items() if sent.get(name, 0) == 0 and name not in ended}

    def covered(self, sent: Mapping[str, int], ended: Collection[str]) -> None:
        """A durable snapshot has the driver's messages up to these numbers, and these actors have ended in it."""
        self._made = self.without(sent, ended)
