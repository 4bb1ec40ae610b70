"""One tree of errors, grouped by what the one who catches it can do.

Every error has a stable `kind` (a name for scripts and logs that outlives changes of wording), a message that says
what happened, to what and what to do next, and `evidence`: the facts as keyword arguments. Errors cross process
borders, so each one survives pickling with its evidence.
"""

from typing import Any, ClassVar


class RayshotError(Exception):
    """Root of all errors that rayshot raises on purpose."""

    kind: ClassVar[str] = "error"

    def __init__(self, message: str, **evidence: Any) -> None:
        super().__init__(message)
        self.message = message
        self.evidence = evidence

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.evidence)

    def __init_subclass__(cls) -> None:
        # The kind follows from the name, so that no two classes can share one by a slip of the pen.
        cls.kind = "".join(f"_{c.lower()}" if c.isupper() else c for c in cls.__name__).lstrip("_")


def _rebuild(cls: type[RayshotError], message: str, evidence: dict[str, Any]) -> RayshotError:
    return cls(message, **evidence)


# Mend the program or its configuration; trying again will not help. ----------------------------------------------


class UsageError(RayshotError):
    """The call or the configuration is wrong."""


class ConfigError(UsageError):
    """A name, URL, option or combination of options that cannot work."""


class UnsupportedVersion(UsageError):
    """A library that rayshot stands on is of a version that it does not know."""


class NameTaken(ConfigError, ValueError):
    """The system has an actor of that name already. Also a ValueError, as in Ray."""


class SnapshotsExist(ConfigError):
    """A system would begin anew where there are snapshots of it; `evidence["snapshot"]` is the latest."""


class Incomparable(ConfigError):
    """Two snapshots, neither of which leads to the other in one life; `evidence["actors_back"]` would go back."""


class NotStable(ConfigError):
    """A predicate that nobody declared stable: a snapshot says nothing about what it is later."""


class LivesElsewhere(ConfigError):
    """A life of the system has said a moment ago that it runs; `evidence["seconds_left"]` until it counts as dead."""


class ForeignLake(ConfigError):
    """A pipeline's destination holds what it did not write: another system or storage, named in `evidence`."""


class LakeInUse(ConfigError):
    """Another pipeline writes into the same destination."""


class NameOfSystem(ConfigError, ValueError):
    """`ray.get_actor` was asked for an actor of a system. Also a ValueError, by which Ray knows a free name."""


class StaleHandle(UsageError):
    """A handle of another system, or of an earlier life of this one."""


class UnknownMethod(UsageError, AttributeError):
    """The actor's class has no such method. Also an AttributeError, so that `hasattr(handle, name)` answers."""


class WrongArguments(UsageError, TypeError):
    """A method, or a constructor, does not take these arguments; nothing was sent. Also a TypeError, as in Ray."""


class ActorExited(UsageError):
    """The actor ended by its own wish; what is sent to it has no receiver."""


class NotAnObjectRef(UsageError):
    """A `Reply` was used as if it were an ObjectRef; register a continuation with `.then`."""


class OutsideHandler(UsageError):
    """`rayshot.current()`, or a reply's `then`, was asked for outside a handler."""


class TaskLeftBehind(UsageError):
    """A handler returned while a task that it had started went on; the task was cancelled."""


class WaitsForHandler(UsageError):
    """A handler waited for what only another handler of its actor could bring, and these run one at a time."""


class PredicateFailed(UsageError):
    """A predicate over a snapshot raised, or gave no answer; its own exception is the cause of this one."""


class StateNotSerializable(UsageError):
    """An actor's state cannot be captured; the message holds the path to the culprit."""


class MessageNotSerializable(UsageError):
    """The arguments of a message cannot be serialised; nothing was sent."""


class MessageTooLarge(UsageError):
    """A message is over the limit; nothing was sent."""


class KeysMissing(UsageError):
    """The coordinator was started anew and has not the keys that sign and encrypt; attach with a program that has."""


class EncryptionKeyNeeded(UsageError):
    """A snapshot is encrypted with a key that this reader does not hold; `evidence["key_id"]` says which."""


# What was asked for is not there. ---------------------------------------------------------------------------------


class NotFound(RayshotError):
    """What was asked for does not exist; the message lists what does."""


class SystemNotFound(NotFound):
    """The storage holds no such system, or none runs in the cluster."""


class SnapshotNotFound(NotFound):
    """The system has no such snapshot."""


class SnapshotDeleted(SnapshotNotFound):
    """The snapshot was there and was deleted."""


class ActorNotFound(NotFound, ValueError):
    """The system has no such actor. Also a ValueError, as in Ray."""


# Do not trust these bytes. ----------------------------------------------------------------------------------------


class Untrusted(RayshotError):
    """The bytes are intact, but not signed by a trusted key."""


class BadSignature(Untrusted):
    """The signature does not fit the bytes."""


class UnknownKey(Untrusted):
    """Signed with a key that this reader does not hold."""


class Unsigned(Untrusted):
    """Not signed at all."""


class SnapshotMismatch(Untrusted):
    """A valid signature of another system, snapshot or log position."""


class RolledBack(Untrusted):
    """The storage is older than its reader knows it to be, or the snapshot that was asked for is."""


# These bytes are damaged; take another snapshot. ------------------------------------------------------------------


class Damaged(RayshotError):
    """Stored bytes are not what was written."""

    def inside(self, what: str, **evidence: Any) -> "Damaged":
        """The same error, which also says of what these bytes were a part."""
        return type(self)(f"{what}: {self.message}", **{**evidence, **self.evidence})


class BadManifest(Damaged):
    """A manifest or log record cannot be read or contradicts itself."""


class LogLost(BadManifest):
    """Records of a commit log are gone, and what was written after them is there."""


class BadState(Damaged):
    """A state or a message is not a pickle that could have been written."""


class CorruptChunk(Damaged):
    """A chunk's bytes do not fit its digest or its size."""


class MissingChunk(Damaged):
    """A chunk that a committed manifest names is not in the store."""


class InconsistentCut(Damaged):
    """The cut equation does not hold on a channel."""


class LimitExceeded(Damaged):
    """A size or count read from bytes is above its bound."""


class UnsafePath(Damaged):
    """A key would lead out of the storage folder, or to what is not a file in it."""


# Sound bytes, but not for this program. ---------------------------------------------------------------------------


class Incompatible(RayshotError):
    """The snapshot is sound but this program cannot take it."""


class FormatTooNew(Incompatible):
    """Written by a newer rayshot."""


class CodeMismatch(Incompatible):
    """A class of the snapshot is not to be found in this program, or does not take what was recorded."""


class MigrationFailed(Incompatible):
    """A class's `migrate` did not bring a recorded state up to the class's version."""


class PythonMismatch(Incompatible):
    """The snapshot holds code by value, which only the minor version of Python that wrote it can read."""


# The storage failed; what was committed before is intact. ---------------------------------------------------------


class StoreError(RayshotError):
    """The storage did not do what was asked; whatever was committed before is intact."""


class AlreadyExists(StoreError):
    """The key exists and nothing was written."""


class KeyNotFound(StoreError):
    """The key does not exist."""


class StoreFull(StoreError):
    """No room left on the storage."""


class StoreUnavailable(StoreError):
    """The storage cannot be reached or refuses."""


class CommitUnknown(StoreError):
    """Whether the commit record was written cannot be found out now; the next start settles it."""


class PositionTaken(StoreError):
    """Another writer's record got the position in the log, and this writer may take the next."""


class IntentExpired(StoreError):
    """What was written took longer than garbage collection waits; it does not count and has to be written anew."""


class Fenced(StoreError):
    """A newer coordinator has taken this system over; this one must stop."""


# The snapshot was not taken; the application is unharmed. ---------------------------------------------------------


class SnapshotAborted(RayshotError):
    """A snapshot ended without a commit; `evidence["reason"]` is the value of an AbortReason."""


# The system is down; restore it. ----------------------------------------------------------------------------------


class SystemDown(RayshotError):
    """The system takes no messages any more."""


class ActorDied(SystemDown):
    """An actor's process died and with it the system's consistency; restore the last snapshot."""


class SystemStopped(SystemDown):
    """The system was shut down, or never started."""


class RestoreFailed(SystemDown):
    """A restore did not finish; everything it had started was taken down again."""


# There is no way to the cluster. ----------------------------------------------------------------------------------


class ClusterUnreachable(RayshotError):
    """No Ray cluster answers where one should run, or none that this program can join from here."""


class ClusterRefused(ClusterUnreachable):
    """A Ray cluster runs there, and will not have this program: its token, its versions, its kind of address."""


# Look again: nobody knows what was done. --------------------------------------------------------------------------


class NotReady(RayshotError):
    """The system is not there yet: it begins, is being restored, or its coordinator is being started anew."""


class NoAnswer(RayshotError):
    """A process that should live, of a system or of Spark, has not answered in time, or is gone."""


# A simulated run. --------------------------------------------------------------------------------------------------


class StepsExhausted(UsageError):
    """A simulated world went on for as many events as it may."""


class ScheduleFailed(RayshotError, AssertionError):
    """What a test says of its actors does not hold in one schedule; `evidence` has its seed and choices."""


# What a program should know, and can go on. ------------------------------------------------------------------------


class HandlersTakeTurns(UserWarning):
    """A class has async handlers, and rayshot runs each of them to its end before the next one begins."""
