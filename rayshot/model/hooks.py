"""Methods of an actor's class that rayshot calls; a message cannot.

`on_restore` and `on_rollback` are for what a state cannot hold, such as files and connections. `on_snapshot` and
`on_commit` are for what must be fixed outside at each snapshot, such as rows or shards: a class with one of them has
something outside, see `outside`.

What a hook sends is sent as from a thread of the actor. In `on_snapshot` it is sent before the cut; in `on_restore` it
leaves when all actors of the system are loaded.
"""

import inspect

from rayshot.errors import ConfigError

ON_SNAPSHOT = "on_snapshot"
"""Called between two handlers, before the state is recorded. It gives the payload, or a function that does."""
ON_COMMIT = "on_commit"
"""Called between two handlers, when a snapshot is durable and advances; again of that from which the actor goes on."""
ON_RESTORE = "on_restore"
"""Called on the new object, when it has its state and has handled no message."""
ON_ROLLBACK = "on_rollback"
"""Called on the old object, when its handlers have ended and before it is dropped."""
HAS_ROOM = "has_room"
"""Asked before messages are taken, if the class has something outside: while it is False, none is taken."""
_TAKES = {ON_SNAPSHOT: (1,), ON_COMMIT: (1,), ON_RESTORE: (0, 1), ON_ROLLBACK: (0,)}
"""How many arguments a hook may take besides self."""
HOOKS = frozenset(_TAKES)
HOOKS_S = 60
"""`on_restore` has so many seconds, unless the class says otherwise."""


def has_outside(user_class: type) -> bool:
    """Whether what a class fixes outside belongs to its snapshots."""
    return has_hook(user_class, ON_SNAPSHOT) or has_hook(user_class, ON_COMMIT)


def has_hook(user_class: type, name: str) -> bool:
    """Whether a class has this hook; a subclass takes one away with None."""
    return getattr(user_class, name, None) is not None


def takes_cut(user_class: type, name: str) -> bool:
    """Whether the hook `name` of this class takes the cut."""
    return _binds(inspect.getattr_static(user_class, name, None), 1)


def check_hooks(user_class: type) -> None:
    """Raise ConfigError for a hook that cannot be called on an object of the class as it will be."""
    for name, counts in _TAKES.items():
        hook = inspect.getattr_static(user_class, name, None)
        if hook is None:
            continue
        whose = f"{user_class.__qualname__}.{name}"
        if isinstance(hook, staticmethod | classmethod) or not callable(hook):
            raise ConfigError(f"{whose} is called on the actor's object: make it a method with {_in_words(name)}")
        if inspect.isgeneratorfunction(hook) or inspect.isasyncgenfunction(hook):
            raise ConfigError(f"{whose} is a generator: it is called once, and nobody would take what it yields")
        if not any(_binds(hook, count) for count in counts):
            raise ConfigError(f"{whose} is called with {_in_words(name)}")


def _in_words(name: str) -> str:
    return {(0,): "self alone", (1,): "self and the cut", (0, 1): "self, or self and the cut"}[_TAKES[name]]


def _binds(hook: object, count: int) -> bool:
    try:
        inspect.signature(hook).bind(None, *[None] * count)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True
