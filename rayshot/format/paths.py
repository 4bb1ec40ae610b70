"""Paths into values, for errors."""

from collections.abc import Callable, Sequence

from rayshot.format.external_values import outside_types
from rayshot.inert.redaction import REDACTED, is_secret_path

_PATH_DEPTH_MAX = 20
_PATH_PARTS_MAX = 100_000


def find_paths(value: object, path: str, wanted: Sequence[object]) -> list[str]:
    """The path to each of `wanted` inside of `value`; `path` itself if the plain parts do not hold it."""
    start = len(path)
    missing = {id(one) for one in wanted}
    found: dict[int, str] = {}
    waiting: list[tuple[str, object]] = [(path, value)]
    seen: set[int] = set()
    while waiting and missing and len(seen) < _PATH_PARTS_MAX:
        at, part = waiting.pop()
        if id(part) in missing:
            missing.remove(id(part))
            found[id(part)] = at
        if id(part) not in seen:
            seen.add(id(part))
            waiting += [(deeper(at, step, start), inner) for step, inner in _parts(part)]
    return [found.get(id(one), path) for one in wanted]


def find_culprit(value: object, path: str, can_pickle: Callable[[object], bool], *, secret: bool = False) -> str:
    """The path to the innermost part of `value` that cannot be pickled, such as `Worker.state['conn']`.

    `secret`: all of `value` is secret, so the path does not show keys.
    """
    start = 0 if secret else len(path)
    for _ in range(_PATH_DEPTH_MAX):
        for step, part in [] if type(value) in outside_types() else _parts(value):
            if not can_pickle(part):
                path, value = deeper(path, step, start), part
                break
        else:
            return path
    return path


def deeper(path: str, step: str, start: int) -> str:
    """The next step. A value with a secret's name may have secrets as keys, and errors must not show them."""
    return path + (f"[{REDACTED}]" if step[0] != "." and is_secret_path(path[start:]) else step)


def in_words(value: object, words: Callable[[object], str] = repr) -> str:
    """What `words` says of a value of any class; the name of its type if that raises."""
    try:
        return words(value)
    except Exception:  # noqa: BLE001 - it runs code of the value's class
        return f"<{type(value).__name__}>"


def _parts(value: object) -> list[tuple[str, object]]:
    """The parts of a value, each with the step to it; none of one that does not let itself be looked at."""
    try:
        return _steps(value)
    except Exception:  # noqa: BLE001 - a proxy asks what it stands for, which may be gone
        return []


def _steps(value: object) -> list[tuple[str, object]]:
    if isinstance(value, dict):
        return [(f"[{in_words(key)}]", part) for key, part in value.items()]
    if isinstance(value, list | tuple):
        return [(f"[{index}]", part) for index, part in enumerate(value)]
    if isinstance(value, set | frozenset):
        return [(f"{{{in_words(part):.40}}}", part) for part in value]
    return [(f".{name}", part) for name, part in getattr(value, "__dict__", {}).items()]
