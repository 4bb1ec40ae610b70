"""What the model asks of the world around it: of Ray, of a driver, or of the simulator."""

import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from rayshot.errors import ConfigError
from rayshot.format.codec import Codec
from rayshot.model.calls import Question, Unanswered
from rayshot.model.owed_answers import AnswerPort
from rayshot.model.specification import ActorSpecification
from rayshot.protocol.identity import check_name


class OutPort(Protocol):
    """The sending end of one channel."""

    codec: Codec

    def append(self, message: bytes) -> None:
        """Put an encoded message into the outbox; it gets the channel's next number."""

    def append_plain(self, method: str, args: tuple[Any, ...]) -> None:
        """As `append`, for a tell with few arguments, all numbers: it may be encoded later, together with others."""
        self.append(self.codec.tell(method, args))

    def end_receiver(self) -> None:
        """Tell the receiver to end when it has handled what was sent before."""
        self.append(self.codec.end(dropped=False))


class Port(Protocol):
    """One process's view of the system it belongs to."""

    @property
    def system(self) -> str:
        """The system's name."""

    @property
    def codec(self) -> Codec:
        """Encodes messages; decoded handles are bound to this port."""

    def channel(self, receiver: str) -> OutPort:
        """The channel from this process to `receiver`."""

    def call(self, receiver: str, tell: bytes, *, durable: bool = False) -> Any:
        """Send a message and ask for the result: returns an ObjectRef for a driver, a Reply inside an actor.

        With `durable` the result comes when a durable snapshot holds the call as handled; ConfigError inside an actor.
        """

    def spawn(
        self, specification: ActorSpecification, name: str | None, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Make an actor; returns its ActorHandle. Message 1 to it is its constructor's call. Raises NameTaken."""

    def is_there(self, name: str) -> bool | None:
        """Whether an actor of that name lives: False if it has ended, None if nobody knows of one."""

    def handle_of(self, name: str) -> Any:
        """This process's ActorHandle of the actor `name`."""


class CellPort(Port, AnswerPort, Protocol):
    """What a cell asks of the world around it, besides sending."""

    def await_answers(self, questions: Sequence[Question], count: int, timeout_s: float | None) -> None:
        """Return when `count` of the questions are answered, or the time is up. What was sent before leaves first."""

    def answered(self, question: Question) -> Awaitable[None]:
        """As `await_answers`, for one question, on the loop of an `async def` handler."""

    def request_snapshot(self) -> None:
        """Begin a snapshot once the running handler has ended."""

    def request_end(self) -> None:
        """End this actor once the running handler has ended."""

    def has_own_mail(self) -> bool:
        """Whether messages are waiting that this actor sent to itself, for example those of its timers."""

    def message_now(self) -> bytes | None:
        """The encoded message that is handled now; None if values came beside it."""

    def sent_so_far(self) -> int:
        """How many messages this actor has sent, with those of the running handler."""

    def await_pass(self, may_begin: Callable[[], bool]) -> bool:
        """Return when the next pass of a loop may begin; snapshots may be recorded meanwhile. Raises LoopEnded.

        `may_begin` is asked when something is new, or due. Returns False if the answer that came is a poison: ask anew.
        """


def result_of(reference: Any) -> Any:
    """Wait for the outcome of a call of this process, whatever it is: an actor's, a program's, or a test's.

    Raises what the called handler raised, and as `rayshot.get` and `ray.get`.
    """
    if issubclass(type(reference), Unanswered):  # a Reply says that it is of another class
        return reference.get()
    import rayshot  # noqa: PLC0415 - only the runtime knows Ray

    return rayshot._result_of(reference)  # noqa: SLF001


_find_port: list[Callable[[], Port | None]] = []
_held = threading.local()


def provide_port(find: Callable[[], Port | None]) -> None:
    """Say how this process finds its port; a later call replaces an earlier one."""
    _find_port[:] = [find]


def swap_port(find: Callable[[], Port | None] | None) -> Callable[[], Port | None] | None:
    """As `provide_port`, for a while: returns the function set before; pass it to this function again at the end."""
    before = port_finder()
    _find_port[:] = [] if find is None else [find]
    return before


def port_finder() -> Callable[[], Port | None] | None:
    """The function that finds the port; None if there is none."""
    return _find_port[0] if _find_port else None


def hold_port(port: Port | None) -> None:
    """Let `find_port` answer `port` on this thread, or with None what it answers on others.

    When an actor goes back to a snapshot, its process gets another port. A thread that still works for what the actor
    was before must not send anything through that.
    """
    _held.port = port


def find_port() -> Port | None:
    """This process's own port, if it is an actor's process; None in others, where a driver's port may be found."""
    port: Port | None = getattr(_held, "port", None)
    if port is not None:
        return port
    return _find_port[0]() if _find_port else None


def spawning_port(system: str | None) -> Port:
    """The port with which this process makes a new actor of `system`; None for the one that is meant without a name.

    Raises ConfigError in an actor for another system than its own, and in a program that has several systems and names
    none. Also raises as `process_port`.
    """
    port = process_port(system)
    if system is not None and port.system != system:
        raise ConfigError(
            f"actors that are made here belong to system {port.system!r}, and not to {system!r}: leave `system` out, "
            "or let a program make them"
        )
    return port


def system_name(system: object) -> str:
    """The name of a system that is given as such, or by its name. Raises ConfigError for anything else."""
    name = getattr(system, "name", system)
    if not isinstance(name, str):
        raise ConfigError(f"system={system!r}: give a system, or its name")
    return check_name(name, "a system")


def process_port(system: str | None = None) -> Port:
    """The port of this process. In a driver: the port for handles of `system`, or, without it, for a new actor.

    Raises SystemStopped if no port can be found; NoAnswer or SystemRecovering if the coordinator does not answer.
    """
    port = find_port()
    if port is None:
        import rayshot  # noqa: PLC0415 - how a driver finds a system only the runtime knows, and this process may have none

        port = cast("Port", rayshot._driver_port(system))  # noqa: SLF001
    return port
