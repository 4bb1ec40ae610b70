"""What a pickle holds, as far as its bytes show it without being read."""

import pickle

from rayshot.format.by_value import CLOUDPICKLE_MODULE

PICKLE_START = b"\x80\x05"
"""How a pickle of protocol 5 begins."""
PUT_AGAIN = "put_again"
"""The function of `pickling` that stands for references."""

_SHORT_BYTES_MAX = 255


def mentions(pickled: bytes, name: str) -> bool:
    """Whether a pickle could hold the global, or the class by value, "module.Qualname"; never False where it does.

    A pickle spells module and qualified name as two texts, each once, whatever stands between them.
    """
    parts = name.split(".")
    return any(
        _spelled(".".join(parts[:cut])) in pickled and _spelled(".".join(parts[cut:])) in pickled
        for cut in range(1, len(parts))
    )


def _spelled(text: str) -> bytes:
    """How a pickle of protocol 5 holds a text: a short one has its length before it."""
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) > _SHORT_BYTES_MAX:
        return encoded
    return pickle.SHORT_BINUNICODE + bytes([len(encoded)]) + encoded


def holds_code(pickled: bytes) -> bool:
    """Whether a pickle holds a class or function by value; never False where it does.

    cloudpickle rebuilds these with functions of its own module, which the pickle names.
    """
    return CLOUDPICKLE_MODULE.__name__.encode() in pickled


def holds_references(pickled: bytes) -> bool:
    """Whether a state's pickle holds references, whose values are pickles among its buffers; never False where so."""
    return PUT_AGAIN.encode() in pickled


def is_pickle(data: bytes) -> bool:
    """Whether these bytes, or what they are the beginning of, could be a pickle of ours."""
    return data.startswith(PICKLE_START)
