"""Errors about actors that are gone: ours, and Ray's too, so that a program catches them as it does in plain Ray.

They have the names of ours, and so their kinds. What catches Ray's errors in here must let them pass. A method that
returns one lets `ray.get` raise it as it is.
"""

from typing import Any

import ray

from rayshot import errors


class ActorExited(errors.ActorExited, ray.exceptions.ActorDiedError):  # type: ignore[misc]  # both have attributes of an error
    """See `rayshot.errors`. `cause` is the exception of the constructor that raised, if that is why; else None."""

    def __init__(self, message: str, **evidence: Any) -> None:
        _begin(self, message, evidence)
        self.cause = self.__cause__ = evidence.get("cause")


class ActorDied(errors.ActorDied, ray.exceptions.ActorDiedError):  # type: ignore[misc]  # as above
    """See `rayshot.errors`."""

    def __init__(self, message: str, **evidence: Any) -> None:
        _begin(self, message, evidence)


def _begin(error: Any, message: str, evidence: dict[str, Any]) -> None:
    """As both base classes would, of which one wants a record of Ray's."""
    ray.exceptions.RayActorError.__init__(error, None, message)
    error.message, error.evidence = message, evidence


def as_rays(error: errors.ActorExited) -> ActorExited:
    """The same error as one of Ray's too."""
    return error if isinstance(error, ActorExited) else ActorExited(error.message, **error.evidence)
