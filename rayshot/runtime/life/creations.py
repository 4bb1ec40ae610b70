"""The actors that a driver made and whose creations it keeps."""

from collections.abc import Collection, Mapping

from rayshot.model.specification import ActorSpecification


class Creations:
    """Each is message 1 to its actor. Call everything except `in` under the lock.

    If the system goes back to a snapshot without such an actor, the driver makes it again.
    """

    def __init__(self) -> None:
        self._made: dict[str, ActorSpecification] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._made

    def add(self, name: str, specification: ActorSpecification) -> None:
        """An actor was made."""
        self._made[name] = specification

    def without(self, sent: Mapping[str, int], ended: Collection[str]) -> dict[str, ActorSpecification]:
        """The actors that a cut does not hold, in the order in which they were made.

        The cut has the driver's messages up to these numbers, and these actors have ended in it.
        """
        return {name: made for name, made in self._made.items() if sent.get(name, 0) == 0 and name not in ended}

    def forget(self, name: str) -> None:
        """Nobody can need this creation again."""
        self._made.pop(name, None)
