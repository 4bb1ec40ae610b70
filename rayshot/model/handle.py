"""Handles: how user code refers to an actor, wherever the actor is."""

import copy
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from rayshot.errors import ActorExited, ConfigError, StaleHandle, SystemDown
from rayshot.format.codec import NUMBERS_MAX, all_numbers
from rayshot.format.suggestion import porting
from rayshot.model.methods import (
    BUILT_IN,
    check_durable,
    check_method_options,
    may_be_method,
    silent_methods,
    unknown_method,
)
from rayshot.model.parameters import ANYTHING, parameters_of
from rayshot.model.port import OutPort, Port, find_port, process_port
from rayshot.model.specification import handlers_of, user_class_of


class ActorHandle:
    """An actor of a system, by name. `handle.method.tell(...)` and `handle.method.remote(...)` send to it.

    A handle in a state or in a message is stored as a name; the process that reads it binds it again. `methods` are the
    names of the methods that the actor's class offers; None if they are not known here: then the receiver checks.
    `silent` are the methods whose calls return nothing. `hold`: see Hold.
    """

    # No slots: each method that was used once becomes a plain attribute, so Python finds it without __getattr__.

    def __init__(
        self,
        system: str,
        name: str,
        methods: frozenset[str] | None,
        port: Port | None,
        *,
        silent: frozenset[str] = frozenset(),
        hold: "Hold | None" = None,
    ) -> None:
        self._system = system
        self._name = name
        self._methods = methods
        self._port = port
        self._silent = silent
        self._user_class: type | None = None
        self._hold = hold

    @property
    def name(self) -> str:
        """The actor's name within its system."""
        return self._name

    def name_in(self, system: str) -> str:
        """Internal: the name, for a process of `system`. Raises StaleHandle if the actor belongs to another system."""
        if self._system != system:
            raise StaleHandle(
                f"{self!r} belongs to another system than this process, which belongs to {system!r}; "
                "channels do not cross systems",
                handle=repr(self),
            )
        return self._name

    def give_out(self) -> None:
        """Internal: note that other processes, too, may now hold a handle of the actor."""
        if self._hold is not None:
            self._hold.give_out()

    def __getattr__(self, method: str) -> "Method":
        methods = self._methods
        if method not in BUILT_IN and not (may_be_method(method) if methods is None else method in methods):
            raise unknown_method(self._name, method, methods or (), self._user_class)
        found = self.__dict__[method] = Method(self, method)
        return found

    def __class_getitem__(cls, _actor_class: object) -> "type[ActorHandle]":
        """`ActorHandle[Account]` says to type checkers whose handle it is."""
        return cls

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(self._methods or ())})

    def __reduce__(self) -> tuple[Any, ...]:
        self.give_out()
        methods = None if self._methods is None else tuple(sorted(self._methods))
        return _rebind, (self._system, self._name, methods, *((tuple(sorted(self._silent)),) if self._silent else ()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ActorHandle):
            return NotImplemented
        return (self._system, self._name) == (other._system, other._name)

    def __hash__(self) -> int:
        return hash((self._system, self._name))

    def __repr__(self) -> str:
        return f"ActorHandle({self._system}/{self._name})"


def with_class(handle: ActorHandle, user_class: type) -> ActorHandle:
    """The handle with the actor's class, in a process that knows it: calls with wrong arguments are refused there."""
    handle._user_class, handle._silent = user_class, silent_methods(user_class)  # noqa: SLF001 - a handle's own
    return handle


def check_class_of(handle: ActorHandle, actor_class: Any) -> None:
    """Raise ConfigError if the actor is known to lack methods of the class."""
    user_class = user_class_of(actor_class)
    if user_class is None:
        raise ConfigError(f"{actor_class!r} is not a class of actors")
    methods = handle._methods  # noqa: SLF001 - the two are one thing
    if methods is not None and (missing := sorted({*handlers_of(user_class)} - methods)):
        raise ConfigError(f"{handle!r} is not of {user_class.__qualname__}: it has no {', '.join(missing)}")


class Hold:
    """Shared by an anonymous actor's handle, in the process that made the actor, and by the methods got from it.

    When the last of these is gone, `dropped` is called, unless another process may have a handle. It may be called on
    any thread at any point of the program, so it must take no lock. It is not called at the interpreter's exit.
    """

    __slots__ = ("__weakref__", "_dropped")

    def __init__(self, dropped: Callable[[], None]) -> None:
        self._dropped: Callable[[], None] | None = dropped

    def give_out(self) -> None:
        """Note that a handle leaves this process: from now on nobody can know when the last one is gone."""
        self._dropped = None

    def __del__(self) -> None:
        if self._dropped is not None and not sys.is_finalizing():
            self._dropped()


class Method:
    """One method of an actor, ready to be sent to the actor."""

    # It has no reference to the handle, which refers to it: a cycle would keep an unused handle alive for a while.
    __slots__ = (
        "_append", "_append_plain", "_durable", "_encode", "_found", "_hold", "_name", "_parameters", "_port",
        "_receiver", "_returns", "_system",
    )  # fmt: skip
    _found: ActorHandle

    def __init__(self, handle: ActorHandle, name: str) -> None:
        self._hold = handle._hold  # noqa: SLF001 - the two classes are one thing
        self._name = name
        self._receiver = handle.name
        self._system = handle._system  # noqa: SLF001
        self._returns = 0 if name in handle._silent else 1  # noqa: SLF001
        self._durable = False
        user_class = handle._user_class  # noqa: SLF001
        self._parameters = ANYTHING if user_class is None else parameters_of(user_class, name)
        port = handle._port or process_port(self._system)  # noqa: SLF001
        handle.name_in(port.system)
        self._bind(port)

    @classmethod
    def again(cls, handle: ActorHandle, name: str, returns: int, *, durable: bool) -> "Method":
        """A method that was stored: it is bound when it is used, as the process may not be ready to send."""
        made = cls.__new__(cls)
        made._found, made._hold, made._parameters = handle, None, ANYTHING  # noqa: SLF001 - of its own class
        made._name, made._receiver, made._system = name, handle.name, handle._system  # noqa: SLF001
        made._returns, made._durable = returns, durable  # noqa: SLF001
        return made

    def __getattr__(self, missing: str) -> Any:
        """Bind a method that was stored: what it sends with is missing."""
        if missing not in {"_append", "_append_plain", "_encode", "_port"}:
            raise AttributeError(f"a method of an actor has no {missing!r}: use .tell(...) or .remote(...)")
        self._bind_as(self._found)
        return getattr(self, missing)

    @property
    def name(self) -> str:
        """The method's own name."""
        return self._name

    @property
    def receiver(self) -> str:
        """The actor's name."""
        return self._receiver

    def __reduce__(self) -> tuple[Any, ...]:
        handle = ActorHandle(self._system, self._receiver, None, None, hold=self._hold)
        return _rebind_method, (handle, self._name, self._returns, self._durable)

    def __copy__(self) -> "Method":
        made = Method.__new__(Method)
        for slot in Method.__slots__:
            if hasattr(self, slot):
                setattr(made, slot, getattr(self, slot))
        return made

    def _bind_as(self, handle: ActorHandle) -> None:
        """Bind it to the port of its handle, or of this process."""
        port = handle._port or process_port(self._system)  # noqa: SLF001 - the two classes are one thing
        handle.name_in(port.system)
        self._bind(port)

    def _bind(self, port: Port) -> None:
        channel: OutPort = port.channel(self._receiver)
        self._encode = port.codec.tell
        self._append = channel.append
        self._append_plain = channel.append_plain
        self._port = port  # last: a thread that sees it sees all

    def _finds_later_life(self) -> bool:
        """Whether the system continues in a later life; if so, this method is bound to that life from now on."""
        port = _later_port(self._port)
        if port is not None:
            self._bind(port)
        return port is not None

    def tell(self, *args: Any, **kwargs: Any) -> None:
        """Send a one-way message; arguments are copied now.

        Messages of one sender to one receiver are processed in the order of sending.

        Raises:
            MessageNotSerializable, MessageTooLarge: nothing was sent.
            SystemDown: the system takes no more messages, or goes back to a snapshot and does not take this one now.
            NoAnswer: nothing was sent; in a program that has not used the system yet, or with `remote`.
        """
        append: Callable[..., None]
        try:
            if all_numbers(map(type, args)) and not kwargs and len(args) <= NUMBERS_MAX:
                append = self._append_plain
                append(self._name, args)
            else:
                append = self._append
                append(self._encode(self._name, args, kwargs))
        except SystemDown:
            is_bound = append in (self._append, self._append_plain)  # otherwise another thread has found the later life
            if is_bound and not self._finds_later_life():
                raise
            self.tell(*args, **kwargs)

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Send a message and ask for its result: returns an ObjectRef to a driver, a Reply inside an actor.

        Uses the same channel and order as `tell`, and raises the same errors. With `num_returns=0` it is a `tell`, and
        returns None. Raises WrongArguments, which is a TypeError, in the process that made the actor; in other
        processes the result is the TypeError of the method itself. With `durable=True` inside an actor: ConfigError.
        """
        parameters = self._parameters
        if kwargs or not parameters.least <= len(args) <= parameters.most:
            parameters.check(f".{self._name} of actor {self._receiver!r}", args, kwargs)
        if self._returns == 0:
            return self.tell(*args, **kwargs)
        port = self._port
        try:
            return port.call(self._receiver, self._encode(self._name, args, kwargs), durable=self._durable)
        except SystemDown:
            if port is self._port and not self._finds_later_life():
                raise
            return self.remote(*args, **kwargs)

    def options(self, **options: Any) -> "Method":
        """This method with options: Ray's `num_returns`, 0 or 1, and `name`, which has no effect; and `durable`.

        `durable=True` is for programs, tasks and plain actors: a call returns an ObjectRef that is ready only when a
        durable snapshot holds the call as handled, so that the system never goes back behind it by itself. The call
        waits for the next snapshot, and asks for none. A `tell` has no answer, so `durable` changes nothing there.

        Raises ConfigError for other options, where the message says what to do instead, and for `durable=True` of a
        method that returns nothing.
        """
        made, whose = copy.copy(self), f".{self._name}"
        durable = options.pop("durable", self._durable)
        returns = check_method_options(whose, {"num_returns": self._returns, **options})
        made._durable = check_durable(whose, durable, returns)  # noqa: SLF001 - of its own class
        made._returns = returns  # noqa: SLF001
        return made

    def bind(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Refuse to make a node of a Ray graph."""
        raise no_graphs(f".{self._name}.bind(...)")

    def __call__(self, *_args: Any, **_kwargs: Any) -> None:
        """Refuse, as Ray does."""
        raise TypeError(f"a method of an actor is not called: use .{self._name}.tell(...) or .{self._name}.remote(...)")


def kill(actor: ActorHandle, *, no_restart: bool = True) -> None:
    """End an actor when it has handled what this process sent to it before. Returns at once; a second call is harmless.

    Messages from others that wait for it then, and messages sent to it afterwards, become dead letters. Calls among
    them raise ActorExited, which is also a `ray.exceptions.RayActorError`. A snapshot that was recorded before holds
    the actor; it also holds the order to end, if this is still under way.

    Args:
        actor: its handle.
        no_restart: only True, as in `ray.kill`: an ended actor does not start again.

    Raises ConfigError if `actor` is not a handle; SystemDown if the system takes no more messages.
    """
    if not isinstance(actor, ActorHandle):
        raise ConfigError(
            f"rayshot.kill ends actors of a system, not {actor!r}: give a handle; see {porting('ray-kill')}"
        )
    if no_restart is not True:
        raise ConfigError(
            f"no_restart={no_restart!r}: an actor that ended is not begun anew; see {porting('ray-kill')}"
        )
    port = actor._port or process_port(actor._system)  # noqa: SLF001 - a handle's own
    name = actor.name_in(port.system)
    while True:
        try:
            return port.channel(name).end_receiver()
        except ActorExited:
            return None
        except SystemDown:
            if (later := _later_port(port)) is None:
                raise
            port = later


def _later_port(port: Port) -> Port | None:
    """The port of this process in a later life of the system, if it has one.

    In an actor's process there is none: a thread of its own must not go on in a life that it does not belong to.
    """
    if find_port() is not None:
        return None
    found = process_port(port.system)
    return None if found is port or found.system != port.system else found


def no_graphs(what: str) -> ConfigError:
    """The error for a Ray graph that would have an actor of a system in it."""
    return ConfigError(
        f"{what} does not go with rayshot: send a message with .tell or .remote; see {porting('dag-bind')}"
    )


def rebind_anew(system: str, name: str, _methods: tuple[str, ...] | None, silent: tuple[str, ...] = ()) -> ActorHandle:
    """As `_rebind`, for a handle recorded when the actor's class had other methods: the receiver checks."""
    return _rebind(system, name, None, silent)


def _rebind(system: str, name: str, methods: tuple[str, ...] | None, silent: tuple[str, ...] = ()) -> ActorHandle:
    """Make a handle in the process that unpickles it. Snapshots hold this function by name: keep it here."""
    known = None if methods is None else frozenset(methods)
    return ActorHandle(system, name, known, find_port(), silent=frozenset(silent))


def _rebind_method(handle: ActorHandle, name: str, returns: int, durable: bool) -> Method:  # noqa: FBT001 - a pickle's
    """Make a method of a handle again. Snapshots hold this function by name: keep it here."""
    return Method.again(handle, name, returns, durable=durable)


REBIND = f"{_rebind.__module__}.{_rebind.__qualname__}"
"""The name under which pickles hold handles."""
