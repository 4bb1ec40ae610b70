"""One tree of errors, grouped by what the catcher can do.

Every error has a stable `kind` (a name for scripts and logs that outlives changes of wording), a message that says
what happened, to what and what to do next, and `evidence`: the facts as keyword arguments. Errors cross process
borders, so each one survives pickling with its evidence.
"""

from typing import Any, ClassVar, Self


class RayshotError(Exception):
    """Root of all errors that rayshot raises on purpose."""

    kind: ClassVar[str] = "error"
    page: ClassVar[str] = "errors"
    """The place in the documentation that says what to do: `rayshot help` shows it."""

    def __init__(self, message: str, **evidence: Any) -> None:
        super().__init__(message)
        self.message = message
        self.evidence = evidence

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.evidence)

    @property
    def document(self) -> dict[str, Any]:
        """The error as JSON, in the place of a document that was asked for."""
        reason = {"reason": self.evidence["reason"]} if "reason" in self.evidence else {}
        return {"error": {"kind": self.kind, "message": self.message, **reason}}

    def anew(self) -> Self:
        """Another error that says the same: an error that is kept is raised so, again and again, and from any thread.

        Python hangs the frames through which an error passed onto it, with everything that their variables hold.
        """
        return type(self)(self.message, **self.evidence)

    def __init_subclass__(cls) -> None:
        # The kind follows from the name, so that no two classes can share one by a slip of the pen.
        cls.kind = "".join(f"_{c.lower()}" if c.isupper() else c for c in cls.__name__).lstrip("_")
        if cls.__module__ == __name__:  # a class elsewhere is one case of its base
            cls.page = f"errors#{cls.kind}"


def _rebuild(cls: type[RayshotError], message: str, evidence: dict[str, Any]) -> RayshotError:
    return cls(message, **evidence)


# Mend the program or its configuration; trying again will not help. ----------------------------------------------


class UsageError(RayshotError):
    """The call or the configuration is wrong."""


class ConfigError(UsageError):
    """A name, URL, option or combination of options that cannot work."""


class LoopNotRepeatable(ConfigError):
    """A method with `rayshot.loop` does what would be lost, or done twice, behind a restore: it begins anew there."""


class UnsupportedVersion(UsageError):
    """A library that rayshot needs is not installed, or in a version that it does not know; the message says which."""


class NameTaken(ConfigError, ValueError):
    """The system already has an actor with this name. Also a ValueError, as in Ray."""


class NameInUse(ConfigError):
    """A program that lives is attached to the system under this name."""


class SnapshotsExist(ConfigError):
    """The storage already holds snapshots of the system that should begin; `evidence["snapshot"]` is the latest."""


class Incomparable(ConfigError):
    """Neither of two snapshots comes before the other in one life; `evidence["actors_back"]` would go back."""


class NotStable(ConfigError):
    """The predicate is not declared stable, so a snapshot says nothing about its later value."""


class LivesElsewhere(ConfigError):
    """Another cluster runs the system; it counts as dead after `evidence["seconds_left"]` without a heartbeat."""


class ForeignLake(ConfigError):
    """A pipeline's destination holds tables of another system or storage, which `evidence` names."""


class LakeInUse(ConfigError):
    """Another pipeline writes into the same destination."""


class NameOfSystem(ConfigError, ValueError):
    """`ray.get_actor` got the name of a system's actor. Also a ValueError, which Ray takes for a free name."""


class StaleHandle(UsageError):
    """The handle belongs to another system or Ray cluster, or to an earlier life of this system."""


class UnknownMethod(UsageError, AttributeError):
    """The actor's class has no such method. Also an AttributeError, so that `hasattr(handle, name)` answers."""


class WrongArguments(UsageError, TypeError):
    """A method, or a constructor, does not take these arguments; nothing was sent. Also a TypeError, as in Ray."""


class ActorExited(UsageError):
    """The actor ended itself with `current().exit()`; it receives no more messages."""


class NotAnObjectRef(UsageError):
    """A `Reply` was used as if it were an ObjectRef; wait with `rayshot.get`, or register a continuation."""


class OutsideHandler(UsageError):
    """`rayshot.current()` was called, or a reply was asked for, outside a handler."""


class TaskLeftBehind(UsageError):
    """A handler returned before a task that it had started; the task was cancelled."""


class WaitsForHandler(UsageError):
    """A handler waited for another handler of the same actor, and an actor runs one handler at a time."""


class PredicateFailed(UsageError):
    """A predicate over a snapshot raised or gave no answer; its own exception is the cause of this error."""


class StateNotSerializable(UsageError):
    """An actor's state cannot be captured; the message holds the path to the attribute."""


class MessageNotSerializable(UsageError):
    """The arguments of a message cannot be serialised; rayshot sent nothing."""


class MessageTooLarge(UsageError):
    """A message is over the limit; rayshot sent nothing."""


class KeysMissing(UsageError):
    """The restarted coordinator lacks the keys that sign and encrypt; attach with a program that has them."""


class EncryptionKeyNeeded(UsageError):
    """A snapshot is encrypted with a key that this reader does not hold; `evidence["key_id"]` says which."""


# Something does not exist. ----------------------------------------------------------------------------------------


class NotFound(RayshotError):
    """Something with this name does not exist; the message lists what exists."""


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
    """The bytes are intact, but no trusted key signed them."""


class BadSignature(Untrusted):
    """The signature does not fit the bytes."""


class UnknownKey(Untrusted):
    """This reader does not hold the key that signed."""


class Unsigned(Untrusted):
    """The bytes are not signed."""


class SnapshotMismatch(Untrusted):
    """The signature is valid, and is of another system, snapshot or log position."""


class RolledBack(Untrusted):
    """The storage, or the wanted snapshot, is older than a position that the reader knows to be committed."""


# These bytes are damaged; find a whole snapshot. ------------------------------------------------------------------


class Damaged(RayshotError):
    """Stored bytes were changed or lost."""

    def inside(self, what: str, **evidence: Any) -> "Damaged":
        """The same error, with `what` in front: it says where these bytes belong."""
        return type(self)(f"{what}: {self.message}", **{**evidence, **self.evidence})


class BadManifest(Damaged):
    """A manifest or log record cannot be read or contradicts itself."""


class LogLost(BadManifest):
    """Records of a commit log are gone, but later objects exist."""


class BadState(Damaged):
    """A state or a message is not a pickle that rayshot writes."""


class CorruptChunk(Damaged):
    """A chunk's bytes do not fit its digest or its size."""


class MissingChunk(Damaged):
    """A chunk that a committed manifest names is not in the store."""


class CorruptFile(Damaged):
    """A file that an actor wrote for a snapshot does not fit its digest or its size."""


class MissingFile(Damaged):
    """A file that an actor wrote for a snapshot is not there."""


class InconsistentCut(Damaged):
    """The cut equation does not hold on a channel."""


class LimitExceeded(Damaged):
    """A size or count read from bytes is above its bound."""


class UnsafePath(Damaged):
    """A key would lead out of the storage folder, or not to a regular file."""


# Sound bytes, but not for this program. ---------------------------------------------------------------------------


class Incompatible(RayshotError):
    """The snapshot is sound, but this program cannot use it."""


class FormatTooNew(Incompatible):
    """A newer rayshot wrote it: install that version."""


class CodeMismatch(Incompatible):
    """This program lacks a class of the snapshot, or the class does not accept the recorded state."""


class OutsideRefused(CodeMismatch):
    """What a class needs from outside to take its recorded state, such as a database, did not answer: try again."""


class MigrationFailed(Incompatible):
    """A class's `migrate` did not migrate a recorded state to the class's version.

    Or the state has a method between two passes of its `rayshot.loop`, and the class has no such loop there; or it has
    handlers that wait, and `max_concurrency=1` has no place for them.
    """


class HookFailed(Incompatible):
    """A class's `on_restore` raised, so the actor cannot go on from the snapshot."""


class PythonMismatch(Incompatible):
    """The snapshot holds code by value. Only the minor version of Python that wrote it can read it."""


# The storage failed; what was committed before is intact. ---------------------------------------------------------


class StoreError(RayshotError):
    """The storage failed; all earlier commits are intact."""


class AlreadyExists(StoreError):
    """The key exists already; the call wrote nothing."""


class KeyNotFound(StoreError):
    """The key does not exist."""


class StoreFull(StoreError):
    """The storage is full."""


class StoreUnavailable(StoreError):
    """The storage cannot be reached, or refuses the call."""


class CommitUnknown(StoreError):
    """The commit record may or may not be written; the next start finds out."""


class PositionTaken(StoreError):
    """Another writer took this position in the log; this writer may take the next."""


class IntentExpired(StoreError):
    """A snapshot or copy took longer than garbage collection waits; it does not count. Write it again."""


class Fenced(StoreError):
    """A newer coordinator has taken over the system, so this coordinator must stop."""


# The snapshot was not taken; the application is unharmed. ---------------------------------------------------------


class SnapshotAborted(RayshotError):
    """A snapshot ended without a commit; `evidence["reason"]` is the value of an AbortReason."""


class OutsideFailed(SnapshotAborted):
    """An actor's `on_snapshot`, or the function that it returned, raised or gave what no manifest can hold."""


# What an actor's class fixes outside does not fit its state; trying again will not help. ---------------------------


class OutsideConflict(RayshotError):
    """What is outside, such as a table or an engine, does not fit the actor's state: a person must decide.

    A class may raise it in its hooks. Then the system stops, or the restore fails; any other error is tried again.
    """


class SinkAhead(OutsideConflict):
    """More is published at a sink's resource than the snapshot knows; `outside="again"` goes on all the same."""


class SinkBehind(OutsideConflict):
    """A sink's resource lacks what was published there: it was emptied, or came back from a backup."""


class SinkTaken(OutsideConflict):
    """Another storage's system has the sink's resource; `takeover=True` takes it away from there."""


class SinkFenced(OutsideConflict):
    """A later life of the system has the sink's resource, so this one must stop."""


class SinkRefused(OutsideConflict):
    """A row does not fit the sink's resource, and never will; `evidence` has sink, sequence and row."""


# The system is down; restore it. ----------------------------------------------------------------------------------


class SystemDown(RayshotError):
    """The system does not accept messages any more."""


class ActorDied(SystemDown):
    """An actor's process died and with it the system's consistency; restore the last snapshot."""


class SystemStopped(SystemDown):
    """The system was shut down, or never started."""


class AnswerChanged(SystemStopped):
    """A rollback changed an answer on which a program had acted, and the system's settings stop it then.

    `evidence` has the `driver`, and of the call the `actor`, the `method` and the `number` of the message.
    """


class SystemRecovering(SystemDown):
    """The system goes back to its last snapshot by itself, or Ray starts its coordinator again.

    Handles of actors go on by themselves when it runs again.
    """


class RestoreFailed(SystemDown):
    """A restore failed; it ended all actors that it had started."""


# The cluster cannot be reached. -----------------------------------------------------------------------------------


class ClusterUnreachable(RayshotError):
    """No Ray cluster answers at the address, or this program cannot join it from here."""


class ClusterRefused(ClusterUnreachable):
    """The Ray cluster refuses this program, for its token, its versions or its kind of address."""


# Look again: the call may or may not have worked. ------------------------------------------------------------------


class NotReady(RayshotError):
    """The system is not ready: it begins, a restore runs, or its coordinator restarts. Try again."""


class PoisonMessage(RayshotError):
    """The actor passes over the message of this call, because it had ended the actor's process again and again."""


class NoAnswer(RayshotError):
    """A process of a system or of Spark has not answered in time, or is gone."""


class AnswerTimedOut(NoAnswer, TimeoutError):
    """The time was up that a handler gave for the answer of another actor. Also a TimeoutError, as in Ray."""


# A simulated run. --------------------------------------------------------------------------------------------------


class StepsExhausted(UsageError):
    """A simulated world reached its limit of events."""


class ScheduleFailed(RayshotError, AssertionError):
    """A test's check of its actors fails in one schedule: `evidence["seed"]`, `["choices"]`. Also an AssertionError."""


# The command waits no longer. --------------------------------------------------------------------------------------


class Interrupted(RayshotError):
    """The user pressed Ctrl-C at the command line."""


# Warnings: the program can go on. ----------------------------------------------------------------------------------


class HandlersTakeTurns(UserWarning):
    """A class has async handlers. rayshot runs each of them to its end before the next begins."""
