"""What errors and warnings tell a user to do: the name that he may have meant, and where the documentation goes on."""

import difflib
import warnings
from collections.abc import Collection, Mapping
from typing import Any

_COMPARED_MAX = 10_000
_COMPARED_LENGTH_MAX = 200


def did_you_mean(name: object, known: Collection[str]) -> str:
    """The end of an error about an unknown name: `. Did you mean 'alice'?`, or nothing if no known name is close."""
    if len(known) > _COMPARED_MAX:  # comparing all of them would take seconds
        return ""
    close = difflib.get_close_matches(str(name)[:_COMPARED_LENGTH_MAX], known, n=1)
    return f". Did you mean {close[0]!r}?" if close else ""


def porting(line: str) -> str:
    """The place in the documentation that says what to write instead of an idiom of Ray's."""
    return f"rayshot help porting#{line}"


def warn_of_retries(asked: Mapping[str, Any], whose: str) -> None:
    """Warn that rayshot accepts Ray's options for actors that die, but that they have no effect."""
    given = ", ".join(f"{key}={value!r}" for key, value in asked.items())
    warnings.warn(
        f"{whose}: {given} is not needed and does nothing: Ray would begin the actor anew without its state. A "
        "system of rayshot goes back to its last snapshot by itself when an actor dies, with all states and messages; "
        f"see {porting('max-restarts')}",
        stacklevel=4,
    )
