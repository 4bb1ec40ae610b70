"""Several calls of the store at once, where there are several to be made."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

AT_ONCE = 8
"""While some wait for the disk or the network, others hash, compress and expand."""

SMALL_AT_ONCE = 32
"""Of small objects, which are all waiting and no work."""


@contextmanager
def several_at_once(count: int, name: str, at_once: int = AT_ONCE) -> Iterator[Callable[..., Any]]:
    """A `map` for about `count` calls, by `at_once` threads of this name if that is more than one; it ends with all."""
    if count > 1:
        with ThreadPoolExecutor(min(count, at_once), name) as pool:
            yield pool.map
    else:
        yield map
