"""Exceptions that do not survive an ordinary pickle.

A pickle holds an exception as a call of its class with `args`, and its attributes. A class that requires other
arguments raises there; a class that formats its arguments makes another message; a frozen class refuses the attributes.
When this process meets such an exception, it learns its class. From then on it pickles exceptions of that class in
another way, which runs no code of the class. Ray does so too, because it uses the same table.
"""

import copyreg
from typing import Any

from rayshot.format.late_keys import REFUSALS

LINKS = ("__cause__", "__context__", "__suppress_context__")
"""What an error has beside its attributes; a pickle of a state holds them among these."""


def learn(kind: type[BaseException]) -> None:
    """From now on, pickle exceptions of this class so that they survive."""
    copyreg.pickle(kind, reduce)


def reduce(error: Any) -> tuple[Any, ...]:
    """How exceptions of learned classes are pickled."""
    if hasattr(type(error), "from_exception_data"):  # pydantic's ValidationError, which has no constructor
        return error.from_exception_data, (error.title, error.errors(include_url=False))
    args: tuple[Any, ...] = _builtin_of(type(error)).__reduce__(error)[1]  # more than `args` where it is of a file
    if isinstance(error, BaseExceptionGroup):
        args = (error.message, error.exceptions)  # `args` has a list, which may be loaded before its members
    return exception_again, (type(error), args, dict(vars(error)))


def exception_again(kind: type[BaseException], args: tuple[Any, ...], attributes: dict[str, Any]) -> BaseException:
    """Make the exception with its built-in base class. Snapshots hold this function by name: keep it here."""
    learn(kind)  # it may be passed on
    error = made_by_base(kind, args)
    vars(error).update(attributes)
    return error


def made_by_base(kind: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    """An exception that only its built-in base class has made."""
    builtin: Any = _builtin_of(kind)
    error = builtin.__new__(kind, *args)
    builtin.__init__(error, *args)
    assert isinstance(error, BaseException)
    return error


def _builtin_of(kind: type[BaseException]) -> Any:
    return next(base for base in kind.__mro__ if base.__module__ == "builtins")


def make_leniently(kind: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    """Call the class as its pickle says. If it refuses the arguments, make the exception without it."""
    try:
        return kind(*args)
    except REFUSALS:
        return exception_again(kind, args, {})


def fill_leniently(error: BaseException, attributes: dict[str, Any]) -> None:
    """Set attributes as a pickle says. If the class refuses them, set them without it."""
    try:
        error.__setstate__(attributes)
    except AttributeError:
        learn(type(error))
        for name, value in attributes.items():
            if name in LINKS:
                BaseException.__setattr__(error, name, value)
            else:
                vars(error)[name] = value


def is_same(error: BaseException, again: object) -> bool:
    """Whether an exception survived a pickle unchanged."""
    if type(again) is not type(error):
        return False
    try:
        return bool(again.args == error.args)
    except Exception:  # noqa: BLE001 - of arguments that cannot be compared: arrays, say
        return True
