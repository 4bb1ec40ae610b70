"""Whether two values of the inert reader have the same content. Cycles are allowed."""

from collections.abc import Iterable, Iterator
from typing import Any

from rayshot.inert.anatomy import anatomy_of, leaf_of
from rayshot.inert.inert_object import HandleRecord, short_repr

PAIRS_MAX = 50_000_000
"""It compares at most so many pairs. Two values that need more count as different."""

_Pairs = Iterable[tuple[Any, Any]]
_DIFFERENT: _Pairs = ((True, False),)
_KEYS = frozenset({str, bytes, int})
_BY_EQUALITY = (str, bytes, bytearray, memoryview, int, HandleRecord)


def alike(one: Any, other: Any) -> bool:
    """Whether both have the same types, content and shape.

    NaN is like NaN, but 1 is not like 1.0 or True, nor 0.0 like -0.0, nor a time like the same moment in another zone:
    alike is what has the same `content_digest`, if nothing in it is redacted. Records are compared by name, arguments
    and state, sets and keys regardless of their order. Recursion and sharing cost nothing: each pair of objects is
    compared once.
    """
    seen: dict[tuple[int, int], tuple[Any, Any]] = {}  # holds the objects, so that no id is used again
    waiting: list[Iterator[tuple[Any, Any]]] = [iter([(one, other)])]
    while waiting:
        pair = next(waiting[-1], None)
        if pair is None:
            waiting.pop()
            continue
        key = id(pair[0]), id(pair[1])
        if pair[0] is pair[1] or key in seen:
            continue
        parts = _compare(*pair)
        if parts is _DIFFERENT or len(seen) >= PAIRS_MAX:
            return False
        if parts:
            seen[key] = pair
            waiting.append(iter(parts))
    return True


def _compare(one: Any, other: Any) -> _Pairs:
    """The pairs of parts that must be alike for these two to be; _DIFFERENT where that is known already."""
    if type(one) is not type(other):
        return _DIFFERENT
    if isinstance(one, float) and one == other and one != 0:
        return ()
    if isinstance(one, _BY_EQUALITY):
        return () if one == other else _DIFFERENT
    found, twin = anatomy_of(one), anatomy_of(other)
    if found is None or twin is None:
        return () if found is twin and _leaf(one) == _leaf(other) else _DIFFERENT
    facts, parts, order = found
    if facts != twin[0] or len(parts) != len(twin[1]):
        return _DIFFERENT
    if order == "keyed":
        return _compare_dicts(one, other)
    return _compare_sets(one, other) if order == "unordered" else zip(parts, twin[1], strict=True)


def _leaf(value: Any) -> tuple[str, list[bytes]]:
    kind, parts = leaf_of(value, redacted=False)
    return kind, list(parts)


def _compare_dicts(one: dict[Any, Any], other: dict[Any, Any]) -> _Pairs:
    if all(key in other for key in one):
        return [*_twins(one, other), *((value, other[key]) for key, value in one.items())]
    ordered = zip(sorted(one.items(), key=_by_key), sorted(other.items(), key=_by_key), strict=True)
    return [pair for (key, value), (key2, value2) in ordered for pair in ((key, key2), (value, value2))]


def _by_key(item: tuple[Any, Any]) -> str:
    return short_repr(item[0])


def _compare_sets(one: Any, other: Any) -> _Pairs:
    if one == other:
        return _twins(one, other)
    return list(zip(sorted(one, key=short_repr), sorted(other, key=short_repr), strict=True))


def _twins(one: Iterable[Any], other: Iterable[Any]) -> _Pairs:
    """Each of `one` with what equals it in `other`: 1 with 1.0, for example. Those of _KEYS only equal themselves."""
    if set(map(type, one)) | set(map(type, other)) <= _KEYS:
        return ()
    twins = {item: item for item in other}
    return [(item, twins[item]) for item in one]
