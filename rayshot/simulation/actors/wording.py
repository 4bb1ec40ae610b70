"""Messages of simulated actors as words, for stories and for users who step through a world."""

from typing import Any

from rayshot.format.codec import Frame, RecordedMessage, read_messages
from rayshot.format.inert import short_repr
from rayshot.format.redaction import shown_call


def read(message: bytes, number: int) -> RecordedMessage:
    """An encoded message, decoded inertly."""
    (recorded,) = read_messages(Frame(number, 1, message))
    return recorded


def words(message: bytes) -> str:
    """An encoded message as a call: `deposit(30)`."""
    return call_words(read(message, 1))


def call_words(recorded: RecordedMessage) -> str:
    """A decoded message as a call."""
    args, kwargs = shown_call(recorded.method, recorded.args, recorded.kwargs)
    arguments = [*map(value_words, args), *(f"{name}={value_words(value)}" for name, value in kwargs.items())]
    return f"{recorded.method or f'a {recorded.kind}'}({', '.join(arguments)})"


def value_words(value: Any) -> str:
    """A value as a short text."""
    return short_repr(value)
