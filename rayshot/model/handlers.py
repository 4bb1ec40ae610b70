"""The handlers of an actor: its methods, each made ready to be called when it is first used."""

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Sequence
from typing import Any

from rayshot.format.classes_by_value import attribute_of
from rayshot.model.event_loop import Coroutines
from rayshot.model.hooks import HOOKS
from rayshot.model.loop_check import has_loop
from rayshot.model.methods import generator_called, hides_generator, is_generator, unknown_method

Watch = Callable[[str, Callable[..., Any]], Callable[..., Awaitable[Any]]]


class Handlers(dict[str, Callable[..., Any]]):
    """Bound methods by name, looked up once each."""

    def __init__(
        self,
        instance: object,
        methods: Sequence[str],
        name: str,
        coroutines: Coroutines,
        loop_begins: Callable[[], None],
        loop_ends: Callable[[], None],
        watch: Watch | None,
    ) -> None:
        """If there is a function `watch`, see `waits_first.watching`, several handlers run at once, as coroutines."""
        super().__init__()
        self._instance = instance
        self._methods = frozenset(methods) - HOOKS  # older snapshots may have one among the methods
        self._name = name
        self._coroutines = coroutines
        self._is_async = has_coroutines(instance, methods)
        self._loop_begins, self._loop_ends = loop_begins, loop_ends
        self._watch = watch

    def __missing__(self, method: str) -> Callable[..., Any]:
        if method not in self._methods:
            user_class = type(self._instance)
            if attribute_of(user_class, method) and is_generator(user_class, method):
                raise generator_called(self._name, method)
            raise unknown_method(self._name, method, self._methods, user_class)
        if self._watch is not None:
            bound = self[method] = self._at_once(method, getattr(self._instance, method), self._watch)
            return bound
        found = to_completion(getattr(self._instance, method), self._coroutines, is_async=self._is_async)
        if hides_generator(type(self._instance), method):
            found = _refusing_generators(found, self._name, method)
        if has_loop(type(self._instance), method):
            found = _telling_of_loop(found, self._loop_begins, self._loop_ends)
        bound = self[method] = found
        return bound

    def _at_once(self, method: str, handler: Callable[..., Any], watch: Watch) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(handler):
            watched, whole = watch(method, handler), self._coroutines.whole
            return lambda *args, **kwargs: whole(watched(*args, **kwargs))
        if hides_generator(type(self._instance), method):
            handler = _refusing_generators(handler, self._name, method)
        return self.in_turn(handler)

    def in_turn(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        """A plain handler. If several run at once, it begins in its turn among them."""
        if self._watch is None:
            return handler

        async def call(*args: Any, **kwargs: Any) -> Any:
            return handler(*args, **kwargs)

        return lambda *args, **kwargs: self._coroutines.whole(call(*args, **kwargs))


class ToldHandlers(Handlers):
    """Handlers that tell the name of each method that is looked up."""

    def __init__(self, tell: Callable[[str], None], *of: Any) -> None:
        super().__init__(*of)
        self._tell = tell

    def __getitem__(self, method: str) -> Callable[..., Any]:
        found = super().__getitem__(method)
        self._tell(method)
        return found


def _refusing_generators(handler: Callable[..., Any], actor: str, method: str) -> Callable[..., Any]:
    """The handler, changed to raise if it returns a generator; no code of the generator has run by then."""

    def call(*args: Any, **kwargs: Any) -> Any:
        result = handler(*args, **kwargs)
        if isinstance(result, (Generator, AsyncGenerator)):
            raise generator_called(actor, method)
        return result

    return call


def has_coroutines(instance: object, methods: Sequence[str]) -> bool:
    """Whether any handler is `async def`. Only then does the event loop run, and only then can tasks start on it."""
    return any(inspect.iscoroutinefunction(attribute_of(type(instance), name)) for name in methods)


def to_completion(method: Callable[..., Any], coroutines: Coroutines, *, is_async: bool) -> Callable[..., Any]:
    """The method itself; if it is `async def`, a function that calls it and waits for its end.

    In a class with async handlers a plain handler may leave a task behind; that is checked when it returns.
    """
    if inspect.iscoroutinefunction(method):
        return lambda *args, **kwargs: coroutines.run(method(*args, **kwargs))
    if not is_async:
        return method

    def call(*args: Any, **kwargs: Any) -> Any:
        result = method(*args, **kwargs)
        coroutines.end_plain()
        return result

    return call


def one_by_one(begun: Sequence[Any]) -> Coroutine[Any, Any, None] | None:
    """What handlers gave that were called for one message: where several run at once, a coroutine of all; else None."""
    left = [one for one in begun if isinstance(one, Coroutine)]

    async def end() -> None:
        for one in left:
            await one

    return end() if left else None


def _telling_of_loop(
    handler: Callable[..., Any], begins: Callable[[], None], ends: Callable[[], None]
) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        begins()
        result = handler(*args, **kwargs)
        ends()
        return result

    return call
