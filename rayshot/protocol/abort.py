"""Why a snapshot ended without a commit: a closed set."""

from enum import Enum


class AbortReason(Enum):
    """The one reason of an aborted snapshot; the values are stable names for scripts and logs."""

    REQUESTED = "requested"
    """Somebody asked for it."""
    TIMEOUT = "timeout"
    """Not complete at its deadline."""
    CAPTURE_FAILED = "capture_failed"
    """A process could not capture its state."""
    TOO_MUCH_IN_FLIGHT = "too_much_in_flight"
    """A process would have had to record more bytes of messages in flight than it may."""
    OBJECT_MISSING = "object_missing"
    """What a state or a message refers to, an object or an actor, is not to be had, or not before the deadline."""
    ACTOR_DIED = "actor_died"
    """A process died before the snapshot was stored."""
    INCONSISTENT = "inconsistent"
    """The records contradict each other: a defect of rayshot, never committed."""
    STORE_UNAVAILABLE = "store_unavailable"
    """The bytes could not be written."""
    KEYS_MISSING = "keys_missing"
    """The coordinator was started anew, and nobody had the keys for it that sign and encrypt."""
    FENCED = "fenced"
    """Another coordinator took the system over."""
    COORDINATOR_LOST = "coordinator_lost"
    """The coordinator that collected it died."""
    DEFECT = "defect"
    """Something raised that should not; the coordinator's log has the traceback."""
