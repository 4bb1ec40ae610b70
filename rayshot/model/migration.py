"""Bring a recorded state up to the version of the class that loads it."""

import traceback
from pathlib import PurePath
from typing import Any

from rayshot.errors import MigrationFailed
from rayshot.model.versions import attributes_of, migration_of, required_fields


def migrate(state: Any, version: int, user_class: type, wanted: int, actor: str) -> Any:
    """The `state` of `version` in the form that `user_class`, at version `wanted`, takes: migrated if it is older.

    Raises MigrationFailed, with the names of actor and class, if the hook raises or returns no usable state.
    """
    hook = migration_of(user_class, wanted)
    if version >= wanted or hook is None:  # a lower version without a hook was refused before
        return state
    try:
        migrated = hook(state, version)
    except (Exception, SystemExit) as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        why = f"raised {error!r} at {PurePath(place.filename).name}:{place.lineno}"
        raise _failed(user_class, version, wanted, actor, why) from error
    if migrated is None:
        raise _failed(user_class, version, wanted, actor, "returned None: it returns the new state")
    there = attributes_of(migrated)
    missing = [] if there is None else sorted(required_fields(user_class) - there)
    if missing:
        raise _failed(user_class, version, wanted, actor, f"returned a state without {', '.join(missing)}")
    return migrated


def _failed(user_class: type, version: int, wanted: int, actor: str, why: str) -> MigrationFailed:
    class_name = f"{user_class.__module__}.{user_class.__qualname__}"
    return MigrationFailed(
        f"actor {actor!r}: {class_name}.migrate was given its state of version {version}, to make one of version "
        f"{wanted} of it, and {why}",
        actor=actor,
        class_name=class_name,
        from_version=version,
        version=wanted,
    )
