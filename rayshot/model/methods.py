"""Which methods of a class can be called, and which options `@ray.method` and `handle.method.options(...)` take.

An option is refused at the place where the user gives it. The error names its line in `rayshot help porting`.
"""

import inspect
import warnings
import weakref
from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from rayshot.errors import ConfigError, HandlersTakeTurns, UnknownMethod
from rayshot.format.classes_by_value import attribute_of, raw_attribute_of
from rayshot.format.suggestion import did_you_mean, porting, warn_of_retries

RESERVED = frozenset(
    {"name", "name_in", "give_out", "_name", "_system", "_methods", "_port", "_hold", "_silent", "_user_class"}
)
"""Names that a handle uses itself."""
BUILT_IN = frozenset({"__ray_ready__", "__ray_call__", "__ray_terminate__"})
"""Methods that every actor has, as in Ray: they can be called, but a class need not define them."""
_NAMED_MAX = 3
_told: weakref.WeakSet[type] = weakref.WeakSet()
"""Classes that got the warning of `warn_of_turns`."""
_OPTIONS = {
    "concurrency_group": ("the handlers of one actor run one at a time", "concurrency-groups"),
    "retry_exceptions": ("a handler runs once: catch the exception in it, and try again there", "retry-exceptions"),
    "enable_task_events": ("Ray would list batches of messages, and no calls", "task-events"),
    "tensor_transport": ("tensors travel inside messages, which a snapshot holds", "tensor-transport"),
    "_generator_backpressure_num_objects": ("a handler returns one value", "generators"),
    "_num_objects_per_yield": ("a handler returns one value", "generators"),
}
"""Options that are refused, each with the reason and the line of the table."""
_TAKEN = frozenset({"num_returns", "max_task_retries", "name"})
DURABLE_PAGE = "rayshot help healing#answers-that-are-durable"
_OF_CALLS = frozenset({"durable"})
"""Options that only `handle.method.options(...)` takes: `check_durable` checks them."""
_OF_RAYS_HANDLES = frozenset({"_actor_id", "_ray_actor_id"})
"""Attributes that programs ask of Ray's own handles."""
_UNUSED = ("", None, False, 0)
_silent: WeakKeyDictionary[type, frozenset[str]] = WeakKeyDictionary()


def methods_of(user_class: type) -> tuple[str, ...]:
    """Names of the methods that can be handlers, sorted: all functions except dunder methods and generators."""
    return tuple(name for name in _functions(user_class) if not is_generator(user_class, name))


def _functions(user_class: type) -> list[str]:
    return sorted(
        name for name in dir(user_class) if not name.startswith("__") and callable(attribute_of(user_class, name))
    )


def is_generator(user_class: type, name: str) -> bool:
    """Whether that attribute of the class is a function that yields; static and class methods count too."""
    function = _function(user_class, name)
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def hides_generator(user_class: type, name: str) -> bool:
    """Whether a decorator wraps a function that yields. Only a call can show what the decorated method returns."""
    function = inspect.unwrap(_function(user_class, name))
    yields = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    return yields and not is_generator(user_class, name)


def silent_methods(user_class: type) -> frozenset[str]:
    """The methods that `@ray.method(num_returns=0)` declares: a call of one returns nothing."""
    found = _silent.get(user_class)
    if found is None:
        declared = {name: _declared(user_class, name).get("num_returns") for name in methods_of(user_class)}
        found = _silent[user_class] = frozenset(name for name, returns in declared.items() if returns == 0)
    return found


def check_methods(user_class: type) -> None:
    """Raise ConfigError for a method that no handle can reach, or whose `@ray.method` options are not supported."""
    for name in _functions(user_class):
        whose = f"{user_class.__qualname__}.{name}"
        if name in RESERVED:
            raise ConfigError(
                f"{whose} cannot be reached, a handle has that name itself: rename it; see {porting('method-names')}"
            )
        if not is_generator(user_class, name):
            check_method_options(whose, _declared(user_class, name))


def check_method_options(whose: str, options: Mapping[str, Any]) -> int:
    """How many values a call returns, 0 or 1. Raises ConfigError for an option that rayshot does not support."""
    for key, value in options.items():
        if key in _OPTIONS and value not in _UNUSED:
            reason, line = _OPTIONS[key]
            raise ConfigError(f"{whose}: {key}={value!r} does not go with rayshot: {reason}; see {porting(line)}")
        if key not in _OPTIONS and key not in _TAKEN:
            known = _TAKEN | _OF_CALLS
            there = f"{', '.join(sorted(known))}{did_you_mean(key, known)}"
            raise ConfigError(f"{whose}: there is no option {key!r} of a method; there are {there}")
    if retries := options.get("max_task_retries"):
        warn_of_retries({"max_task_retries": retries}, whose)
    return _check_num_returns(whose, options.get("num_returns", 1))


def check_durable(whose: str, durable: object, returns: int) -> bool:
    """Whether a call's result is to wait for a durable snapshot. Raises ConfigError if that is impossible."""
    if not isinstance(durable, bool):
        raise ConfigError(f"{whose}: durable={durable!r}: give True or False")
    if durable and returns == 0:
        raise ConfigError(
            f"{whose}: durable=True is for a result, and this call has none: let the method return something, and "
            f"leave num_returns=0 out; see {DURABLE_PAGE}"
        )
    return durable


def durable_inside(actor: str, receiver: str) -> ConfigError:
    """The error for a handler that asks for a durable result."""
    return ConfigError(
        f"actor {actor!r} asked {receiver!r} for a durable result: a handler that waited for it would wait for itself, "
        "as no snapshot is recorded while it runs. Ask in the program, a task or a plain actor. What an actor knows "
        f"goes back with it, so here a call without durable=True is enough; see {DURABLE_PAGE}",
        actor=actor,
    )


def _check_num_returns(whose: str, asked: object) -> int:
    if asked is None:
        return 1
    if isinstance(asked, int) and not isinstance(asked, bool) and asked in (0, 1):
        return asked
    if isinstance(asked, str):
        raise ConfigError(
            f"{whose}: num_returns={asked!r}: a handler runs to its end and returns one value, a list say; "
            f"see {porting('generators')}"
        )
    raise ConfigError(
        f"{whose}: num_returns={asked!r}: a call returns one value, or none with 0. Return a tuple and take it apart "
        f"where it arrives, a, b = ray.get(ref); see {porting('num-returns')}"
    )


def may_be_method(name: str) -> bool:
    """Whether an actor whose class is not known here may have a method of that name that can be called."""
    return not name.startswith("__") and name not in _OF_RAYS_HANDLES


def unknown_method(actor: str, method: str, methods: Iterable[str], user_class: type | None = None) -> UnknownMethod:
    """The error for a method that the actor does not have, or that cannot be called.

    `user_class` is the actor's class, if it is known here: it tells a misspelt method from a generator.
    """
    if method.startswith("__"):
        text = (
            f"actor {actor!r} cannot be sent {method!r}: a handle reaches methods with plain names. Give the class one "
            f"that does the same; see {porting('dunder-methods')}"
        )
    elif method in _OF_RAYS_HANDLES:
        text = (
            f"the handle of actor {actor!r} has no {method!r}, which is of Ray's own handles: an actor is known by its "
            f"name, handle.name; see {porting('actor-id')}"
        )
    else:
        known = sorted(methods)
        meant = did_you_mean(method, known)
        text = f"actor {actor!r} has no method {method!r}; it has {', '.join(known) or 'none'}{meant}"
        if user_class is None and not meant:
            text += f". If {method!r} is a generator, it cannot be called: see {porting('generators')}"
        elif user_class is not None and hasattr(user_class, method) and is_generator(user_class, method):
            text += f". In its class {method!r} is a generator, which cannot be called: see {porting('generators')}"
    return UnknownMethod(text, actor=actor, method=method)


def generator_called(actor: str, method: str) -> ConfigError:
    """The error for a call of a method that yields."""
    return ConfigError(
        f".{method} of actor {actor!r} is a generator: a handler runs to its end and returns one value. Return a list, "
        f"or send each item with a tell; handlers of the actor itself may use self.{method}(). See "
        f"{porting('generators')}",
        actor=actor,
        method=method,
    )


def method(decorated: Any = None, /, **options: Any) -> Any:
    """Mark a method of an actor's class for type checkers, or give it options: `@rayshot.method(num_returns=0)`.

    Type checkers then know the method of a handle: its arguments and its result. At run time it stays the function
    that it is, and methods without the mark are handlers too. See `rayshot help type-checkers`.

    Args:
        decorated: the method, when used without parentheses.
        **options: those of `ray.method`: `num_returns`, 0 or 1. With 0 a call returns nothing.

    Raises ConfigError for an option that rayshot does not support, and for what is not a function.
    """
    if decorated is None:
        return lambda function: _declare(function, options)
    return _declare(decorated, options)


def _declare(decorated: Any, options: Mapping[str, Any]) -> Any:
    """Leave the mark that `ray.method` leaves, so that who reads it need not know which of the two it was."""
    function = getattr(decorated, "__func__", decorated)  # of a static or class method
    if not inspect.isfunction(function):
        raise ConfigError(f"@rayshot.method decorates methods of a class, not {decorated!r}")
    if options:
        setattr(function, _mark("num_returns"), check_method_options(function.__qualname__, options))
    return decorated


def _mark(option: str) -> str:
    return f"__ray_{option.strip('_')}__"


def _declared(user_class: type, name: str) -> dict[str, Any]:
    """The options that `@ray.method` or `@rayshot.method` gave a method: each is a mark on the function."""
    function = _function(user_class, name)
    found = {key: getattr(function, _mark(key), None) for key in (*_OPTIONS, *_TAKEN)}
    return {key: value for key, value in found.items() if value is not None}


def _function(user_class: type, name: str) -> Any:
    method = raw_attribute_of(user_class, name)
    return getattr(method, "__func__", method)  # of a static or class method


def warn_of_turns(user_class: type, stacklevel: int) -> None:
    """Warn, once for each class, if handlers are `async def`: in Ray they interleave, here they do not."""
    if user_class in _told:
        return
    names = [name for name in methods_of(user_class) if inspect.iscoroutinefunction(attribute_of(user_class, name))]
    if names:
        _told.add(user_class)
        listed = ", ".join(names[:_NAMED_MAX]) + (", ..." if len(names) > _NAMED_MAX else "")
        warnings.warn(
            f"{user_class.__qualname__} has async handlers ({listed}). They take turns: each runs to its end, with all "
            "that it awaits, before the next one of the same actor begins. One that waits for what another handler of "
            "its actor brings, an event or an item of a queue, gets an error: rayshot help porting#async",
            HandlersTakeTurns,
            stacklevel,
        )
