"""What tells the code of a class from that of another version of it: a digest, equal in all processes.

It covers the functions of the class and of those of its bases that are not Python's own, and its plain constants; not
names of files, numbers of lines and documentation, and not the code of other classes and functions that it calls.
"""

import hashlib
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_known: WeakKeyDictionary[type, str] = WeakKeyDictionary()


def digest_of_code(user_class: type) -> str:
    """The digest of the class's code, as hexadecimal digits. Only the same minor version of Python gives the same."""
    found = _known.get(user_class)
    if found is None:
        parts = "\n".join(part for base in _own(user_class) for part in _parts(base))
        found = _known[user_class] = hashlib.blake2b(parts.encode(errors="surrogatepass"), digest_size=16).hexdigest()
    return found


def _own(user_class: type) -> Iterator[type]:
    return (base for base in user_class.__mro__ if base.__module__ not in {"builtins", "typing", "abc"})


def _parts(cls: type) -> Iterator[str]:
    for name, member in sorted(vars(cls).items()):
        yield from (f"{name}: {part}" for part in _member(name, member))


def _member(name: str, member: Any) -> Iterator[str]:
    if isinstance(member, property):
        member = (member.fget, member.fset, member.fdel)
    for function in member if isinstance(member, tuple) else (member,):
        plain = getattr(function, "__func__", function)  # of a static or class method
        while isinstance(plain, FunctionType):
            yield _code(plain.__code__, plain.__doc__)
            yield _constant((plain.__defaults__, plain.__kwdefaults__ and tuple(plain.__kwdefaults__.items())))
            plain = getattr(plain, "__wrapped__", None)
    if not name.startswith("__"):
        yield _constant(member)


def _code(code: CodeType, documentation: str | None = None) -> str:
    constants = [_constant(one) for one in code.co_consts if one is None or one != documentation]
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {code.co_freevars} {constants}"


def _constant(value: Any) -> str:
    """A constant as a text, which is the same in each process; "" for what is not plain."""
    if isinstance(value, CodeType):
        return _code(value)
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(_constant, value)))}}}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_constant, value))}]"
    return repr(value) if type(value) in _PLAIN else ""
