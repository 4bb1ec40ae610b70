"""The surroundings of an actor's process, in which its states are proved."""

import os
import sys
from collections.abc import Mapping
from typing import NamedTuple


class ProcessSurroundings(NamedTuple):
    """Where an actor's process runs: what decides what its imports find."""

    executable: str
    path: tuple[str, ...]
    folder: str
    environment: Mapping[str, str]

    @classmethod
    def here(cls) -> "ProcessSurroundings":
        """Those of this process."""
        return cls(sys.executable, tuple(sys.path), os.getcwd(), dict(os.environ))  # noqa: PTH109 - as text

    def with_hash_seed(self, seed: object) -> "ProcessSurroundings":
        """The same with this seed of `hash()`; None: with its own."""
        return self if seed is None else self._replace(environment={**self.environment, "PYTHONHASHSEED": str(seed)})

    @property
    def key(self) -> tuple[object, ...]:
        """What is equal where imports find the same; Ray's own variables differ from worker to worker."""
        told = frozenset(item for item in self.environment.items() if not item[0].startswith("RAY_"))
        return self.executable, self.path, self.folder, told
