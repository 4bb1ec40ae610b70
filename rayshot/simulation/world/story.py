"""Words for a story: shows events and their contents on one line."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass

from rayshot.protocol.events import Marker


def show(value: object) -> str:
    """Return `value` as text without addresses of objects, so that the same run tells the same story."""
    if isinstance(value, tuple) and type(value).__str__ is not object.__str__:
        return str(value)
    match value:
        case Marker(snapshot, sent):
            return f"{snapshot}({sent})"
        case Mapping():
            return "{" + ", ".join(f"{show(key)}: {show(item)}" for key, item in value.items()) + "}"
        case frozenset() | set():
            return "{" + ", ".join(sorted(map(show, value))) + "}"
        case tuple() if hasattr(value, "_fields"):
            return f"{type(value).__name__}({', '.join(map(show, value))})"
        case list() | tuple():
            return "[" + ", ".join(map(show, value)) + "]"
    if type(value).__str__ is not object.__str__ or not is_dataclass(value):
        return str(getattr(value, "name", value))
    shown = ((field.name, getattr(value, field.name)) for field in fields(value))
    return f"{type(value).__name__}({', '.join(f'{name}={show(item)}' for name, item in shown if item)})"
