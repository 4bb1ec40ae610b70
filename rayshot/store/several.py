"""Makes several calls of the store at once."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

AT_ONCE = 8
"""Threads for chunks. While some wait for the disk or the network, others hash, compress and expand."""

SMALL_AT_ONCE = 32
"""Threads for small objects, which mostly wait."""


@contextmanager
def several_at_once(count: int, name: str, at_once: int = AT_ONCE) -> Iterator[Callable[..., Any]]:
    """A `map` for about `count` calls. For several calls it uses up to `at_once` threads, which it ends."""
    if count > 1:
        with ThreadPoolExecutor(min(count, at_once), name) as pool:
            yield pool.map
    else:
        yield map
