"""Exceptions that their own classes do not make again from a pickle.

A pickle holds an exception as its class, called with its `args`, and its attributes. A class that requires other
arguments raises there, one that makes a text of them makes another text, and a frozen one refuses its attributes. The
classes of such exceptions are learned when one is met. From then on this process pickles theirs in another way, in
which no code of the class takes part; so does Ray, which asks the same table.
"""

import copyreg
from typing import Any


def learn(kind: type[BaseException]) -> None:
    """Pickle exceptions of this class so that they come through, from now on."""
    copyreg.pickle(kind, _reduce)


def _reduce(error: Any) -> tuple[Any, ...]:
    if hasattr(error, "from_exception_data"):  # pydantic's ValidationError, which has no constructor
        return error.from_exception_data, (error.title, error.errors(include_url=False))
    args: tuple[Any, ...] = _builtin_of(type(error)).__reduce__(error)[1]  # more than `args` where it is of a file
    return exception_again, (type(error), args, dict(vars(error)))


def exception_again(kind: type[BaseException], args: tuple[Any, ...], attributes: dict[str, Any]) -> BaseException:
    """The exception, made by what its class is derived from. Snapshots hold this function by name: keep it here."""
    learn(kind)  # it may be passed on
    builtin: Any = _builtin_of(kind)
    error = builtin.__new__(kind, *args)
    builtin.__init__(error, *args)
    assert isinstance(error, BaseException)
    vars(error).update(attributes)
    return error


def _builtin_of(kind: type[BaseException]) -> Any:
    return next(base for base in kind.__mro__ if base.__module__ == "builtins")


def make_leniently(kind: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    """Call the class as its pickle says; where it refuses the arguments, do without it."""
    try:
        return kind(*args)
    except TypeError:
        return exception_again(kind, args, {})


def fill_leniently(error: BaseException, attributes: dict[str, Any]) -> None:
    """Set attributes as a pickle says; where the class refuses them, do without it."""
    try:
        error.__setstate__(attributes)
    except AttributeError:
        learn(type(error))
        vars(error).update(attributes)


def is_same(error: BaseException, again: object) -> bool:
    """Whether an exception came through a pickle as it was."""
    if type(again) is not type(error):
        return False
    try:
        return bool(again.args == error.args)
    except Exception:  # noqa: BLE001 - of arguments that cannot be compared: arrays, say
        return True
