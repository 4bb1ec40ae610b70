"""Classes and functions by the names under which pickles and snapshots have them."""

import importlib
import sys
from typing import Any

from rayshot.errors import CodeMismatch

MOVED_MODULES = {
    "rayshot.format.inert_record": "rayshot.inert.inert_object",
    "rayshot.inert.record": "rayshot.inert.inert_object",
    "rayshot.format.inert_times": "rayshot.inert.times",
    "rayshot.runtime.ray.plain_handles": "rayshot.runtime.door.plain_handles",
}
"""Where what older snapshots hold by the name of a module of rayshot is now."""


def find_global(module: str, name: str) -> Any:
    """The object with that qualified name in a module; None if there is no such object.

    Raises CodeMismatch if the module exists but fails during its import.
    """
    module = MOVED_MODULES.get(module, module)
    try:
        found: Any = sys.modules.get(module) or importlib.import_module(module)
    except ImportError:
        return None
    except (Exception, SystemExit) as error:  # a script that has no main guard ends itself
        raise CodeMismatch(f"module {module} cannot be imported: {error!r}", class_name=f"{module}.{name}") from error
    try:
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError:
        return None
    return found


def find_dotted(name: str) -> Any:
    """The object "module.Qualname": of the longest module that there is. None and errors as `find_global`."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        found = find_global(".".join(parts[:cut]), ".".join(parts[cut:])) if all(parts) else None
        if found is not None:
            return found
    return None
