"""Handles: what user code holds of an actor, wherever it is."""

from typing import Any

from rayshot.errors import ForeignHandle, SystemDown, UnknownMethod
from rayshot.format.codec import NUMBERS_MAX, all_numbers
from rayshot.model.port import OutPort, Port, find_port, process_port


class ActorHandle:
    """An actor of a system, by name. `handle.method.tell(...)` and `handle.method.remote(...)` send to it.

    A handle in a state or in a message is stored as the name and bound again by whoever reads it. `methods` are the
    names that the actor's class offers; None where they are not known here, and then the receiver checks.
    """

    # No slots: each method that was used once becomes a plain attribute, found without __getattr__.

    def __init__(self, system: str, name: str, methods: frozenset[str] | None, port: Port | None) -> None:
        self._system = system
        self._name = name
        self._methods = methods
        self._port = port

    @property
    def name(self) -> str:
        """The actor's name within its system."""
        return self._name

    def name_in(self, system: str) -> str:
        """The name, for a process of `system`. Raises ForeignHandle where the actor is of another one."""
        if self._system != system:
            raise ForeignHandle(
                f"{self!r} is of another system than this process, which is of {system!r}; "
                "channels do not cross systems",
                handle=repr(self),
            )
        return self._name

    def __getattr__(self, method: str) -> "Method":
        if method.startswith("__"):
            raise AttributeError(method)
        if self._methods is not None and method not in self._methods:
            raise UnknownMethod(
                f"actor {self._name!r} has no method {method!r}; it has {', '.join(sorted(self._methods))}",
                actor=self._name,
                method=method,
            )
        found = self.__dict__[method] = Method(self, method)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        methods = None if self._methods is None else tuple(sorted(self._methods))
        return _rebind, (self._system, self._name, methods)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ActorHandle):
            return NotImplemented
        return (self._system, self._name) == (other._system, other._name)

    def __hash__(self) -> int:
        return hash((self._system, self._name))

    def __repr__(self) -> str:
        return f"ActorHandle({self._system}/{self._name})"


class Method:
    """One method of an actor, ready to be sent to."""

    __slots__ = ("_append", "_append_plain", "_encode", "_handle", "_name", "_port")

    def __init__(self, handle: ActorHandle, name: str) -> None:
        self._handle = handle
        self._name = name
        self._bind(handle._port or process_port(handle._system))  # noqa: SLF001 - the two classes are one thing

    def _bind(self, port: Port) -> None:
        self._port = port
        self._encode = port.codec.tell
        channel: OutPort = port.channel(self._handle.name_in(port.system))
        self._append = channel.append
        self._append_plain = channel.append_plain

    def _finds_later_life(self) -> bool:
        """Whether the system lives on in a later life, to which this is bound from now on."""
        port = process_port(self._handle._system)  # noqa: SLF001 - see above
        if port is self._port or port.system != self._port.system:
            return False
        self._bind(port)
        return True

    def tell(self, *args: Any, **kwargs: Any) -> None:
        """Send a one-way message; arguments are copied now.

        Messages of one sender to one receiver are processed in the order of sending.

        Raises:
            MessageNotSerializable, MessageTooLarge: nothing was sent.
            SystemDown: the system takes no messages any more.
        """
        try:
            if all_numbers(map(type, args)) and not kwargs and len(args) <= NUMBERS_MAX:
                self._append_plain(self._name, args)
            else:
                self._append(self._encode(self._name, args, kwargs))
        except SystemDown:
            if not self._finds_later_life():
                raise
            self.tell(*args, **kwargs)

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Send a message whose result is wanted: returns an ObjectRef to a driver, a Reply inside an actor.

        Same channel, same order and same errors as `tell`.
        """
        try:
            return self._port.call(self._handle.name, self._encode(self._name, args, kwargs))
        except SystemDown:
            if not self._finds_later_life():
                raise
            return self.remote(*args, **kwargs)

    def __call__(self, *_args: Any, **_kwargs: Any) -> None:
        """Refuse, as Ray does."""
        raise TypeError(f"a method of an actor is not called: use .{self._name}.tell(...) or .{self._name}.remote(...)")


def rebind_anew(system: str, name: str, _methods: tuple[str, ...] | None) -> ActorHandle:
    """As `_rebind`, for a handle that was recorded when the actor's class had other methods: the receiver checks."""
    return ActorHandle(system, name, None, find_port())


def _rebind(system: str, name: str, methods: tuple[str, ...] | None) -> ActorHandle:
    """Make a handle in the process that unpickles it. Snapshots hold this function by name: keep it here."""
    return ActorHandle(system, name, None if methods is None else frozenset(methods), find_port())


REBIND = f"{_rebind.__module__}.{_rebind.__qualname__}"
"""The name under which pickles hold handles."""
