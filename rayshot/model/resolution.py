"""The classes that a snapshot holds actors of, found again in this program."""

from collections.abc import Callable, Mapping

from rayshot.errors import CodeMismatch
from rayshot.format.manifest import Blob, Manifest
from rayshot.model.specification import ActorSpecification, find_class


def resolve_classes(
    manifest: Manifest, class_map: Mapping[str, type], read: Callable[[Blob], bytes]
) -> dict[str, ActorSpecification]:
    """The specification of each actor in this program; `class_map` says where classes moved.

    Raises CodeMismatch that names all classes not found.
    """
    specifications, lost = {}, set()
    for actor in manifest.actors:
        recorded = f"{actor.class_module}.{actor.class_name}"
        mapped = class_map.get(recorded) or find_class(actor.class_module, actor.class_name)
        if mapped is not None:
            user_class = getattr(mapped, "__rayshot_user_class__", mapped)
            specifications[actor.name] = ActorSpecification.of(user_class, actor.options)
        elif actor.class_pickle is not None:
            class_pickle = read(actor.class_pickle)
            specifications[actor.name] = ActorSpecification(
                actor.class_module, actor.class_name, class_pickle, actor.methods, actor.options
            )
        else:
            lost.add(recorded)
    if lost:
        raise CodeMismatch(
            f"this program has no {', '.join(sorted(lost))}, which snapshot {manifest.snapshot} holds actors of; "
            "import what defines it, or say where it went with class_map={'old.module.Class': NewClass}",
            classes=sorted(lost),
        )
    return specifications
