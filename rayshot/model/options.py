"""Options of actors: what there is, what is refused, and what a snapshot holds of them."""

from collections.abc import Mapping
from typing import Any

import msgpack

from rayshot.errors import ConfigError
from rayshot.format.suggestion import did_you_mean, porting, warn_of_retries
from rayshot.inert.inert_object import short_repr
from rayshot.inert.redaction import shown

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
    "outside": ("encrypted", "plain"),
    "prove": (True, False),
}
"""rayshot's own options with their values; the default is first."""
COUNT_OPTIONS = frozenset({"max_pending_calls", "max_concurrency", "hooks_s"})
"""Options whose value is a count of 1 or more; -1 means no limit for `max_pending_calls`, as in Ray."""
_REFUSED = {
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
"""Refused options, each with the reason and the line of the table in `rayshot help porting`."""
_DEFAULTS = (
    ("lifetime", "non_detached"),
    ("placement_group", "default"),
    ("placement_group_bundle_index", -1),
)
"""Values of refused options that have no effect; these are accepted."""
_NEEDLESS = frozenset({"max_restarts", "max_task_retries"})
"""Accepted with a warning: rayshot offers more than these options ask for."""


def check_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options without the unset ones; raise ConfigError for unknown, refused or unstorable options."""
    checked = {}
    for key, value in options.items():
        if key in _REFUSED and value not in (None, 0) and (key, value) not in _DEFAULTS:
            reason, line = _REFUSED[key]
            raise ConfigError(f"{key}={value!r} does not go with rayshot: {reason}; see {porting(line)}")
        if key in OWN_OPTIONS and value not in OWN_OPTIONS[key]:
            raise ConfigError(f"{key}={value!r}: give one of {', '.join(map(repr, OWN_OPTIONS[key]))}")
        unlimited = -1 if key == "max_pending_calls" else 1
        if key in COUNT_OPTIONS and not (value is None or (type(value) is int and (value > 0 or value == unlimited))):
            raise ConfigError(f"{key}={value!r}: give a count of 1 or more")
        if key not in (known := RAY_OPTIONS | OWN_OPTIONS.keys() | COUNT_OPTIONS) | _REFUSED.keys() | _NEEDLESS:
            there = f"{', '.join(sorted(known))}{did_you_mean(key, known)}"
            raise ConfigError(f"there is no option {key!r}; there are {there}")
        if value is not None and key not in _REFUSED.keys() | _NEEDLESS:
            checked[key] = _storable(key, value)
    if needless := {key: options[key] for key in _NEEDLESS if options.get(key)}:
        warn_of_retries(needless, "options of an actor")
    return checked


def stored(key: str, value: Any) -> Any:
    """The form of an option in a snapshot: only the names of variables, only the type of a strategy for one cluster."""
    if key == "runtime_env" and isinstance(value, Mapping):
        variables = value.get("env_vars")
        return {**value, **({"env_vars": sorted(variables)} if isinstance(variables, Mapping) else {})}
    if key == "scheduling_strategy" and type(value).__module__.startswith("ray."):
        return {"dropped": type(value).__name__}
    return value


def _storable(key: str, value: Any) -> Any:
    try:
        msgpack.packb(stored(key, value), strict_types=True)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(
            f"{key}={short_repr(shown(key, value))} cannot be stored with a snapshot: give plain numbers and texts"
        ) from error
    return value
