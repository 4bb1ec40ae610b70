"""Results that bring news of open snapshots to every process that reads them.

The driver that made a call hears of these snapshots from the tags of its answer. But it may pass the reference to the
result to a plain task before that, and the messages of that task must bring the news too.
"""

from typing import Any

from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.door import door


class WithNews:
    """A result that is unpickled as its value, and tells the process of snapshots whose effects it may show."""

    def __init__(self, value: Any, life: bytes, tags: tuple[SnapshotId, ...]) -> None:
        self._value = value
        self._news = life, tags

    def __reduce__(self) -> tuple[Any, ...]:
        return _told, (self._value, *self._news)


class ErrorWithNews(WithNews, door.Raised):  # type: ignore[misc]
    """A result that is an error, and that Ray must see as an error."""

    def __init__(self, error: door.Raised, *news: Any) -> None:
        self.__dict__.update(error.__dict__)
        super().__init__(error, *news)


def with_news(value: Any, life: bytes, tags: tuple[SnapshotId, ...]) -> Any:
    """The value, wrapped if there is news; `life` is the life of the actor that answered."""
    wrapped = ErrorWithNews if isinstance(value, door.Raised) else WithNews
    return wrapped(value, life, tags) if tags else value


def _told(value: Any, life: bytes, tags: tuple[SnapshotId, ...]) -> Any:
    import rayshot  # noqa: PLC0415 - an actor's process needs no drivers, and their code is above this room

    rayshot._hear(life, tags)  # noqa: SLF001
    return value
