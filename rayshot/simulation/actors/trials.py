"""The trials of a world's recorded states, as a vault makes them, but at once: each run with the same choices is equal.

One prover serves all worlds of this process, because its start takes longer than many worlds. What it said of the same
bytes is not asked again: most worlds of an exploration record the same states.
"""

import hashlib
import os
import threading
from collections.abc import Iterator, Mapping
from math import inf

from rayshot.proving.proofs import Proofs, StateToProve
from rayshot.proving.prover import Prover
from rayshot.proving.surroundings import ProcessSurroundings
from rayshot.proving.trial import TrialAnswer
from rayshot.simulation.bodies.world_snapshot import RecordedActor

ANSWERS_MAX = 10_000
"""So many answers are kept; then all are forgotten."""


class Trials:
    """Those of one world."""

    def __init__(self) -> None:
        self._proofs = Proofs()

    def check(self, life: int, actors: Mapping[str, RecordedActor]) -> None:
        """Make the trials that these states need. Raises StateNotSerializable for one that does not load."""
        begun = self._proofs.begin(life, _recorded_states(actors), inf)
        for task in begun.tasks.values():
            self._proofs.learn(task, _PROVER.ask(task.state))
            task.ended.set()
        begun.finish(inf)


def _recorded_states(actors: Mapping[str, RecordedActor]) -> Iterator[StateToProve]:
    for name, actor in sorted(actors.items()):
        if actor.state is not None and actor.specification is not None:
            yield StateToProve(name, actor.specification.pack(), (actor.state.stream, *actor.state.buffers))


class _SharedProver:
    """A prover where this process is; another one if it has moved, or was forked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._prover: Prover | None = None
        self._where: tuple[object, ...] = ()
        self._answers: dict[bytes, TrialAnswer] = {}

    def ask(self, state: StateToProve) -> TrialAnswer:
        """Have this state loaded for trial."""
        with self._lock:
            try:
                here = ProcessSurroundings.here()
            except OSError as error:
                return TrialAnswer("unproved", f"the folder of this process is gone: {error}")
            where = os.getpid(), here.path, here.folder
            if self._prover is None or where != self._where:
                if self._prover is not None and where[0] == self._where[0]:
                    self._prover.close()
                self._prover, self._where = Prover(here), where
                self._answers.clear()
            key = _digest(state)
            if key not in self._answers:
                if len(self._answers) == ANSWERS_MAX:
                    self._answers.clear()
                self._answers[key] = state.ask(self._prover)
            return self._answers[key]


def _digest(state: StateToProve) -> bytes:
    digest = hashlib.blake2b(state.actor.encode(), digest_size=16)
    for part in (state.specification, *state.parts):
        digest.update(memoryview(part).nbytes.to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


_PROVER = _SharedProver()
