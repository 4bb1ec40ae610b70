"""The proofs of a node: the trials of its recorded states, beside the writing, in one thread."""

import logging
import os
import queue
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count

from rayshot.proving.proofs import Proofs, ProofTask, Round, StateToProve
from rayshot.proving.prover import Prover
from rayshot.proving.surroundings import ProcessSurroundings
from rayshot.proving.trial import TrialAnswer
from rayshot.runtime.node.capture import spill_folder

log = logging.getLogger("rayshot")

SAMPLES_MAX = 8
"""If so many trials wait, a sample is taken at a later capture."""
PROVERS_MAX = 4
FindSurroundings = Callable[[str, int], ProcessSurroundings | None]
"""Where the process of an actor runs in a life; None if it does not answer."""


class NodeProofs:
    """See the module. What it knows is in `Proofs`."""

    def __init__(self, find_surroundings: FindSurroundings) -> None:
        self._find_surroundings = find_surroundings
        self._proofs = Proofs()
        self._numbers = count()
        self._tasks: queue.PriorityQueue[tuple[bool, int, ProofTask]] = queue.PriorityQueue()
        """Samples wait behind what is awaited."""
        self._provers: dict[object, Prover] = {}
        self._places: dict[object, object] = {}
        self._thread: threading.Thread | None = None

    def begin(self, life: int, states: Iterable[StateToProve]) -> Round:
        """Begin the trials that these states need. Each has a copy of its file, as samples go on behind the round."""
        begun = self._proofs.begin(life, states, SAMPLES_MAX - self._tasks.qsize())
        for task in begun.tasks.values():
            if task.state.file is not None:
                task.state = replace(task.state, file=os.dup(task.state.file))
            self._tasks.put((task.is_sample, next(self._numbers), task))
        if begun.tasks and self._thread is None:
            self._thread = threading.Thread(target=self._try_all, name="rayshot-proofs", daemon=True)
            self._thread.start()
        return begun

    def _try_all(self) -> None:
        while True:
            self._try_next()

    def _try_next(self) -> None:
        *_, task = self._tasks.get()
        if not self._proofs.is_over(task):
            try:
                answer = self._try(task)
            except Exception as error:
                log.exception("the state of %s was not tried, a defect of rayshot", task.state.actor)
                answer = TrialAnswer("unproved", repr(error))
            self._proofs.learn(task, answer)
        if task.state.file is not None:
            os.close(task.state.file)
        task.ended.set()

    def _try(self, task: ProofTask) -> TrialAnswer:
        prover = self._prover(task)
        if prover is None:
            return TrialAnswer("unproved", "its process does not say where it runs")
        return task.state.ask(prover, spill_folder())

    def _prover(self, task: ProofTask) -> Prover | None:
        """The prover for actors of this class. The oldest one ends if there are many."""
        place = self._places.get(task.kind[:-1])
        if place not in self._provers:
            found = self._find_surroundings(task.state.actor, task.life)
            if found is None:
                return None
            place = self._places[task.kind[:-1]] = found.key
            if place not in self._provers:
                if len(self._provers) == PROVERS_MAX:
                    self._provers.pop(next(iter(self._provers))).close()
                self._provers[place] = Prover(found)
        return self._provers[place]
