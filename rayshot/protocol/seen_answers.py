"""What a driver saw as answers, and what it sent behind each: in a later life, the same call may be answered otherwise.

A driver's program decides by itself, and its decisions cannot be undone: a rollback gives its calls again, and its
later messages too, whatever the new answers are. So the driver compares. An answer is a few bytes here, which differ if
two answers differ. An answer counts as changed when the driver has sent something since it saw the answer: before that,
nothing can have followed from it in the system.

A second rollback may change the answer once more. It is compared with what the driver was last told of.
"""

from dataclasses import dataclass, field

from rayshot.protocol.driver_events import TellOfChange

KEPT_MAX = 65_536
"""So many answers are compared, of those that no durable cut holds: the first ones."""

_Key = tuple[str, int]


@dataclass(slots=True)
class _Behind:
    """The `first` message that followed the answers which were seen between two messages; None while none has."""

    first: _Key | None = None


@dataclass(slots=True)
class _Seen:
    """An answer as the driver was last told of it; b"" is not compared."""

    answer: bytes
    behind: _Behind


@dataclass(slots=True)
class SeenAnswers:
    """See the module. An answer is known by its receiver and the number of the answered message."""

    _seen: dict[_Key, _Seen | None] = field(default_factory=dict)
    """None: the answer is not compared."""
    _compared: int = 0
    """How many of them are compared."""
    _now: _Behind = field(default_factory=_Behind)
    """For the answers that are seen before the next message."""
    _is_new: bool = True
    """Whether no answer is in it yet."""
    _changed: dict[_Key, bytes] = field(default_factory=dict)
    """Those in it that were given otherwise since, as they were given last."""

    def __contains__(self, key: _Key) -> bool:
        return key in self._seen

    def __len__(self) -> int:
        return len(self._seen)

    def saw(self, key: _Key, answer: bytes) -> None:
        """The driver saw an answer for the first time; b"": it is not to be compared."""
        assert key not in self._seen, f"{key} was seen before"
        if not answer or self._compared >= KEPT_MAX:
            self._seen[key] = None
            return
        self._seen[key] = _Seen(answer, self._now)
        self._compared += 1
        self._is_new = False

    def given_again(self, key: _Key, answer: bytes) -> tuple[TellOfChange, ...]:
        """A later life gave the answer again. Returns whether that is another one, and something followed the first."""
        assert key in self._seen, f"{key} was never seen"
        seen = self._seen[key]
        if seen is None or not answer:
            return ()
        if seen.behind.first is not None:
            return self._compare(key, answer)
        self._changed[key] = answer
        return ()

    def sent(self, receiver: str, number: int) -> tuple[TellOfChange, ...]:
        """The driver sent a message. Returns which of the answers before it have changed without it knowing."""
        if self._is_new:
            return ()
        assert self._now.first is None, f"{self._now.first} followed already"
        self._now.first = receiver, number
        self._now, self._is_new = _Behind(), True
        changed, self._changed = self._changed, {}
        return tuple(found for key, answer in changed.items() for found in self._compare(key, answer))

    def _compare(self, key: _Key, answer: bytes) -> tuple[TellOfChange, ...]:
        seen = self._seen[key]
        assert seen is not None, f"{key} is not compared"
        before, seen.answer, first = seen.answer, answer, seen.behind.first
        assert first is not None, f"nothing followed {key}"
        return () if answer == before else (TellOfChange(*key, before, answer, first),)

    def forget(self, key: _Key) -> None:
        """No later life gives this answer again."""
        self._compared -= self._seen.pop(key) is not None
        self._changed.pop(key, None)
