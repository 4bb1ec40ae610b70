"""The specification of an actor: its class, which any process can find again, and its options."""

import importlib
import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgpack

from rayshot.errors import BadManifest, CodeMismatch, ConfigError
from rayshot.format.by_value import Names
from rayshot.format.inert_record import short_repr
from rayshot.format.pickle_bytes import mentions
from rayshot.format.pickling import dump_class, load_class
from rayshot.format.redaction import shown
from rayshot.format.suggestion import did_you_mean
from rayshot.format.walking import count_documents
from rayshot.model.hooks import HOOKS, check_hooks
from rayshot.model.methods import check_methods, methods_of, porting, warn_of_retries
from rayshot.model.versions import hooks_of, version_of

RAY_OPTIONS = frozenset(
    {
        "accelerator_type",
        "label_selector",
        "memory",
        "num_cpus",
        "num_gpus",
        "object_store_memory",
        "resources",
        "runtime_env",
        "scheduling_strategy",
    }
)
"""Options that are passed to Ray unchanged."""
OWN_OPTIONS: Mapping[str, tuple[object, ...]] = {
    "capture": ("auto", "fork", "inline"),
    "on_error": ("continue", "stop"),
    "deterministic": (False, True),
    "reload": ("place", "process"),
    "prove": (True, False),
}
"""rayshot's own options with their values; the default is first."""
COUNT_OPTIONS = frozenset({"max_pending_calls"})
"""Options whose value is a count of 1 or more; -1 means no limit, as in Ray."""
_REFUSED = {
    "max_concurrency": ("handlers of one actor run one at a time", "max-concurrency"),
    "concurrency_groups": ("handlers of one actor run one at a time", "concurrency-groups"),
    "lifetime": ("actors live as long as their system, which its drivers may leave", "detached"),
    "namespace": ("actors live in their system, where names are looked up", "namespaces"),
    "allow_out_of_order_execution": ("the messages of one sender are handled in their order", "out-of-order"),
    "placement_group": ("give it as scheduling_strategy=PlacementGroupSchedulingStrategy(group)", "placement-options"),
    "placement_group_bundle_index": ("give it in a PlacementGroupSchedulingStrategy", "placement-options"),
    "enable_task_events": ("Ray would list batches of messages, and no calls", "task-events"),
    "fallback_strategy": ("an actor has one strategy: give scheduling_strategy", "placement-options"),
    "get_if_exists": ("give it beside the name, Class.options(name=..., get_if_exists=True)", "get-if-exists"),
}
"""Refused options, each with the reason and the line of the table in docs/porting.md."""
_DEFAULTS = (
    ("max_concurrency", 1),
    ("lifetime", "non_detached"),
    ("placement_group", "default"),
    ("placement_group_bundle_index", -1),
)
"""Values of refused options that have no effect; these are accepted."""
_NEEDLESS = frozenset({"max_restarts", "max_task_retries"})
"""Accepted with a warning: rayshot offers more than these options ask for."""
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
        return cls(
            module,
            name,
            dump_class(user_class) if by_value else None,
            tuple(name for name in methods_of(user_class) if name not in HOOKS | hooks_of(user_class)),
            check_options(options),
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
        """The specification as bytes, for the message that creates the actor and for snapshots: see stored_options."""
        named = self.class_module, self.class_name, self.class_pickle
        options = {key: _stored(key, value) for key, value in self.options.items()}
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


def check_class(user_class: type) -> type:
    """Return `user_class` if its methods can be handlers; raise ConfigError with the reason if not."""
    if issubclass(user_class, _CONTAINERS):
        raise ConfigError(
            f"{user_class.__qualname__} is a {user_class.__mro__[-2].__name__}; an actor's state is its attributes: "
            "keep it in one of them"
        )
    check_methods(user_class)
    check_hooks(user_class)
    return user_class


def check_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options without the unset ones; raise ConfigError for unknown, refused or unstorable options."""
    checked = {}
    for key, value in options.items():
        if key in _REFUSED and value not in (None, 0) and (key, value) not in _DEFAULTS:
            reason, line = _REFUSED[key]
            raise ConfigError(f"{key}={value!r} does not go with rayshot: {reason}; see {porting(line)}")
        if key in OWN_OPTIONS and value not in OWN_OPTIONS[key]:
            raise ConfigError(f"{key}={value!r}: give one of {', '.join(map(repr, OWN_OPTIONS[key]))}")
        if key in COUNT_OPTIONS and not (value is None or (type(value) is int and (value > 0 or value == -1))):
            raise ConfigError(f"{key}={value!r}: give a count of 1 or more")
        if key not in (known := RAY_OPTIONS | OWN_OPTIONS.keys() | COUNT_OPTIONS) | _REFUSED.keys() | _NEEDLESS:
            there = f"{', '.join(sorted(known))}{did_you_mean(key, known)}"
            raise ConfigError(f"there is no option {key!r}; there are {there}")
        if value is not None and key not in _REFUSED.keys() | _NEEDLESS:
            checked[key] = _storable(key, value)
    if needless := {key: options[key] for key in _NEEDLESS if options.get(key)}:
        warn_of_retries(needless, "options of an actor")
    return checked


def find_class(module: str, name: str) -> type | None:
    """The user's class of that module and qualified name, imported if needed; None if there is no such class.

    Raises CodeMismatch if the module exists but fails during its import.
    """
    return user_class_of(find_global(module, name))


def user_class_of(found: Any) -> type | None:
    """The user's class behind an object that may be a class, decorated or not; None if it is not a class."""
    found = getattr(found, "__rayshot_user_class__", found)
    return found if isinstance(found, type) else None


def find_global(module: str, name: str) -> Any:
    """The object with that qualified name in a module; None if there is no such object. Raises as `find_class`."""
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


def _importable(module: str, name: str) -> bool:
    """Whether another process can find the class by its name: its module was imported in the normal way."""
    if module == "__main__" or "<locals>" in name:
        return False
    found = sys.modules.get(module)
    return found is not None and getattr(found, "__spec__", None) is not None


def _storable(key: str, value: Any) -> Any:
    try:
        msgpack.packb(_stored(key, value), strict_types=True)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(
            f"{key}={short_repr(shown(key, value))} cannot be stored with a snapshot: give plain numbers and texts"
        ) from error
    return value


def _stored(key: str, value: Any) -> Any:
    """The form of an option in a snapshot: only the names of variables, only the type of a strategy for one cluster."""
    if key == "runtime_env" and isinstance(value, Mapping):
        variables = value.get("env_vars")
        return {**value, **({"env_vars": sorted(variables)} if isinstance(variables, Mapping) else {})}
    if key == "scheduling_strategy" and type(value).__module__.startswith("ray."):
        return {"dropped": type(value).__name__}
    return value
