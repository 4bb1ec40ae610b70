"""The known name that a user may have meant."""

import difflib
from collections.abc import Collection

_COMPARED_MAX = 10_000
_COMPARED_LENGTH_MAX = 200


def did_you_mean(name: object, known: Collection[str]) -> str:
    """The end of an error about an unknown name: `. Did you mean 'alice'?`, or nothing if no known name is close."""
    if len(known) > _COMPARED_MAX:  # comparing all of them would take seconds
        return ""
    close = difflib.get_close_matches(str(name)[:_COMPARED_LENGTH_MAX], known, n=1)
    return f". Did you mean {close[0]!r}?" if close else ""
