"""The specification of an actor: its class, which any process can find again, and its options."""

import inspect
import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import msgpack

from rayshot.errors import BadManifest, CodeMismatch, ConfigError, LoopNotRepeatable
from rayshot.format.classes_by_value import Names, attribute_of
from rayshot.format.global_names import find_global
from rayshot.format.msgpack_walk import count_documents
from rayshot.format.pickle_bytes import mentions
from rayshot.format.pickling import dump_class, load_class
from rayshot.format.suggestion import porting
from rayshot.model.hooks import HOOKS, HOOKS_S, ON_COMMIT, ON_SNAPSHOT, check_hooks, has_hook, has_outside
from rayshot.model.loop_check import has_loop
from rayshot.model.methods import check_methods, methods_of
from rayshot.model.options import RAY_OPTIONS, check_options, stored
from rayshot.model.versions import hooks_of, version_of

_CONTAINERS = (dict, list, set, frozenset, tuple, str, bytes, bytearray, int, float, deque)
"""Types whose instances hold more than attributes."""


@dataclass(frozen=True, slots=True)
class ActorSpecification:
    """Class and options of an actor.

    `class_pickle` holds the class by value if no other process can import it (a script, a notebook). Only the same
    minor version of Python may unpickle it. `version` is the version of the state, as the class declares it.
    """

    class_module: str
    class_name: str
    class_pickle: bytes | None
    methods: tuple[str, ...]
    options: Mapping[str, Any]
    version: int = 1

    @classmethod
    def of(cls, user_class: type, options: Mapping[str, Any]) -> "ActorSpecification":
        """Specify `user_class`. Raises ConfigError if rayshot does not support an option."""
        module, name = user_class.__module__, user_class.__qualname__
        by_value = not _importable(module, name)
        checked = check_options(options)
        check_given(user_class, checked)
        return cls(
            module,
            name,
            dump_class(user_class) if by_value else None,
            handlers_of(user_class),
            checked,
            version_of(user_class),
        )

    @property
    def capture(self) -> str:
        """How the state is captured: "auto", "fork" or "inline"."""
        return str(self.options.get("capture", "auto"))

    @property
    def on_error(self) -> str:
        """What an exception in a tell's handler does: "continue" or "stop"."""
        return str(self.options.get("on_error", "continue"))

    @property
    def deterministic(self) -> bool:
        """Whether the user says that the same messages in the same order always give the same state; for replays."""
        return self.options.get("deterministic") is True

    @property
    def hooks_s(self) -> float:
        """The hook `on_restore` has so many seconds: all others wait for it."""
        return float(self.options.get("hooks_s", HOOKS_S))

    @property
    def has_plain_files(self) -> bool:
        """Whether its files in `cut.folder` may lie beside encrypted snapshots as they are."""
        return self.options.get("outside") == "plain"

    @property
    def reloads_in_place(self) -> bool:
        """Whether the actor goes back to a snapshot in its process, and not in a new one."""
        return bool(self.options.get("reload", "place") == "place")

    @property
    def proves(self) -> bool:
        """Whether recorded states are loaded for trial before a snapshot is committed."""
        return self.options.get("prove", True) is True

    @property
    def calls_max(self) -> int | None:
        """How many calls of one driver may wait for their results; None: any number."""
        limit = self.options.get("max_pending_calls", -1)
        return None if limit == -1 else int(limit)

    @property
    def at_once(self) -> int:
        """How many of its handlers may run at once, in turns; 1: each runs to its end before the next one begins."""
        return int(self.options.get("max_concurrency", 1))

    @property
    def ray_options(self) -> dict[str, Any]:
        """The options that are passed to Ray."""
        return {key: value for key, value in self.options.items() if key in RAY_OPTIONS}

    def resolve(self) -> type:
        """The user's class in this process. Raises CodeMismatch if it cannot be found."""
        found = find_class(self.class_module, self.class_name)
        if found is not None:
            return found
        if self.class_pickle is not None:
            return load_class(self.class_pickle)
        raise CodeMismatch(
            f"class {self.class_module}.{self.class_name} is not to be found in this program; "
            f"if it moved, say restore(..., rename_classes={{'{self.class_module}.{self.class_name}': NewClass}})",
            class_name=f"{self.class_module}.{self.class_name}",
        )

    def recast(self, names: Names) -> "ActorSpecification":
        """The specification, with today's classes among the bases and in the methods of a class by value."""
        if self.class_pickle is None or not any(mentions(self.class_pickle, name) for name in names):
            return self
        return replace(self, class_pickle=dump_class(load_class(self.class_pickle, names)))

    def pack(self) -> bytes:
        """The specification as bytes, for the message that creates the actor and for snapshots: see `options`."""
        named = self.class_module, self.class_name, self.class_pickle
        options = {key: stored(key, value) for key, value in self.options.items()}
        fields = (*named, self.methods, options, self.version)
        packed = msgpack.packb(fields, use_bin_type=True)
        assert isinstance(packed, bytes)
        return packed

    @classmethod
    def unpack(cls, packed: bytes) -> "ActorSpecification":
        """Read what `pack` wrote. Raises BadManifest for anything else."""
        try:
            fields = msgpack.unpackb(packed) if count_documents(packed, 1) == 1 else None
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise BadManifest(f"an actor's specification cannot be read: {error}") from error
        match fields:
            case [str(module), str(name), bytes() | None as class_pickle, list(methods), dict(options), int(version)]:
                return cls(module, name, class_pickle, tuple(methods), options, version)
        raise BadManifest("an actor's specification cannot be read")


class ActorMaker:
    """What makes actors of a class with options. It is called, inherited from and asked for instances as the class."""

    def __init__(self, user_class: type, options: Mapping[str, Any]) -> None:
        self._class = user_class  # states hold these two by their names
        self._options = options

    @property
    def user_class(self) -> type:
        """The class."""
        return self._class

    @property
    def given(self) -> Mapping[str, Any]:
        """The options."""
        return self._options

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """A plain object of the class."""
        return self._class(*args, **kwargs)

    def __mro_entries__(self, _bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (self._class,)

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, self._class)


def handlers_of(user_class: type) -> tuple[str, ...]:
    """Names of the methods that a handle offers, sorted."""
    hooks = HOOKS | hooks_of(user_class)
    return tuple(name for name in methods_of(user_class) if name not in hooks)


def check_given(user_class: type, options: Mapping[str, Any]) -> None:
    """Raise ConfigError if an option does not go with the class."""
    if options.get("deterministic") is True and has_outside(user_class):
        raise ConfigError(
            f"{user_class.__qualname__} is declared deterministic, and its {ON_SNAPSHOT} or {ON_COMMIT} changes it "
            "beside its messages: a replay could not tell"
        )
    at_once = options.get("max_concurrency", 1)
    for name in (ON_SNAPSHOT, ON_COMMIT) if at_once > 1 else ():
        if inspect.iscoroutinefunction(attribute_of(user_class, name) if has_hook(user_class, name) else None):
            raise ConfigError(
                f"{user_class.__qualname__}.{name} is a coroutine function, and with max_concurrency={at_once} it is "
                "called while the loop runs: make it a plain method, and return a function for what takes long"
            )
    if at_once > 1 and not any(
        inspect.iscoroutinefunction(attribute_of(user_class, name)) for name in methods_of(user_class)
    ):
        raise ConfigError(
            f"max_concurrency={at_once} of {user_class.__qualname__}, which has no `async def` method: no snapshot can "
            f"hold handlers on several threads; see {porting('max-concurrency')}"
        )


def check_class(user_class: type) -> type:
    """Return `user_class` if its methods can be handlers; raise ConfigError with the reason if not."""
    if issubclass(user_class, _CONTAINERS):
        raise ConfigError(
            f"{user_class.__qualname__} is a {user_class.__mro__[-2].__name__}; an actor's state is its attributes: "
            "keep it in one of them"
        )
    if Protocol in user_class.__bases__:
        raise ConfigError(
            f"{user_class.__qualname__} is a Protocol, which has no objects: decorate its implementations"
        )
    check_methods(user_class)
    for name in methods_of(user_class):
        has_loop(user_class, name)  # it raises LoopNotRepeatable
    if has_loop(user_class, "__init__"):
        raise LoopNotRepeatable(
            f"{user_class.__qualname__}.__init__ has a rayshot.loop: a constructor comes to its end"
        )
    check_hooks(user_class)
    return user_class


def find_class(module: str, name: str) -> type | None:
    """The user's class of that module and qualified name, imported if needed; None if there is no such class.

    Raises CodeMismatch if the module exists but fails during its import.
    """
    return user_class_of(find_global(module, name))


def user_class_of(found: Any) -> type | None:
    """The class that an object is, or of which it makes actors, also Ray's; None for others. Runs nothing of it."""
    if issubclass(type(found), ActorMaker):
        return found.user_class  # type: ignore[no-any-return]
    metadata = inspect.getattr_static(found, "__ray_metadata__", None)
    if metadata is not None:
        found = getattr(metadata.modified_class, "__ray_actor_class__", None)
    return found if issubclass(type(found), type) else None


def is_imported(user_class: type) -> bool:
    """Whether the class stands in a module whose import is done: other processes find it there as it is there."""
    module, name = user_class.__module__, user_class.__qualname__
    if not _importable(module, name) or getattr(sys.modules[module].__spec__, "_initializing", False):
        return False
    return find_class(module, name) is user_class


def _importable(module: str, name: str) -> bool:
    """Whether another process can find the class by its name: its module was imported in the normal way."""
    if module == "__main__" or "<locals>" in name:
        return False
    found = sys.modules.get(module)
    return found is not None and getattr(found, "__spec__", None) is not None
