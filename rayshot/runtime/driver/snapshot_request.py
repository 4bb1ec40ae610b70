"""How a driver asks the coordinator for a snapshot, and waits for it."""

import logging
import time
from contextlib import suppress
from math import inf

from rayshot.errors import NoAnswer, RayshotError, SnapshotAborted, SystemRecovering
from rayshot.protocol.abort import AbortReason
from rayshot.runtime.coordinator.requests import Committed, SnapshotRequest
from rayshot.runtime.door import door
from rayshot.runtime.driver.coordinator_client import CoordinatorClient
from rayshot.runtime.driver.drain import STOP_S, Drain
from rayshot.runtime.driver.progress import describe, wait_with_progress
from rayshot.runtime.wire.answers import RECOVERY_WAIT_S, SILENT_S, the_coordinator

log = logging.getLogger("rayshot")
LOOK_S = 5.0
LAST_LOOK_S = 1.0
"""After Ctrl-C the coordinator has so many seconds to say how far the snapshot is."""
PING_S = 15.0
"""While the coordinator takes a snapshot, a driver asks it every LOOK_S whether it lives; it answers within PING_S."""


def take_snapshot(
    client: CoordinatorClient, order: SnapshotRequest, within_s: float = inf, drain: Drain | None = None
) -> Committed:
    """Have the coordinator take a snapshot, and show its progress. This reads nothing of the snapshot or the storage.

    If the system goes back to a snapshot meanwhile, this waits until it runs, and for the `drain`, and asks again. If
    the user presses Ctrl-C, the log says what becomes of the snapshot: the coordinator goes on with it.

    Raises the errors of `System.snapshot`; NoAnswer if the snapshot is not committed within `within_s` seconds;
    NotReady if the system does not run within the time, or after RECOVERY_WAIT_S.
    """
    deadline = time.monotonic() + within_s
    while True:
        try:
            client.check_open()
            asked = order._replace(life=0 if drain is None else drain.life)
            return client.giving_keys(lambda: _ordered(client, asked, deadline))  # noqa: B023 - it is called here
        except KeyboardInterrupt:
            log.warning("%s", _left_alone(client, order))
            raise
        except SystemRecovering:
            left_s = max(0.0, deadline - time.monotonic())
            client.await_running(min(RECOVERY_WAIT_S, left_s), min(SILENT_S, max(1.0, left_s)))
            if drain is not None:
                drain.wait(STOP_S, deadline)


def _left_alone(client: CoordinatorClient, order: SnapshotRequest) -> str:
    """What becomes of a snapshot for which the program waits no longer."""
    now = ""
    with suppress(RayshotError, door.Unavailable):
        now = describe(client.answer(client.coordinator.status.remote(), LAST_LOOK_S))
    far = f", now {now}" if now else ""
    if order.final:
        return (
            f"Ctrl-C: system {client.name!r} goes on with the savepoint{far}, and stops with it. system.status() says "
            "whether it has; if no savepoint can be taken, the system runs on"
        )
    return (
        f"Ctrl-C: system {client.name!r} runs on, and goes on with the snapshot{far}. system.snapshots() lists it when "
        "it is committed"
    )


def _ordered(client: CoordinatorClient, order: SnapshotRequest, deadline: float) -> Committed:
    ref = client.coordinator.snapshot.remote(order)

    def limit_s() -> float:
        """For an answer of a coordinator that lives."""
        return min(PING_S, max(1.0, deadline - time.monotonic()))

    def is_there(timeout_s: float) -> bool:
        ready, _ = door.wait([ref], timeout=min(timeout_s, LOOK_S, max(0.0, deadline - time.monotonic())))
        if not ready and time.monotonic() >= deadline:
            raise NoAnswer(
                "the snapshot is not there in the time that it was given, and may still be committed: see "
                "`rayshot status`",
                system=client.name,
            )
        if not ready:
            client.answer(client.coordinator.state.remote(), limit_s())
        return bool(ready)

    def progress() -> str:
        try:
            return describe(client.answer(client.coordinator.status.remote(), limit_s()))
        except (NoAnswer, door.Unavailable):  # `is_there` finds out what this means
            return f"{the_coordinator(client.name)} does not say how far it is"

    try:
        wait_with_progress(is_there, progress)
        committed: Committed = client.answer(ref, PING_S)
    except door.Unavailable as error:
        if deadline - time.monotonic() > SILENT_S:
            with suppress(SystemRecovering):  # nobody has taken over yet: the snapshot is lost all the same
                client.check_running()
        raise SnapshotAborted(
            "the coordinator died while it took the snapshot, and Ray starts it again. The snapshot is lost, unless "
            "it was committed just then and system.snapshots() has it; take another one",
            reason=AbortReason.COORDINATOR_LOST.value,
        ) from error
    return committed
