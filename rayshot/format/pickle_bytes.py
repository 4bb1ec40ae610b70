"""Questions to a pickle that its bytes answer without reading it."""

import pickle

from rayshot.format.classes_by_value import CLOUDPICKLE_MODULE

PICKLE_START = b"\x80\x05"
"""The first bytes of a pickle of protocol 5."""
PUT_AGAIN = "put_again"
"""The function of `pickling` that stands for references."""

_SHORT_BYTES_MAX = 255
_NAMED = pickle.MEMOIZE + pickle.STACK_GLOBAL
"""What follows a name in a pickle, where it is spelled."""


def mentions(pickled: bytes, name: str) -> bool:
    """Whether a pickle may hold "module.Qualname", as a global or as a class by value. False is certain.

    A pickle spells module and qualified name as two strings, each once, with anything between them.
    """
    parts = name.split(".")
    return any(
        _spelled(".".join(parts[:cut])) in pickled and _spelled(".".join(parts[cut:])) in pickled
        for cut in range(1, len(parts))
    )


def _spelled(text: str) -> bytes:
    """The bytes of a string in a pickle of protocol 5: a short string follows its length."""
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) > _SHORT_BYTES_MAX:
        return encoded
    return pickle.SHORT_BINUNICODE + bytes([len(encoded)]) + encoded


def spelled_globals(pickled: bytes | memoryview) -> frozenset[bytes]:
    """The names of the classes and functions that a pickle spells out where it first needs them.

    It is as fast as a search for two bytes. Bytes of the content may look like a name, and a name that the content
    holds as a text too may be missing: use it to tell pickles of one kind from those of another.
    """
    data = bytes(pickled)
    found, at = set(), data.find(_NAMED)
    while at != -1:
        for length in range(1, min(at, _SHORT_BYTES_MAX + 1)):
            if data[at - length - 1] == length and data[at - length - 2] == pickle.SHORT_BINUNICODE[0]:
                found.add(data[at - length : at])
                break
        at = data.find(_NAMED, at + 1)
    return frozenset(found)


def names_no_global(pickled: bytes | memoryview) -> bool:
    """Whether a pickle holds containers and scalars only. True is certain."""
    return pickle.STACK_GLOBAL not in bytes(pickled)


def holds_code(pickled: bytes) -> bool:
    """Whether a pickle may hold a class or function by value. False is certain.

    cloudpickle rebuilds these with functions of its own module, which the pickle names.
    """
    return CLOUDPICKLE_MODULE.__name__.encode() in pickled


def holds_references(pickled: bytes) -> bool:
    """Whether a state's pickle may hold references, whose values are pickles in its buffers. False is certain."""
    return PUT_AGAIN.encode() in pickled


def is_pickle(data: bytes) -> bool:
    """Whether these bytes may be a pickle of ours, or the start of one."""
    return data.startswith(PICKLE_START)
