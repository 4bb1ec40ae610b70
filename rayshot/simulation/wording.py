"""Messages of simulated actors as words: for stories, and for whoever steps through a world."""

from typing import Any

from rayshot.format.codec import Frame, RecordedMessage, read_messages
from rayshot.format.inert import short_repr


def read(message: bytes, number: int) -> RecordedMessage:
    """An encoded message, decoded inertly."""
    (recorded,) = read_messages(Frame(number, 1, message))
    return recorded


def words(message: bytes) -> str:
    """An encoded message as the call that it is: `deposit(30)`."""
    return call_words(read(message, 1))


def call_words(recorded: RecordedMessage) -> str:
    """A decoded message as the call that it is."""
    arguments = [*map(value_words, recorded.args), *(f"{k}={value_words(v)}" for k, v in recorded.kwargs.items())]
    return f"{recorded.method or f'a {recorded.kind}'}({', '.join(arguments)})"


def value_words(value: Any) -> str:
    """A value, short."""
    return short_repr(value)
