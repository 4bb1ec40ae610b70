"""The parameters of a method, so that a call with wrong arguments is refused before anything is sent.

Only calls are refused that the function itself would refuse. If a decorator wrapped it, the wrapper decides.
"""

import inspect
import sys
from collections.abc import Mapping
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from rayshot.errors import WrongArguments
from rayshot.format.classes_by_value import raw_attribute_of


class Parameters:
    """The parameters of one method. From `least` to `most` positional arguments fit without a closer look.

    `bound`: the function gets the actor before its arguments. Without a `signature` any arguments fit.
    """

    __slots__ = ("_bound", "_signature", "least", "most")

    def __init__(self, signature: inspect.Signature | None, *, bound: bool) -> None:
        self._signature = signature
        self._bound = (None,) if bound else ()
        self.least, self.most = (0, sys.maxsize) if signature is None else _positional(signature)
        self.least -= len(self._bound)
        self.most -= len(self._bound)

    def check(self, whose: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Raise WrongArguments if the arguments do not fit; `whose` names what is called."""
        if self._signature is None:
            return
        try:
            self._signature.bind(*self._bound, *args, **kwargs)
        except TypeError as error:
            raise WrongArguments(f"{whose}: {error}; nothing was sent") from None


def _positional(signature: inspect.Signature) -> tuple[int, int]:
    """How many positional arguments fit without keywords, (least, most); no number fits if a keyword is required."""
    least = most = 0
    for parameter in signature.parameters.values():
        required = parameter.default is parameter.empty
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            least, most = least + required, most + 1
        elif parameter.kind is parameter.VAR_POSITIONAL:
            most = sys.maxsize
        elif parameter.kind is parameter.KEYWORD_ONLY and required:
            return sys.maxsize, 0
    return least, most


ANYTHING = Parameters(None, bound=False)
"""For a method of which nothing is known here: its receiver checks."""
_NOTHING = Parameters(inspect.Signature(), bound=False)
_known: WeakKeyDictionary[FunctionType, dict[bool, Parameters]] = WeakKeyDictionary()
"""By function, then by whether it gets the actor: one function may be a method here and a static method there."""


def parameters_of(user_class: type, method: str) -> Parameters:
    """The parameters of a method, or of the constructor, `__init__`; ANYTHING if it is not a plain function."""
    found = raw_attribute_of(user_class, method)
    function = found.__func__ if isinstance(found, (staticmethod, classmethod)) else found
    if found is object.__init__ and inspect.getattr_static(user_class, "__new__") is object.__new__:
        return _NOTHING
    if not isinstance(function, FunctionType):
        return ANYTHING
    bound = not isinstance(found, staticmethod)
    known = _known.setdefault(function, {})
    if bound not in known:
        known[bound] = Parameters(_signature(function), bound=bound)
    return known[bound]


def _signature(function: FunctionType) -> inspect.Signature:
    """The signature of the code itself: Ray sets a different `__signature__` on methods of its actors."""
    code = function.__code__
    bare = FunctionType(code, {}, code.co_name, function.__defaults__, function.__closure__)
    bare.__kwdefaults__ = function.__kwdefaults__
    return inspect.signature(bare)
