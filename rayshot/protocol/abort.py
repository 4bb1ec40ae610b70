"""Why a snapshot ended without a commit: a closed set."""

from enum import Enum


class AbortReason(Enum):
    """The one reason for an aborted snapshot; the values are stable names for scripts and logs."""

    REQUESTED = "requested"
    """Somebody asked for the abort."""
    TIMEOUT = "timeout"
    """The snapshot was not complete at its deadline."""
    CAPTURE_FAILED = "capture_failed"
    """A process could not capture its state."""
    DOES_NOT_LOAD = "does_not_load"
    """A state was captured, but it cannot be loaded again: a restore would fail."""
    TOO_MUCH_IN_FLIGHT = "too_much_in_flight"
    """A process would have had to record more bytes of messages in flight than its limit allows."""
    OBJECT_MISSING = "object_missing"
    """A state or a message refers to an object or an actor that is not available, or not before the deadline."""
    ACTOR_DIED = "actor_died"
    """A process died before the snapshot was stored."""
    INCONSISTENT = "inconsistent"
    """The records contradict each other: a defect of rayshot, never committed."""
    STORE_UNAVAILABLE = "store_unavailable"
    """The bytes could not be written."""
    KEYS_MISSING = "keys_missing"
    """The coordinator was restarted, and nobody had the keys that it needs for signing and encryption."""
    FENCED = "fenced"
    """Another coordinator took over the system."""
    COORDINATOR_LOST = "coordinator_lost"
    """The coordinator that collected the snapshot died."""
    DEFECT = "defect"
    """An unexpected exception; the coordinator's log has the traceback."""
