"""Settings that a user gives. Names are those of Ray Train where it has the same setting."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Final, Literal, get_args

from rayshot.errors import ConfigError, Damaged
from rayshot.format.bounds import LABEL_LENGTH_MAX, check_text
from rayshot.format.entries import OutsideMode
from rayshot.format.suggestion import did_you_mean
from rayshot.protocol.identity import CHANDY_LAMPORT, MODES, Mode
from rayshot.protocol.recovery_events import RecoveryPolicy

SECONDS_MAX = 366 * 86400.0
HASH_SEED_MAX = 2**32 - 1
HashSeed = int | Literal["random"] | None
"""The seed of `hash()` in all processes of a system's actors; "random": any, drawn once; None: each has its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotConfig:
    """When snapshots begin by themselves, and how long they may take. Times in seconds.

    Attributes:
        interval_s: a snapshot begins this long after the last one began; None: only when asked for.
        min_pause_s: at least this long between the end of one periodic snapshot and the beginning of the next.
        timeout_s: a snapshot that is not recorded by then is aborted. Writing it may take the rest of this time, or one
            second if that is longer.
        max_concurrent: how many snapshots may be under way at once, at least 1; further requests wait. Snapshots that
            actors begin by themselves do not wait.
        num_to_keep: snapshots kept, at least 1; the oldest are deleted first. A snapshot is kept if this or one of the
            next three settings keeps it; if none of the four is given, all are kept. Savepoints are never deleted and
            do not count.
        keep_hourly: keep the newest snapshot of each of this many hours, at least 1; hours without any do not count.
        keep_daily: the same for days, in UTC.
        keep_weekly: the same for weeks, which begin on Monday.
        mode: the algorithm of snapshots that the coordinator begins. "chandy-lamport"; or "aligned" (asynchronous
            barrier snapshots): an actor records when the markers of all its inputs have arrived, and these channels
            have no messages in flight; only channels that lead back, and drivers' channels, are recorded; or
            "stop-the-world": once the running handlers have ended, no handler runs until all actors have recorded.
        conclude_timeout_s: while handlers wait for other actors, nobody who waits can record. Before a snapshot of such
            actors begins, they finish what they do and begin nothing else; the request fails if this takes longer.
        alignment_timeout_s: an aligned snapshot that waited this long becomes a Chandy-Lamport one; None: never.
        max_in_flight_bytes: how many bytes of messages in flight an actor keeps for snapshots at most, at least 1. If
            there are more, the snapshot is aborted ("too_much_in_flight"). Applies to actors made from now on.
    """

    interval_s: float | None = None
    min_pause_s: float = 0.0
    timeout_s: float = 600.0
    max_concurrent: int = 1
    num_to_keep: int | None = None
    keep_hourly: int | None = None
    keep_daily: int | None = None
    keep_weekly: int | None = None
    mode: Mode = CHANDY_LAMPORT
    alignment_timeout_s: float | None = None
    conclude_timeout_s: float = 60.0
    max_in_flight_bytes: int = 4 << 30

    def __post_init__(self) -> None:
        _seconds("interval_s", self.interval_s, optional=True)
        _seconds("timeout_s", self.timeout_s)
        _seconds("conclude_timeout_s", self.conclude_timeout_s)
        _seconds("alignment_timeout_s", self.alignment_timeout_s, optional=True)
        _seconds("min_pause_s", self.min_pause_s, zero=True)
        _count("max_concurrent", self.max_concurrent)
        for name in ("num_to_keep", "keep_hourly", "keep_daily", "keep_weekly"):
            _count(name, getattr(self, name), optional=True)
        _count("max_in_flight_bytes", self.max_in_flight_bytes)
        check_mode(self.mode)

    def next_due(self, last_began: float, last_ended: float) -> float | None:
        """Internal: when the next periodic snapshot is due, by the clock of the arguments; None: never."""
        if self.interval_s is None:
            return None
        return max(last_began + self.interval_s, last_ended + self.min_pause_s)


Trace = bool | Literal["full"]
"""Whether actors write down their events; "full" keeps the messages too."""


KEPT: Final = "kept"
ANEW: Final = "anew"
CHOSEN: Final = "chosen"
Loops = Literal["kept", "anew"]
"""What becomes of the frame of a method at the top of a pass of its `rayshot.loop`."""
LoopsOfWorld = Literal["kept", "anew", "chosen"]
"""The same in a simulated world; "chosen": its choices say it for each top."""

NO_CLAIM: Final = "no-claim"
CLAIM: Final = "claim"
Claim = Literal["no-claim", "claim"]
"""Who owns the snapshot that a system was restored from: the system that made it, or the new life."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureConfig:
    """What follows from a failure of one actor. Times in seconds.

    Attributes:
        scope: "system": the whole system goes back to its last snapshot by itself, and goes on. "stop": it stops, until
            a person goes on from its last snapshot with `rayshot.resume` or `rayshot.restore`. A scope smaller than the
            system would not be consistent.
        max_failures: a system that went back so many times stops at the next failure; None: it stops only if going
            back for one actor leads nowhere, three times in a row.
        backoff_s: the pause before the system goes back again for the same actor, less than `stable_s` behind the last
            time, if no life had two snapshots since. The first time it goes back at once.
        backoff_factor: each further pause is longer by this factor, at least 1.
        backoff_max_s: the longest pause.
        stable_s: for an actor that ran so long the system goes back without a pause again.
        on_poison: what follows if a message ends its actor's process again and again. "stop": the system stops, and
            names the message. "dead-letter": the system goes back once more, and the actor passes over the message; see
            `System.dead_letters`. A call gets PoisonMessage. At most three in a row; creations and replies never.
        on_changed_answer: what follows if the system goes back and answers a call otherwise, of a program that had the
            first answer and has sent something behind it. "warn": the program is told, see `System.on_changed_answer`.
            "stop": the system stops besides, and all get AnswerChanged, which names the call.
        spares: so many processes wait, in each system that goes back by itself, to become actors in place of dead ones.
            This saves most of the half second or more that a new process needs. Each takes the memory of Python with
            the modules of the classes, and no CPU. Only classes without options for Ray use them.
    """

    scope: Literal["stop", "system"] = "system"
    max_failures: int | None = None
    backoff_s: float = 1.0
    backoff_factor: float = 2.0
    backoff_max_s: float = 60.0
    stable_s: float = 60.0
    on_poison: Literal["stop", "dead-letter"] = "stop"
    on_changed_answer: Literal["warn", "stop"] = "warn"
    spares: int = 0

    def __post_init__(self) -> None:
        scopes = ("stop", "system")
        if self.scope not in scopes:
            known = "there are 'stop' and 'system'" + did_you_mean(str(self.scope), scopes)
            raise ConfigError(f"there is no failure scope {self.scope!r}; {known}")
        if self.max_failures is not None and not (type(self.max_failures) is int and self.max_failures >= 0):
            raise ConfigError(f"max_failures={self.max_failures!r}: give a count of 0 or more, or None for any number")
        if not (type(self.spares) is int and self.spares >= 0):
            raise ConfigError(f"spares={self.spares!r}: give a count of 0 or more")
        if self.spares and not self.heals:
            raise ConfigError(
                f"spares={self.spares}: only a system with scope='system' goes back by itself and uses them"
            )
        for name, outcomes in (("on_poison", ("stop", "dead-letter")), ("on_changed_answer", ("warn", "stop"))):
            if (given := getattr(self, name)) not in outcomes:
                known = " and ".join(map(repr, outcomes))
                raise ConfigError(f"{name}={given!r}: there are {known}{did_you_mean(str(given), outcomes)}")
        for name in ("backoff_s", "backoff_max_s", "stable_s"):
            _seconds(name, getattr(self, name), zero=True)
        factor = self.backoff_factor
        if type(factor) not in (int, float) or not 1 <= factor < inf:
            raise ConfigError(f"backoff_factor={factor!r}: give a number of 1 or more")

    def snapshots(self, given: SnapshotConfig | None) -> SnapshotConfig:
        """Internal: when snapshots are taken, if the user gives these: a system that goes back to them needs some."""
        return given or (HEALING_SNAPSHOTS if self.heals else SnapshotConfig())

    @property
    def heals(self) -> bool:
        """Internal: whether the system goes back to its last snapshot by itself."""
        return self.scope == "system"

    @property
    def policy(self) -> RecoveryPolicy:
        """Internal: these settings as the machine of recovery takes them."""
        return RecoveryPolicy(
            rolls_back=self.heals,
            failures_max=self.max_failures,
            pause_s=self.backoff_s,
            pause_factor=self.backoff_factor,
            pause_max_s=self.backoff_max_s,
            stable_s=self.stable_s,
            dead_letters=self.on_poison == "dead-letter",
        )


def check_label(label: object) -> None:
    """Raise ConfigError unless `label` can be the label of a savepoint."""
    try:
        check_text(label, "a label", LABEL_LENGTH_MAX)
    except Damaged as error:
        raise ConfigError(
            f"the label {label!r} of a savepoint: give a text of 1 to {LABEL_LENGTH_MAX} characters"
        ) from error


def check_mode(mode: str) -> None:
    """Raise ConfigError unless `mode` is a known snapshot mode."""
    if mode not in MODES:
        raise ConfigError(f"there is no snapshot mode {mode!r}; there is {', '.join(MODES)}{did_you_mean(mode, MODES)}")


def check_claim(claim: object) -> None:
    """Raise ConfigError unless `claim` is a known way to claim a snapshot, or None."""
    if claim not in (NO_CLAIM, CLAIM, None):
        raise ConfigError(
            f"claim={claim!r}: say {NO_CLAIM!r}, so that the snapshot is kept for ever, {CLAIM!r}, or None"
        )


def check_trace(trace: object) -> Trace:
    """Return the setting for tracing if it is valid; raise ConfigError if not."""
    if trace is True or trace is False or trace == "full":
        return trace
    raise ConfigError(f"trace={trace!r}: give True for numbered events, 'full' to keep their messages too, or False")


def check_loops(loops: object, *, known: Sequence[str] = (KEPT, ANEW)) -> None:
    """Raise ConfigError unless `loops` is one of the known settings for frames of methods that loop."""
    if loops not in known:
        raise ConfigError(f"loops={loops!r}: give {' or '.join(map(repr, known))}{did_you_mean(str(loops), known)}")


def check_outside(mode: object) -> None:
    """Raise ConfigError unless `mode` says what a restore does with what is outside."""
    if mode not in (known := get_args(OutsideMode)):
        raise ConfigError(f"outside={mode!r}: give {' or '.join(map(repr, known))}{did_you_mean(str(mode), known)}")


def draw_hash_seed(seed: object) -> int | None:
    """The number that this setting stands for, None for none. Raises ConfigError if it is invalid."""
    if seed == "random":
        return secrets.randbelow(HASH_SEED_MAX + 1)
    if seed is None or (type(seed) is int and 0 <= seed <= HASH_SEED_MAX):
        return seed
    raise ConfigError(f"hash_seed is {seed!r}; give a whole number from 0 to {HASH_SEED_MAX}, or 'random'")


def _seconds(name: str, value: object, *, optional: bool = False, zero: bool = False) -> None:
    if optional and value is None:
        return
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not (0 if zero else 1e-9) <= value <= SECONDS_MAX:  # type: ignore[operator]
        raise ConfigError(f"{name} is {value!r}; give seconds, {'0 or more' if zero else 'above 0'}, at most a year")


def _count(name: str, value: object, *, optional: bool = False) -> None:
    if optional and value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"{name} is {value!r}; give a whole number, at least 1{', or leave it out' * optional}")


def check_config(config: object, kind: type) -> None:
    """Raise ConfigError unless `config` is of that kind."""
    if not isinstance(config, kind):
        raise ConfigError(f"{config!r} is not a {kind.__name__}: write rayshot.{kind.__name__}(...)")


HEALING_SNAPSHOTS: Final = SnapshotConfig(interval_s=10.0, num_to_keep=10, keep_hourly=24, keep_daily=7)
"""For a system that goes back to its snapshots by itself, if the user does not say."""
