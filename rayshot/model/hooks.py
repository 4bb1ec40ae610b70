"""Methods of an actor's class that rayshot calls when the actor becomes what it was in a snapshot.

They are for what a state cannot hold, such as files and connections. A message cannot call them.
What they send is sent as from a thread of the actor: it leaves when all actors of the system are loaded.
"""

import inspect

from rayshot.errors import ConfigError

ON_RESTORE = "on_restore"
"""Called on the new object, when it has its state and has handled no message."""
ON_ROLLBACK = "on_rollback"
"""Called on the old object, when its handlers have ended and before it is dropped."""
HOOKS = frozenset({ON_RESTORE, ON_ROLLBACK})


def check_hooks(user_class: type) -> None:
    """Raise ConfigError for a hook that cannot be called without arguments on an object of the class."""
    for name in sorted(HOOKS):
        hook = inspect.getattr_static(user_class, name, None)
        if hook is None:
            continue
        whose = f"{user_class.__qualname__}.{name}"
        if isinstance(hook, staticmethod | classmethod) or not callable(hook):
            raise ConfigError(f"{whose} is called on the actor's object: make it a method with self alone")
        if inspect.isgeneratorfunction(hook) or inspect.isasyncgenfunction(hook):
            raise ConfigError(f"{whose} is a generator: it is called once, and nobody would take what it yields")
        try:
            inspect.signature(hook).bind(None)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{whose} is called with self alone: {error}") from error
