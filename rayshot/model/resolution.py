"""A snapshot as this program can load it: every class is found, or the reason given, before anything starts."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rayshot.errors import ActorNotFound, CodeMismatch, ConfigError
from rayshot.format.by_value import Names
from rayshot.format.manifest import ActorEntry, Blob, ChannelEntry, Manifest
from rayshot.format.pickle_bytes import mentions
from rayshot.format.suggestion import did_you_mean
from rayshot.model.changed_shapes import changed_shapes, lost_parts
from rayshot.model.handle import REBIND, rebind_anew
from rayshot.model.rename_classes import RenamedClasses, classes_of_main, mapped_actor_class, read_renamed_classes
from rayshot.model.requirements import Cast, check_python, code_by_value, recorded_class, unmet, what_is_there
from rayshot.model.specification import ActorSpecification, find_class

PROBLEMS_SHOWN_MAX = 10
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
    named = _named(manifest, skip_missing_classes)
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


def _named(manifest: Manifest, skip_missing_classes: SkipMissing) -> Collection[str]:
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
