"""The payload that a hook gives to a snapshot: JSON in its one canonical spelling.

The keys of a map are sorted, nothing stands between the tokens, and text is not escaped where it need not be. So equal
payloads are equal texts.
"""

import json
from typing import Any, NoReturn

from rayshot.errors import BadManifest, LimitExceeded
from rayshot.format.bounds import OPTIONS_DEPTH_MAX, PAYLOAD_BYTES_MAX


def pack_payload(value: Any) -> str:
    """Spell a tree of None, bool, int, finite float, str, list, tuple (reads as a list) and dict with keys of str.

    Raises ValueError for anything else, above PAYLOAD_BYTES_MAX bytes of UTF-8, or nested above OPTIONS_DEPTH_MAX.
    """
    try:
        _check_depth(value)
        text = _spell(value)
        size = len(text.encode())
    except TypeError as error:
        raise ValueError(str(error)) from error
    if size > PAYLOAD_BYTES_MAX:
        raise ValueError(f"the payload has {size} bytes, above the limit of {PAYLOAD_BYTES_MAX}")
    return text


def read_payload(text: str) -> Any:
    """The value of a payload that `check_payload` accepts."""
    return json.loads(text, parse_constant=_refuse)


def check_payload(text: Any, what: str) -> str:
    """Return `text` if it is a payload in its canonical spelling. Raises LimitExceeded or BadManifest."""
    if type(text) is not str:
        raise BadManifest(f"{what} is not a string")
    try:
        if (size := len(text.encode())) > PAYLOAD_BYTES_MAX:
            raise LimitExceeded(
                f"{what} has {size} bytes, above the limit of {PAYLOAD_BYTES_MAX}", limit=PAYLOAD_BYTES_MAX
            )
        canonical = pack_payload(read_payload(text)) == text
    except (ValueError, RecursionError) as error:
        raise BadManifest(f"{what} is not JSON: {error}") from error
    if not canonical:
        raise BadManifest(f"{what} is not JSON in its canonical spelling")
    return text


def _spell(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))


def _check_depth(value: Any, depth: int = 0) -> None:
    """Raise ValueError if `value` is nested too deep, or has a key that JSON would turn into a string."""
    if depth > OPTIONS_DEPTH_MAX:
        raise ValueError(f"the payload is nested more than {OPTIONS_DEPTH_MAX} deep")
    if isinstance(value, dict):
        if strange := [key for key in value if not isinstance(key, str)]:
            raise ValueError(f"the payload has the key {strange[0]!r}, which is not a string")
        value = value.values()
    elif not isinstance(value, list | tuple):
        return
    for item in value:
        _check_depth(item, depth + 1)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
