"""The proofs of recorded states: which of them need a trial before their snapshot is committed, and what follows.

Whoever writes a snapshot makes the trials, see `Round.tasks`: the vault of a node beside its writing, a simulated
system at once. One state of each new kind needs one; its kind is its class and the names of the types in it. Its
answer is awaited for a limited time: a state without one is not proved, but a system that works never lacks snapshots
for that.

What a kind does not show, such as a value that comes later, samples do: captures 2, 4, 8 ... of each actor. Nobody
waits for them. If one is refuted, its actor is suspected: its next state has a trial that is awaited in any case.
So a snapshot is aborted for what it holds itself, not for what the actor held before.
"""

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache

from rayshot.errors import StateNotSerializable
from rayshot.format.entries import Proof
from rayshot.format.outline import UNREADABLE, globals_of
from rayshot.format.pickle_bytes import names_no_global, spelled_globals
from rayshot.model.specification import ActorSpecification
from rayshot.proving.prover import Prover, spread
from rayshot.proving.trial import Trial, TrialAnswer

log = logging.getLogger("rayshot")

PATIENCE_S = 5.0
"""So many seconds behind the writing a snapshot waits for the proofs of new kinds and of suspected actors."""
SAMPLED_BYTES_MAX = 1 << 20
"""Larger pickles are not sampled."""
STREAM_BYTES_MAX, COPIED_BYTES_MAX = 16 << 20, 64 << 20
"""Larger pickles are not proved, nor are larger states that are in no file."""
_PLAIN_PACKAGES = frozenset(
    (
        "_codecs",
        "array",
        "collections",
        "copyreg",
        "datetime",
        "decimal",
        "fractions",
        "numpy",
        "pathlib",
        "uuid",
    )
)
_PLAIN_NAMES = frozenset(
    (
        ("rayshot.model.handle", "_rebind"),
        *(("builtins", kind.__name__) for kind in (bytearray, bytes, complex, frozenset, object, range, set, slice)),
    )
)
"""What names nothing but these loads wherever Python and rayshot are. Not the actor itself, which may be a key, too."""
LATE = "its trial had not ended when the snapshot was written"
Kind = tuple[object, ...]
"""A class, the environment of its actors, and last the names of the types in a state."""


@dataclass(frozen=True, slots=True)
class StateToProve:
    """A recorded state. `file` is open and has all its parts, or is None."""

    actor: str
    specification: bytes
    parts: Sequence[bytes | memoryview]
    file: int | None = None

    def ask(self, prover: Prover, folder: str | None = None) -> TrialAnswer:
        """Have it loaded for trial; `folder` is for a copy of a state that is in no file."""
        trial = Trial(self.actor, self.specification, tuple(memoryview(part).nbytes for part in self.parts))
        if self.file is not None:
            return prover.ask(trial, self.file)
        try:
            file = spread(self.parts, folder)
        except OSError as error:
            return TrialAnswer("unproved", f"no room for a copy of it: {error}")
        try:
            return prover.ask(trial, file)
        finally:
            os.close(file)


@dataclass(slots=True)
class ProofTask:
    """A trial that waits, runs or has ended with an answer."""

    state: StateToProve
    kind: Kind
    life: int
    is_sample: bool
    ended: threading.Event = field(default_factory=threading.Event)
    answer: TrialAnswer | None = None
    dropped: bool = False


class Proofs:
    """All that is known in one life; another life begins anew, as its code may be another one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Covers the life, and what a trial teaches."""
        self._life = 0
        self._known: dict[Kind, TrialAnswer] = {}
        self._plain: set[Kind] = set()
        self._suspects: dict[str, str] = {}
        """By actor, why its last state that was tried does not load."""
        self._due: set[str] = set()
        self._captures: Counter[str] = Counter()

    def begin(self, life: int, states: Iterable[StateToProve], samples_max: float) -> "Round":
        """Find the trials that these states need, at most so many samples among them: others are due later."""
        with self._lock:
            if life != self._life:
                self._life = life
                for known in (self._known, self._plain, self._suspects, self._due, self._captures):
                    known.clear()
        read = cache(ActorSpecification.unpack)
        outcome = Round(self)
        for state in states:
            self._add(state, read(state.specification), outcome, samples_max)
        return outcome

    def _add(
        self, state: StateToProve, specification: ActorSpecification, outcome: "Round", samples_max: float
    ) -> None:
        if not specification.proves:
            outcome.proofs[state.actor] = Proof("unproved", "prove=False")
            return
        stream = state.parts[0]
        kind = (*_class_key(specification), spelled_globals(stream))
        if self._is_plain(kind, stream):
            outcome.proofs[state.actor] = Proof("plain")
            return
        self._captures[state.actor] += 1
        outcome.kinds[state.actor] = kind
        if refusal := _too_large(state):
            self._known.setdefault(kind, TrialAnswer("unproved", refusal))
            return
        captures = self._captures[state.actor]
        if captures > 1 and captures & (captures - 1) == 0 and len(stream) <= SAMPLED_BYTES_MAX:
            self._due.add(state.actor)
        is_new = kind not in self._known and not any(task.kind == kind for task in outcome.tasks.values())
        needed = is_new or state.actor in self._suspects
        samples = sum(task.is_sample for task in outcome.tasks.values())
        if needed or (state.actor in self._due and samples < samples_max):
            self._due.discard(state.actor)
            outcome.tasks[state.actor] = ProofTask(state, kind, self._life, is_sample=not needed)

    def _is_plain(self, kind: Kind, stream: bytes | memoryview) -> bool:
        """Whether a state loads wherever Python does."""
        if kind in self._plain or names_no_global(stream):
            return True
        if kind in self._known or len(stream) > SAMPLED_BYTES_MAX:
            return False
        try:
            named = globals_of(stream)
        except UNREADABLE:  # its trial tells why
            return False
        if all(module.partition(".")[0] in _PLAIN_PACKAGES for module, _ in named - _PLAIN_NAMES):
            self._plain.add(kind)
        return kind in self._plain

    def is_over(self, task: ProofTask) -> bool:
        """Whether nobody needs the answer of a trial any more."""
        return task.dropped or task.life != self._life

    def learn(self, task: ProofTask, answer: TrialAnswer) -> None:
        """A trial has ended."""
        actor, task.answer = task.state.actor, answer
        with self._lock:
            if task.life != self._life:
                return
            if answer.word == "refuted":
                self._suspects[actor] = answer.reason
                if task.is_sample:
                    log.warning("a state of %s does not load, so its next one is tried too: %s", actor, answer.reason)
                return
            self._suspects.pop(actor, None)
            before = self._known.get(task.kind)
            if before is None or answer.word == "proved":
                self._known[task.kind] = answer
            if before is None and answer.word == "unproved":
                log.warning("a state of %s could not be proved: %s", task.kind[1], answer.reason)

    def result(self, actor: str, kind: Kind, task: ProofTask | None) -> Proof:
        """What is known of a state now, whose own trial was this one if it had one."""
        answer = None if task is None else task.answer
        if answer is not None and answer.word == "proved":
            return Proof("proved")
        known = self._known.get(kind)
        if actor in self._suspects:
            return Proof("unproved", f"an earlier state of it does not load: {self._suspects[actor]}")
        if known is not None and known.word == "proved":
            return Proof("alike")
        reason = answer or known
        return Proof("unproved", LATE if reason is None else reason.reason)


class Round:
    """The proofs for one snapshot. `proofs` are those known at once; `kinds` and `tasks` are of the other actors."""

    def __init__(self, of: Proofs) -> None:
        self.proofs: dict[str, Proof] = {}
        self.kinds: dict[str, Kind] = {}
        self.tasks: dict[str, ProofTask] = {}
        self._of = of

    def finish(self, patience_s: float) -> dict[str, Proof]:
        """Wait at most `patience_s` seconds for the answers. Raises StateNotSerializable if one is refuted.

        Nobody waits for those of samples.
        """
        deadline = time.monotonic() + min(PATIENCE_S, patience_s)
        for task in self.tasks.values():
            if not task.is_sample:
                task.ended.wait(max(0.0, deadline - time.monotonic()))
        self.drop()
        for actor, task in self.tasks.items():
            if task.answer is not None and task.answer.word == "refuted":
                raise _refusal(actor, task.answer)
        own = {actor: self._of.result(actor, kind, self.tasks.get(actor)) for actor, kind in self.kinds.items()}
        return self.proofs | own

    def drop(self) -> None:
        """Begin no further trial of these, other than samples."""
        for task in self.tasks.values():
            task.dropped = not task.is_sample


def _refusal(actor: str, answer: TrialAnswer) -> StateNotSerializable:
    path = answer.path or actor
    return StateNotSerializable(
        f"{path} was recorded, but cannot be loaded again, so a restore would fail: {answer.reason}. Mend its class, "
        "or leave it out in __getstate__ and make it again in on_restore; @rayshot.actor(prove=False) takes snapshots "
        "without this proof",
        path=path,
        actor=actor,
        loads=False,
    )


def _class_key(specification: ActorSpecification) -> Kind:
    """A class, and the environment in which its actors run; its name stands second."""
    name = f"{specification.class_module}.{specification.class_name}"
    return "class", name, specification.class_pickle, repr(specification.options.get("runtime_env"))


def _too_large(state: StateToProve) -> str:
    """Why a state is too large to be tried; empty if it is not."""
    if len(state.parts[0]) > STREAM_BYTES_MAX:
        return f"its pickle has more than {STREAM_BYTES_MAX >> 20} MiB: `rayshot drill` loads it"
    if state.file is None and sum(memoryview(part).nbytes for part in state.parts) > COPIED_BYTES_MAX:
        return f"it has more than {COPIED_BYTES_MAX >> 20} MiB in no file: `rayshot drill` loads it"
    return ""
