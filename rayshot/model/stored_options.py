"""Options of actors that a snapshot does not hold as the user gave them, and how a restore completes them.

Values of environment variables may be secrets: a snapshot stores only their names, and the user gives the values again.
A placement group or a node's id belongs to one cluster: a snapshot stores only the kind of strategy, which a restore
drops.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from rayshot.errors import ConfigError
from rayshot.format.suggestion import did_you_mean
from rayshot.model.specification import ActorSpecification, check_options, user_class_of

log = logging.getLogger("rayshot")
ActorOptions = Mapping["str | type", Mapping[str, Any]]
"""Options by an actor's name, by a class, or by the name of a class, "module.Class"."""


def supply(
    specifications: Mapping[str, ActorSpecification], given: ActorOptions | None
) -> dict[str, ActorSpecification]:
    """The specifications of the restored actors, with the options that are `given` for the restore.

    Options for an actor win over options for its class. Raises ConfigError for an invalid option, for a key that names
    no actor or class, and for variables that have no value. Options that are dropped are logged.
    """
    checked = {_name(key): _check(key, options) for key, options in (given or {}).items()}
    known = {*specifications, *(_class_name(one) for one in specifications.values())}
    if unknown := sorted(checked.keys() - known):
        raise ConfigError(
            f"options={{{unknown[0]!r}: ...}}: the snapshot has no such actor or class; it has "
            f"{', '.join(sorted(known))}{did_you_mean(unknown[0], known)}"
        )
    return {
        name: replace(
            one, options=_revived(name, one.options, {**checked.get(_class_name(one), {}), **checked.get(name, {})})
        )
        for name, one in specifications.items()
    }


def _name(key: object) -> str:
    user_class = user_class_of(key)
    if user_class is not None:
        return f"{user_class.__module__}.{user_class.__qualname__}"
    if not isinstance(key, str):
        raise ConfigError(f"options={{{key!r}: ...}}: give the name of an actor, or a class")
    return key


def _class_name(specification: ActorSpecification) -> str:
    return f"{specification.class_module}.{specification.class_name}"


def _check(key: object, options: object) -> dict[str, Any]:
    """The options, with None for each option to leave out."""
    if not isinstance(options, Mapping):
        raise ConfigError(f"options={{{key!r}: {options!r}}}: give a dict of options, as for Class.options(...)")
    return {**check_options(options), **{name: None for name, value in options.items() if value is None}}


def _revived(actor: str, recorded: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    options = {**recorded, **given}
    strategy = options.get("scheduling_strategy")
    if isinstance(strategy, dict):  # as a snapshot holds it
        log.warning(
            "%s was placed by a %s of the cluster where it was made; it is placed anew, as Ray sees fit. Give "
            "options={%r: {'scheduling_strategy': ...}} for another place",
            actor, strategy["dropped"], actor,
        )  # fmt: skip
        options["scheduling_strategy"] = None
    if options.get("runtime_env") is not None:
        options["runtime_env"] = {**recorded.get("runtime_env", {}), **options["runtime_env"]}
        if missing := [*_missing(recorded.get("runtime_env", {}), options["runtime_env"])]:
            names = ", ".join(missing)
            raise ConfigError(
                f"actor {actor!r} was made with the environment variables {names}, whose values no snapshot holds: "
                f"give options={{{actor!r}: {{'runtime_env': {{'env_vars': {{{missing[0]!r}: ...}}}}}}}}, or "
                "{'runtime_env': None} for none. A class may stand for the actor's name",
                actor=actor,
                variables=missing,
            )
    return {key: value for key, value in options.items() if value is not None}


def _missing(recorded: Mapping[str, Any], runtime_env: Mapping[str, Any]) -> Iterator[str]:
    """The names of recorded variables that have no value. Snapshots of older versions hold the values themselves."""
    names, values = recorded.get("env_vars", ()), runtime_env.get("env_vars", ())
    for name in names if isinstance(names, list) else ():
        if not isinstance(values, Mapping) or name not in values:
            yield str(name)
