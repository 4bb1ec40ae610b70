"""Every run of a small world, not a sample: an odometer that counts through all its choices, depth first.

Stateless model checking: a world is a function of its choices, so each run begins anew and repeats the decisions of the
one before up to the last that has an alternative left. A world that tells the odometer the state it has come to is cut
short where an earlier run was: what can follow from there was, or is going to be, explored from the first visit. This
needs two things of the world: that its state, as it tells it, holds all that its future and its judges depend on, and
that no state comes back later in one run.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from enum import Enum
from hashlib import blake2b
from typing import Any

from rayshot.protocol.identity import SnapshotId

_PLAIN = frozenset({int, str, bool, type(None)})


class VisitedState(Exception):
    """An earlier run was in this state."""


class Odometer:
    """The decisions of one run (see Choices): those of `prefix`, and behind its end 0 every time.

    `taken` are the decisions so far, and `counts` says of each how many alternatives there were.
    """

    def __init__(self, prefix: Sequence[int] = (), visited: set[bytes] | None = None) -> None:
        self.taken: list[int] = []
        self.counts: list[int] = []
        self._prefix = prefix
        self._visited = visited

    def choose(self, count: int) -> int:
        """See Choices."""
        index = len(self.taken)
        choice = self._prefix[index] if index < len(self._prefix) else 0
        assert 0 <= choice < count, f"decision {index} is {choice} of {count}: the world is not a function of choices"
        self.taken.append(choice)
        self.counts.append(count)
        return choice

    def reached(self, state: Callable[[], object]) -> None:
        """Tell the state that the world has come to; its `repr` must say all of it, the same in every run.

        Raises VisitedState, to be let through, if an earlier run was there.
        """
        if self._visited is None or len(self.taken) < len(self._prefix):
            return  # on the way that an earlier run went as well
        digest = blake2b(repr(state()).encode(), digest_size=16).digest()
        if digest in self._visited:
            raise VisitedState
        self._visited.add(digest)

    def next_prefix(self) -> list[int] | None:
        """The decisions of the next run: the last one that has an alternative left takes it. None: all were had."""
        for index in range(len(self.taken) - 1, -1, -1):
            if self.taken[index] + 1 < self.counts[index]:
                return [*self.taken[:index], self.taken[index] + 1]
        return None


@dataclass(frozen=True, slots=True)
class Enumeration:
    """What came of it. `complete`: there is no further run, and none failed.

    `runs` were begun, `finished` of them came to their end, the others to a visited state; `states` were told apart
    (0 if states were not compared); `decisions_max` is the length of the longest run. `failure` is what the last run
    raised, and `choices` are its decisions: RecordedChoices repeats it.
    """

    runs: int
    finished: int
    states: int
    decisions_max: int
    complete: bool
    failure: Exception | None = None
    choices: Sequence[int] = ()


def enumerate_runs(
    run: Callable[[Odometer], object], *, runs_max: int = 1_000_000, merge_states: bool = True
) -> Enumeration:
    """Call `run` once for every sequence of decisions that it can take, in lexicographic order, until one fails.

    `run` must depend on its decisions alone, and take finitely many. With `merge_states` it is cut short in states that
    it tells and that were visited (see Odometer.reached); without, states are not compared and every run comes to its
    end. An AssertionError - an oracle's, or of the machines themselves - or a LookupError is a failure of the run.
    """
    visited: set[bytes] | None = set() if merge_states else None
    runs = finished = decisions_max = 0
    prefix: list[int] | None = []
    while prefix is not None and runs < runs_max:
        source = Odometer(prefix, visited)
        runs += 1
        failure: Exception | None = None
        try:
            run(source)
            finished += 1
        except VisitedState:
            pass
        except (AssertionError, LookupError) as error:
            failure = error
        decisions_max = max(decisions_max, len(source.taken))
        if failure is not None:
            return Enumeration(
                runs, finished, len(visited or ()), decisions_max, complete=False, failure=failure, choices=source.taken
            )
        prefix = source.next_prefix()
    return Enumeration(runs, finished, len(visited or ()), decisions_max, complete=prefix is None)


def frozen(value: Any) -> Any:
    """Return `value` as nested tuples whose `repr` says all of it, the same in every run.

    In a mapping by snapshot the order may decide what is done first, and is kept; in others it means nothing.
    """
    kind = type(value)
    if kind in _PLAIN or isinstance(value, Enum):
        return value
    if kind is tuple or kind is list or kind is deque:
        return tuple([frozen(item) for item in value])
    if kind is dict or isinstance(value, Mapping):
        items = [(frozen(key), frozen(item)) for key, item in value.items()]
        return tuple(items if SnapshotId in map(type, value) else sorted(items, key=_repr_of_key))
    if kind is set or kind is frozenset:
        return tuple(sorted(map(frozen, value), key=repr))
    if isinstance(value, tuple):
        return tuple([frozen(item) for item in value])
    names = kind.__dataclass_fields__ if is_dataclass(value) else sorted(vars(value))
    return (kind.__name__, *[frozen(getattr(value, name)) for name in names])


def _repr_of_key(item: tuple[Any, Any]) -> str:
    return repr(item[0])
