"""`SystemStatus`: what a system does now, in figures for people."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rayshot.protocol.identity import SnapshotId
from rayshot.runtime.channel.holding import Waiting


@dataclass(frozen=True, slots=True)
class SnapshotStatus:
    """A snapshot under way. `recorded`: all records are held, only the writing is left.

    `missing` are actors that have not recorded, `open_channels` channels of which one end has, `handlers`
    the handlers that keep an actor from recording: (method or "a reply", for at least how many seconds).
    """

    id: SnapshotId
    seconds: float
    recorded: bool
    missing: tuple[str, ...]
    open_channels: tuple[tuple[str, str], ...]
    handlers: Mapping[str, tuple[str, float]]


@dataclass(frozen=True, slots=True)
class ActorStatus:
    """One actor. `mailbox` and `outbox` count messages; None throughout where the actor does not answer.

    `node` is the address of its node, `handler` the method that runs now, "" where none does.
    `pinned_bytes` are those of Ray's object store that stay there because this actor reads them without a copy: in its
    state, in a message that waits, or in a handler that runs.
    """

    pid: int | None
    mailbox: int | None
    outbox: int | None
    dead_letters: int | None
    pinned_bytes: int | None
    node: str | None
    handler: str | None


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """A message that has waited with its sender for `seconds`, at least five, for an object that is not there.

    All that `sender` sent `receiver` after it waits as well.
    """

    sender: str
    receiver: str
    number: int
    method: str
    seconds: float


@dataclass(frozen=True, slots=True)
class SystemStatus:
    """A running system.

    `state` is "running", "loading" (being restored), "beginning" (before its first snapshot, see `rayshot.resume`) or
    "stopped", then `detail` says why.

    `waiting` are messages of actors, and of the program that asks, that wait for objects. `last_snapshot` and
    `last_taken_at` are of the newest snapshot committed in this life; `aborted` counts.
    """

    name: str
    incarnation: int
    state: str
    detail: str
    last_snapshot: SnapshotId | None
    last_taken_at: datetime | None
    aborted: int
    snapshots: tuple[SnapshotStatus, ...]
    actors: Mapping[str, ActorStatus]
    waiting: tuple[WaitingMessage, ...]


def read_status(report: dict[str, Any], driver: str, of_driver: tuple[Waiting, ...]) -> SystemStatus:
    """What `Coordinator.status` answered, and what waits with the driver that asked."""
    waiting = {name: actor["waiting"] for name, actor in report["actors"].items() if actor is not None}
    stop, committed = report["stop"], report["committed"]
    return SystemStatus(
        report["system"],
        report["incarnation"],
        report["state"],
        str(stop.error()) if stop else "",
        committed.snapshot if committed else None,
        datetime.fromtimestamp(committed.taken_at, UTC) if committed else None,
        report["aborted"],
        tuple(_snapshot_status(snapshot, under_way) for snapshot, under_way in report["snapshots"].items()),
        {name: _actor_status(actor) for name, actor in report["actors"].items()},
        tuple(WaitingMessage(name, *of) for name, several in {driver: of_driver, **waiting}.items() for of in several),
    )


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
        return ActorStatus(*[None] * 7)
    return ActorStatus(
        report["pid"],
        report["mailbox"],
        report["outbox"],
        report["dead_letters"],
        report["pinned_bytes"],
        report["node"],
        report["handler"],
    )
