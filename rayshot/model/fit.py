"""A snapshot as this program can load it: every class is found, or the reason given, before anything starts."""

import logging
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rayshot.errors import ActorNotFound, CodeMismatch, ConfigError
from rayshot.format.classes_by_value import Names
from rayshot.format.codec import read_frames, read_messages
from rayshot.format.entries import ActorEntry, Blob, ChannelEntry
from rayshot.format.global_names import find_dotted
from rayshot.format.manifest import Manifest
from rayshot.format.pickle_bytes import mentions
from rayshot.format.suggestion import did_you_mean
from rayshot.model.dead_letter import DeadLetter
from rayshot.model.handle import REBIND, rebind_anew
from rayshot.model.options import check_options
from rayshot.model.requirements import (
    Cast,
    changed_shapes,
    check_python,
    code_by_value,
    lost_parts,
    recorded_class,
    unmet,
    what_is_there,
)
from rayshot.model.specification import ActorSpecification, check_class, find_class, user_class_of

log = logging.getLogger("rayshot")
PROBLEMS_SHOWN_MAX = 10
LETTERS_MAX = 1000
"""Of messages to actors that are left out, only the last ones of each channel are read."""
ActorOptions = Mapping["str | type", Mapping[str, Any]]
"""Options by an actor's name, by a class, or by the name of a class, "module.Class"."""
RenamedClasses = Mapping[str, "type | str"]
"""{"old.module.Class": NewClass or "new.module.Class"}"""
SkipMissing = bool | Collection[str]
"""True: leave out actors whose class is gone. Otherwise the names of the actors to leave out."""


@dataclass(frozen=True, slots=True)
class Fit:
    """The parts of a snapshot that this program loads.

    `manifest` is the snapshot's manifest without the actors that are left out, which count as ended. `specifications`
    are those of the other actors, with the classes found here. `names` gives the replacements of moved globals in
    states and messages. `left_out` gives, by name, the recorded classes of the actors left out, and `undeliverable` the
    channels to them.
    """

    manifest: Manifest
    specifications: Mapping[str, ActorSpecification]
    names: Names
    left_out: Mapping[str, str]
    undeliverable: tuple[ChannelEntry, ...]


def fit(
    manifest: Manifest,
    read: Callable[[Blob], bytes],
    rename_classes: RenamedClasses | None = None,
    *,
    skip_missing_classes: SkipMissing = False,
) -> Fit:
    """Find the classes that a snapshot needs in this program. Imports modules, but runs no code of the snapshot.

    Args:
        manifest: the recorded manifest, with its signature already checked.
        read: gives the bytes of a blob. An actor's messages and state are read only if its class lost methods, or is a
            dataclass with fields that have no default; its state also if the class of a value lost members or fields.
            If `__main__` has classes, everything is read that may hold some of them by value.
        rename_classes: for each class that moved, its new place, by the recorded name.
        skip_missing_classes: see SkipMissing.

    Raises:
        ConfigError, ActorNotFound: `rename_classes` or `skip_missing_classes` names something that is not there.
        CodeMismatch: names, with both sides, everything that the snapshot has and this program does not.
        PythonMismatch: the snapshot holds code by value from another minor version of Python.
    """
    mapped = read_renamed_classes(rename_classes)
    named = _to_leave_out(manifest, skip_missing_classes)
    casts: dict[str, Cast] = {}
    gone: dict[str, list[str]] = {}
    for actor in manifest.actors:
        if actor.name in named:
            continue
        cast = _cast(actor, mapped_actor_class(mapped, recorded_class(actor)), read)
        if cast is None:
            gone.setdefault(recorded_class(actor), []).append(actor.name)
        else:
            casts[actor.name] = cast
    if gone and skip_missing_classes is not True:
        raise _gone(manifest, gone)
    left_out = {actor.name: recorded_class(actor) for actor in manifest.actors if actor.name not in casts}
    rest = without(manifest, left_out)
    names = {**_of_main(rest, casts.values(), read), **mapped}
    changed = changed_shapes(rest, names)
    problems = [line for cast in casts.values() for line in unmet(rest, cast, read)]
    problems += [line for actor in rest.actors for line in lost_parts(actor, changed, read)]
    if problems:
        raise CodeMismatch(
            f"snapshot {manifest.snapshot} does not fit the classes of this program: {_first(problems)}",
            problems=problems,
        )
    check_python(rest, casts.values(), read)
    names |= changed
    if any(set(cast.specification.methods) != set(cast.actor.methods) for cast in casts.values()):
        names[REBIND] = rebind_anew
    specifications = {name: cast.specification for name, cast in casts.items()}
    undeliverable = tuple(channel for channel in manifest.channels if channel.receiver in left_out)
    return Fit(rest, specifications, names, left_out, undeliverable)


def _cast(actor: ActorEntry, mapped: type | None, read: Callable[[Blob], bytes]) -> Cast | None:
    """How the actor is made here. The recorded class itself is used only if no class here has its name."""
    user_class = mapped or find_class(actor.class_module, actor.class_name)
    if user_class is not None:
        return Cast(actor, ActorSpecification.of(user_class, actor.options), user_class)
    if actor.class_pickle is None:
        return None
    by_value = read(actor.class_pickle)
    named = actor.class_module, actor.class_name
    return Cast(actor, ActorSpecification(*named, by_value, actor.methods, actor.options, actor.version), None)


def _of_main(manifest: Manifest, casts: Collection[Cast], read: Callable[[Blob], bytes]) -> dict[str, Any]:
    """Classes of this program's `__main__` that replace classes of the same names that the snapshot holds by value."""
    waiting = classes_of_main()
    found = {}
    for _, pickled in code_by_value(manifest, casts, read) if waiting else ():
        here = [name for name in waiting if mentions(pickled, name)]
        found.update({name: waiting.pop(name) for name in here})
    return found


def _to_leave_out(manifest: Manifest, skip_missing_classes: SkipMissing) -> Collection[str]:
    """The names of the actors that the user wants to leave out."""
    if isinstance(skip_missing_classes, bool):
        return ()
    if isinstance(skip_missing_classes, str) or not all(isinstance(name, str) for name in skip_missing_classes):
        raise ConfigError(f"skip_missing_classes={skip_missing_classes!r}: give True, or a list of actors' names")
    there = {actor.name for actor in manifest.actors}
    unknown = sorted(set(skip_missing_classes) - there)
    if unknown:
        raise ActorNotFound(
            f"snapshot {manifest.snapshot} has no {', '.join(unknown)} to leave out; it has "
            f"{', '.join(sorted(there)) or 'none'}{did_you_mean(unknown[0], there)}",
            actors=unknown,
        )
    return frozenset(skip_missing_classes)


def without(manifest: Manifest, left_out: Collection[str]) -> Manifest:
    """The manifest without the actors left out: they count as ended, and messages in flight to them are removed.

    Raises CodeMismatch if no actor would be left.
    """
    if not left_out:
        return manifest
    if len(left_out) == len(manifest.actors):
        raise CodeMismatch(f"no actor of snapshot {manifest.snapshot} is left: all have classes that are not here")
    return replace(
        manifest,
        actors=tuple(actor for actor in manifest.actors if actor.name not in left_out),
        ended=(*manifest.ended, *sorted(left_out)),
        channels=tuple(channel for channel in manifest.channels if channel.receiver not in left_out),
    )


def _first(problems: Sequence[str]) -> str:
    more = len(problems) - PROBLEMS_SHOWN_MAX
    return "; ".join([*problems[:PROBLEMS_SHOWN_MAX], *([f"and {more:,} more"] if more > 0 else [])])


def _gone(manifest: Manifest, gone: Mapping[str, list[str]]) -> CodeMismatch:
    whose = "; ".join(f"{recorded} is the class of {', '.join(names)}" for recorded, names in sorted(gone.items()))
    here = "; ".join(what_is_there(manifest, sorted(gone)))
    return CodeMismatch(
        f"this program has no {', '.join(sorted(gone))}, but snapshot {manifest.snapshot} has actors of it ({whose}). "
        f"It has {here}. Import the module that defines it, give its new name with "
        "rename_classes={'old.module.Class': NewClass}, or leave its actors out with skip_missing_classes=True",
        classes=sorted(gone),
        actors={recorded: tuple(names) for recorded, names in gone.items()},
    )


def read_renamed_classes(rename_classes: RenamedClasses | None) -> dict[str, Any]:
    """The classes of `rename_classes`. Classes given by name are imported.

    Raises ConfigError for a value that is neither a name nor a class.
    """
    if not isinstance(rename_classes or {}, Mapping):
        raise ConfigError(f"rename_classes={rename_classes!r}: give a dict, {{'old.module.Class': NewClass}}")
    found = {}
    for recorded, new in (rename_classes or {}).items():
        if not isinstance(recorded, str) or not all(recorded.split(".")) or "." not in recorded:
            raise ConfigError(f"rename_classes maps {recorded!r}: give the recorded name, 'old.module.Class'")
        mapped = user_class_of(find_dotted(new) if isinstance(new, str) else new)
        if mapped is None:
            raise ConfigError(f"rename_classes maps {recorded} to {new!r}, which is not a class of this program")
        found[recorded] = mapped
    return found


def mapped_actor_class(rename_classes: Mapping[str, Any], recorded: str) -> type | None:
    """The user's class to use for actors of the class `recorded`; None if the map does not mention it.

    Raises ConfigError for a class that cannot be an actor's class.
    """
    mapped = rename_classes.get(recorded)
    return None if mapped is None else check_class(mapped)


def classes_of_main() -> dict[str, Any]:
    """All classes that this program's `__main__` defines, by the names that a snapshot uses for classes of `__main__`.

    When a program starts again it defines its classes again; an older snapshot holds the earlier ones by value. As in a
    notebook, the last definition of a name counts.
    """
    main = sys.modules.get("__main__")
    return {} if main is None else {f"__main__.{name}": found for name, found in _classes_in(main, "")}


def _classes_in(holder: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, found in tuple(vars(holder).items()):
        user_class = user_class_of(found)
        if user_class is None:
            continue
        if (user_class.__module__, user_class.__qualname__) == ("__main__", f"{path}{name}"):
            yield f"{path}{name}", user_class
            yield from _classes_in(user_class, f"{path}{name}.")


def undeliverable(fit: Fit, read: Callable[[Blob], bytes]) -> tuple[DeadLetter, ...]:
    """One dead letter for each message, at most the last LETTERS_MAX of each channel. Raises Damaged, StoreError."""
    letters = []
    for channel in fit.undeliverable:
        why = (
            f"actor {channel.receiver!r} was left out of the restore of {fit.manifest.snapshot}: this program has no "
            f"{fit.left_out[channel.receiver]}, or it was named in skip_missing_classes"
        )
        frames = (frame for blob in channel.blobs() for frame in read_frames(read(blob)))
        messages = (message for frame in frames for message in read_messages(frame))
        letters += [
            DeadLetter(channel.receiver, channel.sender, message.number, message.method, why)
            for message in deque(messages, LETTERS_MAX)
        ]
    return tuple(letters)


def supply(
    specifications: Mapping[str, ActorSpecification], given: ActorOptions | None
) -> dict[str, ActorSpecification]:
    """The specifications of the restored actors, with the options that are `given` for the restore.

    Values of environment variables may be secrets: a snapshot has their names, and the user gives the values again.
    A placement group or a node's id belongs to one cluster: a snapshot has only the kind of strategy, which is dropped.

    Options for an actor win over options for its class. Raises ConfigError for an invalid option, for a key that names
    no actor or class, and for variables that have no value. Options that are dropped are logged.
    """
    checked = {_option_key(key): _checked_options(key, options) for key, options in (given or {}).items()}
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


def _option_key(key: object) -> str:
    user_class = user_class_of(key)
    if user_class is not None:
        return f"{user_class.__module__}.{user_class.__qualname__}"
    if not isinstance(key, str):
        raise ConfigError(f"options={{{key!r}: ...}}: give the name of an actor, or a class")
    return key


def _class_name(specification: ActorSpecification) -> str:
    return f"{specification.class_module}.{specification.class_name}"


def _checked_options(key: object, options: object) -> dict[str, Any]:
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
        if missing := [*_missing_variables(recorded.get("runtime_env", {}), options["runtime_env"])]:
            names = ", ".join(missing)
            raise ConfigError(
                f"actor {actor!r} was made with the environment variables {names}, whose values no snapshot holds: "
                f"give options={{{actor!r}: {{'runtime_env': {{'env_vars': {{{missing[0]!r}: ...}}}}}}}}, or "
                "{'runtime_env': None} for none. A class may stand for the actor's name",
                actor=actor,
                variables=missing,
            )
    return {key: value for key, value in options.items() if value is not None}


def _missing_variables(recorded: Mapping[str, Any], runtime_env: Mapping[str, Any]) -> Iterator[str]:
    """The names of recorded variables that have no value. Snapshots of older versions hold the values themselves."""
    names, values = recorded.get("env_vars", ()), runtime_env.get("env_vars", ())
    for name in names if isinstance(names, list) else ():
        if not isinstance(values, Mapping) or name not in values:
            yield str(name)
