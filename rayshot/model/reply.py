"""`Reply`: what `.remote(...)` returns inside an actor."""

import sys
from collections.abc import Callable
from typing import Any, NoReturn

from rayshot.errors import ConfigError, NotAnObjectRef, OutsideHandler
from rayshot.model.calls import Continuation, OpenCall
from rayshot.model.cell import Cell
from rayshot.model.current import runs_here


class Reply:
    """The future result of a call. Ask for it with `then`, in the handler that made the call.

    A reply that nobody asks for costs no message. `callee` is the actor that was called. `call` is None if a thread
    that runs no handlers made the call: the call was sent at once, without asking for a reply.
    """

    __slots__ = ("_call", "_callee", "_cell")

    def __init__(self, cell: Cell, call: OpenCall | None, callee: str) -> None:
        self._cell = cell
        self._call = call
        self._callee = callee

    def then(self, method: Callable[..., Any], *context: Any, on_error: Callable[..., Any] | None = None) -> None:
        """Continue with `method(result, *context)` when the reply is here, or with `on_error(exception, *context)`.

        The reply is a message on the reverse channel; the continuation is part of this actor's state, so both
        survive a snapshot. `context` is kept by reference, like any part of the state. Without `on_error` an exception
        becomes a dead letter of this actor. If the receiver has ended and does not handle the call, the call is a dead
        letter and has no reply: neither method is called.

        Args:
            method: a bound method of this actor.
            *context: further arguments.
            on_error: a bound method of this actor.

        Raises OutsideHandler on a thread that runs no handlers, and for a call that such a thread made; ConfigError for
        a second continuation, and for one that is given after the handler has ended.
        """
        call = self._call
        if call is None or not runs_here(self._cell):
            raise OutsideHandler(
                "the result of a call comes to handlers only: call in a handler, and name what comes next there. A "
                "thread can ask for that with a tell to its own actor, or have the result sent back with a tell"
            )
        if call.call_id is not None or call not in self._cell.open_calls:
            raise ConfigError("a reply has one continuation, named in the handler that made the call")
        own_method = self._cell.own_method
        on_error_name = None if on_error is None else own_method(on_error)
        continuation = Continuation(own_method(method), on_error_name, context, self._callee)
        call.call_id = self._cell.await_reply(continuation)

    def __reduce__(self) -> NoReturn:
        raise NotAnObjectRef(_ADVICE)

    def __await__(self) -> NoReturn:
        raise NotAnObjectRef(_ADVICE)

    @property  # type: ignore[misc]  # it is read-only on purpose
    def __class__(self) -> type["Reply"]:
        # `ray.get` asks isinstance(reply, ObjectRef) and would complain about a type; the user must learn of `then`.
        if sys._getframe(1).f_globals.get("__name__", "").startswith("ray."):  # noqa: SLF001
            raise NotAnObjectRef(_ADVICE)
        return Reply


_ADVICE = (
    "a Reply is not an ObjectRef: an actor that waited for another would hold its mailbox. "
    "Name what comes next instead: reply.then(self.on_result)"
)
