"""What a class declares: options of its actors, the version of its state, the hook that brings an older state to it."""

import dataclasses
import inspect
import traceback
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

from rayshot.errors import ConfigError, MigrationFailed
from rayshot.format.bounds import COUNTER_MAX

MIGRATE = "migrate"
"""The name of the hook."""
GIVEN = "__rayshot_options__"
"""The attribute of a decorated class that has what the decorator was given. Classes by value hold it: keep its form."""
_VERSION = "version"


def check_version(version: object) -> int:
    """Return `version` if it can be one, a whole number from 1; raise ConfigError if not."""
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= COUNTER_MAX:
        raise ConfigError(f"version={version!r}: give a whole number from 1, and a higher one when the state changes")
    return version


def declaration(user_class: type, options: Mapping[str, Any], version: int, *, late: bool) -> dict[str, Any]:
    """What to keep in GIVEN, each time another dict: cloudpickle leaves out what is the base's own.

    Raises ConfigError if the class has a hook that cannot be called as `migrate(state, from_version)` on the class, or
    if it is too late for another version. At version 1 no older state exists: `migrate` is then an ordinary method.
    """
    if late and version not in (1, version_of(user_class)):  # 1 is what nobody gave
        raise ConfigError(
            f"{user_class.__qualname__} has version {version_of(user_class)} already: write "
            f"@rayshot.actor(version={version}) where it is defined, so that all processes know it"
        )
    if version > 1 and hasattr(user_class, MIGRATE):
        _check_hook(user_class)
    return {_VERSION: version, **options}


def options_of(user_class: type) -> dict[str, Any] | None:
    """The options that `user_class` itself was decorated with; None if it is not decorated."""
    given = vars(user_class).get(GIVEN)
    return None if given is None else {key: value for key, value in given.items() if key != _VERSION}


def version_of(user_class: type) -> int:
    """The version of `user_class`; 1 if none was declared."""
    version = vars(user_class).get(GIVEN, {}).get(_VERSION, 1)
    assert isinstance(version, int)
    return version


def hooks_of(user_class: type) -> frozenset[str]:
    """The names of methods that are hooks and not handlers."""
    return frozenset({MIGRATE}) if version_of(user_class) > 1 else frozenset()


def migration_of(user_class: type, version: int) -> Callable[[Any, int], Any] | None:
    """The hook of `user_class` at `version`; None if it has none."""
    return getattr(user_class, MIGRATE, None) if version > 1 else None


def required_fields(user_class: type) -> frozenset[str]:
    """The attributes that an instance must have: for a dataclass, the fields without a default.

    A class with `__setstate__` reads its state itself, so it requires none.
    """
    if hasattr(user_class, "__setstate__"):
        return frozenset()
    if not dataclasses.is_dataclass(user_class):
        return frozenset()
    missing = dataclasses.MISSING
    fields = dataclasses.fields(user_class)
    return frozenset(field.name for field in fields if field.default is missing and field.default_factory is missing)


def attributes_of(state: Any) -> frozenset[str] | None:
    """The names of the attributes in a state of pickle's usual form; None if the state has another form."""
    parts = state if isinstance(state, tuple) and len(state) == 2 else (state,)  # noqa: PLR2004 - and those in slots
    if not all(isinstance(part, dict | None) for part in parts):
        return None
    return frozenset(name for part in parts for name in part or () if isinstance(name, str))


def _check_hook(user_class: type) -> None:
    name = f"{user_class.__qualname__}.{MIGRATE}"
    hook = inspect.getattr_static(user_class, MIGRATE)
    if not isinstance(hook, staticmethod | classmethod):
        raise ConfigError(
            f"{name} brings older states up to a new version before there is an instance: make it a @staticmethod or "
            "@classmethod"
        )
    bound = getattr(user_class, MIGRATE)
    if inspect.iscoroutinefunction(bound):
        raise ConfigError(
            f"{name} is a coroutine function: it is called while nothing else runs, and returns the state"
        )
    try:
        inspect.signature(bound).bind({}, 1)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{name} is called with (state, from_version): {error}") from error


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
