"""`SystemStatus`: what a system does now, in numbers for people."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias

from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.channel.holding import Waiting
from rayshot.runtime.coordinator.requests import Committed
from rayshot.runtime.wire.initiation import some_names
from rayshot.runtime.wire.recovery_report import RecoveryReport
from rayshot.runtime.wire.states import State

log = logging.getLogger("rayshot")
MaybeNone: TypeAlias = Any
"""In a union: the value may be None, and type checkers let it pass unchecked, as it mostly is not."""
LONG_S = 60.0
"""A handler that has run for so many seconds is named in the detail of a status: it may never end."""


@dataclass(frozen=True, slots=True)
class SnapshotStatus:
    """A snapshot that is being taken. `recorded`: all records are there, only the writing is left.

    `missing` are the actors that have not recorded. `open_channels` are the channels where only one end has recorded.
    `handlers` are the handlers that keep an actor from recording: (method or "a reply", seconds that it runs at least).
    """

    id: SnapshotId
    seconds: float
    recorded: bool
    missing: tuple[str, ...]
    open_channels: tuple[tuple[str, str], ...]
    handlers: Mapping[str, tuple[str, float]]


@dataclass(frozen=True, slots=True)
class ActorStatus:
    """An actor's numbers. `mailbox` and `outbox` count messages. All fields are None if the actor does not answer.

    `node` is the address of its node, `handler` the method that runs now, "" if none runs. `waits_for` are the
    actors for whose answers that handler has waited for `waits_s` seconds, at the file and line `waits_at`.
    `pinned_bytes` counts bytes that stay in Ray's object store because this actor reads them without a copy: in its
    state, in a message that waits, or in a handler that runs.
    """

    pid: int | MaybeNone
    mailbox: int | MaybeNone
    outbox: int | MaybeNone
    dead_letters: int | MaybeNone
    pinned_bytes: int | MaybeNone
    node: str | MaybeNone
    handler: str | MaybeNone
    waits_for: tuple[str, ...] | MaybeNone
    waits_s: float | MaybeNone
    waits_at: str | MaybeNone


@dataclass(frozen=True, slots=True)
class OutsideStatus:
    """What an actor has not done yet outside, such as rows that its table does not show.

    `snapshot` is the oldest durable snapshot from which something follows, for `seconds` now. `trouble` says why the
    last try failed, "" if none did.
    """

    snapshot: SnapshotId
    seconds: float
    trouble: str


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """A message that waits at its sender for an object that is not ready, for `seconds`, at least five.

    All later messages from `sender` to `receiver` wait too.
    """

    sender: str
    receiver: str
    number: int
    method: str
    seconds: float


@dataclass(frozen=True, slots=True)
class SystemStatus:
    """A running system.

    `state` is "running", "loading" (being restored), "beginning" (before its first snapshot, see `rayshot.resume`),
    "recovering" (it goes back to its last snapshot by itself) or "stopped". If it is recovering or stopped, `detail`
    says why, and what it waits for. If it runs, and cannot go back to a snapshot as programs evicted what they told,
    `detail` says so, and `cannot_go_back_since` since when. It also names handlers that have run for a minute: nothing
    that waits behind them is handled, and no snapshot is taken. For ten minutes it says that the coordinator was silent
    and was replaced. `recoveries` are the times that it went back, since its
    coordinator began; one that was started again knows of the life that it found too. `spares` processes are ready to
    become actors in place of dead ones. `changed_answers` counts, since its coordinator began, the answers that were
    others after the system had gone back, and behind which the program that had got them had sent something.

    `waiting` are messages that wait for objects: those of the actors, and of the program that asks. `last_snapshot` and
    `last_taken_at` describe the newest snapshot committed in this life. `proofs` counts its states by what was proved
    of them: "proved", "alike", "plain" or "unproved"; `unproved` names the first actor that is, and why. `aborted` is
    the number of aborted snapshots. `outside` has the actors that are behind their durable snapshots outside.
    """

    name: str
    incarnation: int
    state: State
    detail: str
    last_snapshot: SnapshotId | None
    last_taken_at: datetime | None
    aborted: int
    snapshots: tuple[SnapshotStatus, ...]
    actors: Mapping[str, ActorStatus]
    waiting: tuple[WaitingMessage, ...]
    recoveries: tuple[RecoveryReport, ...] = ()
    spares: int = 0
    cannot_go_back_since: datetime | None = None
    proofs: Mapping[str, int] = field(default_factory=dict)
    unproved: str = ""
    changed_answers: int = 0
    outside: Mapping[str, OutsideStatus] = field(default_factory=dict)


def read_status(report: dict[str, Any], driver: str, of_driver: tuple[Waiting, ...]) -> SystemStatus:
    """The status from the answer of `Coordinator.status` and the messages that wait at the driver that asked."""
    waiting = {name: actor["waiting"] for name, actor in report["actors"].items() if actor is not None}
    stop, committed, (since, evicted) = report["stop"], report["committed"], report["let_go"]
    of, *proved = report["proved"] or (None,)
    proofs, unproved = proved if committed and of == committed.snapshot else ({}, "")
    return SystemStatus(
        report["system"],
        report["incarnation"],
        report["state"],
        str(stop.error())
        if stop
        else report["recovering"] or "; ".join(filter(None, (report["replaced"], evicted, *_long_handlers(report)))),
        committed.snapshot if committed else None,
        datetime.fromtimestamp(committed.taken_at, UTC) if committed else None,
        report["aborted"],
        tuple(_snapshot_status(snapshot, pending) for snapshot, pending in report["snapshots"].items()),
        {name: _actor_status(actor) for name, actor in report["actors"].items()},
        tuple(WaitingMessage(name, *of) for name, several in {driver: of_driver, **waiting}.items() for of in several),
        report["recoveries"],
        report["spares"],
        None if since is None else datetime.fromtimestamp(since, UTC),
        proofs,
        unproved,
        report["changed_answers"],
        {name: OutsideStatus(*figures) for name, figures in report["outside"].items()},
    )


def warn_of_unsettled(committed: Committed, system: str) -> None:
    """Log which actors had not done all that follows outside from the savepoint with which their system stopped."""
    if late := committed.unsettled:
        log.warning(
            "system %r is stopped, and %s has not done yet outside what follows from %s: a restore does it",
            *(system, some_names(late), committed.record.snapshot),
        )


def _long_handlers(report: dict[str, Any]) -> list[str]:
    return [
        f"{actor['handler']} of actor {name!r} has run for {actor['handled_s']:.0f} s or more"
        f"{_waiting(actor['waits_for'])}, and all else waits there"
        for name, actor in report["actors"].items()
        if actor is not None and actor["handler"] and actor["handled_s"] >= LONG_S
    ]


def _waiting(callees: Sequence[str]) -> str:
    return f" and waits for {', '.join(callees)}" if callees else ""


def _snapshot_status(snapshot: SnapshotId, report: dict[str, Any]) -> SnapshotStatus:
    handlers = {
        name: (progress[1], progress[2])
        for name, progress in report["handlers"].items()
        if progress is not None and progress[1]
    }
    return SnapshotStatus(
        snapshot,
        report["seconds"],
        report["recorded"],
        report["missing"],
        tuple(tuple(channel) for channel in report["open_channels"]),
        handlers,
    )


def _actor_status(report: dict[str, Any] | None) -> ActorStatus:
    if report is None:
        return ActorStatus(*[None] * 10)
    return ActorStatus(
        report["pid"],
        report["mailbox"],
        report["outbox"],
        report["dead_letters"],
        report["pinned_bytes"],
        report["node"],
        report["handler"],
        report["waits_for"],
        report["waits_s"],
        report["waits_at"],
    )
