"""Errors about actors that are gone. They are rayshot's and Ray's, so programs catch them as in plain Ray.

They have the names and the kinds of rayshot's errors. Code in rayshot that catches Ray's errors must let them pass. If
a method returns one, `ray.get` raises it as it is. Snapshots have them by name, as answers: keep them here.
"""

from typing import Any

from rayshot import errors
from rayshot.runtime.door import door


class ActorExited(errors.ActorExited, door.Died):  # type: ignore[misc]  # both have attributes of an error
    """See `rayshot.errors`. `cause` is the exception of the constructor if that is the reason, else None."""

    def __init__(self, message: str, **evidence: Any) -> None:
        _begin(self, message, evidence)
        self.cause = self.__cause__ = evidence.get("cause")


class ActorDied(errors.ActorDied, door.Died):  # type: ignore[misc]  # as above
    """See `rayshot.errors`."""

    def __init__(self, message: str, **evidence: Any) -> None:
        _begin(self, message, evidence)


def _begin(error: Any, message: str, evidence: dict[str, Any]) -> None:
    """Do what the constructors of both base classes do; one of them would need a record of Ray's."""
    door.NotReached.__init__(error, None, message)
    error.message, error.evidence = message, evidence


def as_rays(error: errors.ActorExited) -> ActorExited:
    """The same error in the class that is also Ray's."""
    return error if isinstance(error, ActorExited) else ActorExited(error.message, **error.evidence)
