"""Where classes went since a snapshot was taken: what the user says, and what a script defines again."""

import inspect
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from rayshot.errors import ConfigError
from rayshot.model.specification import check_class, find_global, user_class_of

RenamedClasses = Mapping[str, "type | str"]
"""{"old.module.Class": NewClass or "new.module.Class"}"""


def read_renamed_classes(rename_classes: RenamedClasses | None) -> dict[str, Any]:
    """The classes of `rename_classes`. Classes given by name are imported; decorated classes stay decorated.

    Raises ConfigError for a value that is neither a name nor a class.
    """
    if not isinstance(rename_classes or {}, Mapping):
        raise ConfigError(f"rename_classes={rename_classes!r}: give a dict, {{'old.module.Class': NewClass}}")
    found = {}
    for recorded, new in (rename_classes or {}).items():
        if not isinstance(recorded, str) or not all(recorded.split(".")) or "." not in recorded:
            raise ConfigError(f"rename_classes maps {recorded!r}: give the recorded name, 'old.module.Class'")
        mapped = _named(new) if isinstance(new, str) else new
        if user_class_of(mapped) is None:
            raise ConfigError(f"rename_classes maps {recorded} to {new!r}, which is not a class of this program")
        found[recorded] = mapped
    return found


def mapped_actor_class(rename_classes: Mapping[str, Any], recorded: str) -> type | None:
    """The user's class to use for actors of the class `recorded`; None if the map does not mention it.

    Raises ConfigError for a class that cannot be an actor's class.
    """
    mapped = user_class_of(rename_classes.get(recorded))
    return None if mapped is None else check_class(mapped)


def classes_of_main() -> dict[str, Any]:
    """All classes that this program's `__main__` defines, by the names that a snapshot uses for classes of `__main__`.

    When a program starts again it defines its classes again; an older snapshot holds the earlier ones by value. As in a
    notebook, the last definition of a name counts. Decorated classes stay decorated.
    """
    main = sys.modules.get("__main__")
    return {} if main is None else {f"__main__.{name}": found for name, found in _classes_in(main, "")}


def _classes_in(holder: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, found in tuple(vars(holder).items()):
        user_class: Any = inspect.getattr_static(found, "__rayshot_user_class__", found)  # runs nothing of a global's
        if not issubclass(type(user_class), type):
            continue
        if (user_class.__module__, user_class.__qualname__) == ("__main__", f"{path}{name}"):
            yield f"{path}{name}", found
            yield from _classes_in(user_class, f"{path}{name}.")


def _named(name: str) -> Any:
    """The object with the dotted `name`: the longest module that can be found, then attributes."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        if not all(parts):
            break
        found = find_global(".".join(parts[:cut]), ".".join(parts[cut:]))
        if found is not None:
            return found
    return None
