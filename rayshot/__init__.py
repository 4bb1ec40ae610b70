"""Consistent snapshots of running Ray actors and of every message in flight between them.

The public face. Names are looked up on first use, so that `import rayshot` imports neither Ray nor PySpark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rayshot.format.codec import RecordedMessage as Message
    from rayshot.store.repository import open  # noqa: A004
    from rayshot.store.snapshot import Snapshot

_HOMES = {
    "Message": ("rayshot.format.codec", "RecordedMessage"),
    "Snapshot": ("rayshot.store.snapshot", "Snapshot"),
    "open": ("rayshot.store.repository", "open"),
}

__all__ = ["Message", "Snapshot", "open"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rayshot' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    value = globals()[name] = getattr(import_module(module), attribute)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
