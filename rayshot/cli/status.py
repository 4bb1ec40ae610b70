"""`rayshot status`: shows what a system does now; with `--wait`, a readiness check for scripts."""

import json
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from rich.console import Group
from rich.live import Live
from rich.text import Text

from rayshot.cli.child_process import HeadLost, ask_apart
from rayshot.cli.connection import Seconds, address_option, name_argument, system
from rayshot.cli.exits import FINE, NOT_RUNNING
from rayshot.cli.grid import ROWS_MAX, Header, console, facts, grid, heading, left_out, sections
from rayshot.cli.json_option import json_option
from rayshot.cli.system_commands import rhythm
from rayshot.documents import words
from rayshot.errors import (
    ClusterRefused,
    ClusterUnreachable,
    NoAnswer,
    NotReady,
    SystemDown,
    SystemNotFound,
)

if TYPE_CHECKING:
    from rayshot.model.configuration import SnapshotConfig
    from rayshot.runtime.opening.status import ActorStatus, OutsideStatus, SnapshotStatus, SystemStatus
    from rayshot.runtime.wire.recovery_report import RecoveryReport

RUNNING, STOPPED = "running", "stopped"
LOOK_S = 1.0
STYLES = {RUNNING: "green", STOPPED: "red"}
NAMES_MAX = 3
NO_ACTOR = " no actor lives: none was made, or each has ended, such as one whose constructor failed; its log says why"


class SystemLook(NamedTuple):
    """A system at one moment, in the cluster at `address`."""

    status: "SystemStatus"
    config: "SnapshotConfig"
    storage: str
    address: str


@click.command()
@name_argument
@click.option(
    "--wait",
    "wanted",
    type=click.Choice((RUNNING, STOPPED)),
    help="Wait until the system is in this state, then show it.",
)
@click.option("--timeout", "timeout_s", type=Seconds(), default=300.0, metavar="S", show_default=True,
              help="With --wait: the longest time to wait.")  # fmt: skip
@click.option("--watch", is_flag=True, help="Repeat it each second, until Ctrl-C; with --json a line each.")
@click.option("--all", "everything", is_flag=True, help="Show all rows of long tables.")
@address_option
@json_option()
def status(
    name: str | None,
    wanted: str | None,
    timeout_s: float,
    address: str | None,
    *,
    watch: bool,
    everything: bool,
    as_json: bool,
) -> None:
    """Show what system NAME does now, or the only one. Ends with 0 if it runs, 22 if it does not.

    With --wait it also waits for a system, or a cluster, that does not exist yet.
    """
    rows_max = None if everything else ROWS_MAX

    def look(patience_s: float = inf) -> SystemLook:
        return _look(name, address, patience_s)

    if wanted is not None:
        seen = _wait(look, wanted, timeout_s)
        if seen is None:
            return
    else:
        seen = look()
    if watch:
        _watch(look, seen, rows_max, as_json=as_json)
    else:
        _print(seen, rows_max, as_json=as_json)
    raise click.exceptions.Exit(FINE if wanted or seen.status.state == RUNNING else NOT_RUNNING)


def _look(name: str | None, address: str | None, patience_s: float) -> SystemLook:
    with system(name, address, patience_s) as (reached, where):
        return SystemLook(reached.status(), reached.config(), reached.storage, where)


def _wait(look: Callable[[float], SystemLook], wanted: str, timeout_s: float) -> SystemLook | None:
    """Look until the system is in the wanted state. None if one to be stopped no longer exists. Raises NoAnswer."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return ask_apart(lambda: _wait_here(look, wanted, timeout_s, deadline))
        except HeadLost:
            if time.monotonic() + LOOK_S > deadline:
                raise NoAnswer(f"it is not {wanted} after {timeout_s:g} s: the head of its cluster is away") from None
            time.sleep(LOOK_S)


def _wait_here(
    look: Callable[[float], SystemLook], wanted: str, timeout_s: float, deadline: float
) -> SystemLook | None:
    while True:
        try:
            seen = look(deadline - time.monotonic())
            if seen.status.state == wanted:
                return seen
            found = f"it is {seen.status.state}"
        except ClusterRefused:
            raise
        except SystemNotFound as error:
            if wanted == STOPPED:
                return None
            found = error.message
        except (ClusterUnreachable, NoAnswer, NotReady, SystemDown) as error:
            found = error.message
        if time.monotonic() + LOOK_S > deadline:
            raise NoAnswer(f"it is not {wanted} after {timeout_s:g} s: {found}")
        time.sleep(LOOK_S)


def _print(seen: SystemLook, rows_max: int | None, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(_document(seen)))
    else:
        console().print(_shown(seen, rows_max))


def _watch(look: Callable[[], SystemLook], seen: SystemLook, rows_max: int | None, *, as_json: bool) -> None:
    try:
        if as_json or not console().is_terminal:  # as in a file: each look stays, one below the other
            while True:
                _print(seen, rows_max, as_json=as_json)
                time.sleep(LOOK_S)
                seen = look()
        with Live(_shown(seen, rows_max), console=console(), auto_refresh=False) as live:
            while True:
                time.sleep(LOOK_S)
                live.update(_shown(look(), rows_max), refresh=True)
    except KeyboardInterrupt:
        raise click.exceptions.Exit(FINE) from None


# As a document ---------------------------------------------------------------------------------------------------


def _document(seen: SystemLook) -> dict[str, Any]:
    status = seen.status
    return {
        "system": status.name,
        "life": status.incarnation,
        "state": status.state,
        "detail": status.detail,
        "address": seen.address,
        "storage": seen.storage,
        "snapshot": None if status.last_snapshot is None else str(status.last_snapshot),
        "taken_at": None if status.last_taken_at is None else status.last_taken_at.isoformat(),
        "age_s": None if status.last_taken_at is None else round(_age_s(status.last_taken_at), 3),
        "proofs": dict(status.proofs),
        "unproved": status.unproved,
        "aborted": status.aborted,
        "recoveries": [_recovery(one) for one in status.recoveries],
        "changed_answers": status.changed_answers,
        "outside": {
            name: {"snapshot": str(one.snapshot), "seconds": round(one.seconds, 3), "trouble": one.trouble}
            for name, one in status.outside.items()
        },
        "spares": status.spares,
        "cannot_go_back_since": None
        if status.cannot_go_back_since is None
        else status.cannot_go_back_since.isoformat(),
        "interval_s": seen.config.interval_s,
        "keep": seen.config.num_to_keep,
        "under_way": [_pending(one) for one in status.snapshots],
        "actors": {name: _actor(one) for name, one in status.actors.items()},
        "waiting": [
            {"sender": one.sender, "receiver": one.receiver, "method": one.method, "seconds": round(one.seconds, 3)}
            for one in status.waiting
        ],
    }


def _recovery(one: "RecoveryReport") -> dict[str, Any]:
    return {
        "life": one.life,
        "snapshot": str(one.snapshot),
        "actor": one.actor,
        "detail": one.detail,
        "at": datetime.fromtimestamp(one.at, UTC).isoformat(),
        "seconds": round(one.seconds, 3),
        "phases": {phase: round(seconds, 3) for phase, seconds in one.phases.items()},
    }


def _pending(one: "SnapshotStatus") -> dict[str, Any]:
    return {
        "snapshot": str(one.id),
        "seconds": round(one.seconds, 3),
        "recorded": one.recorded,
        "missing": list(one.missing),
        "open_channels": [list(channel) for channel in one.open_channels],
        "handlers": {name: {"method": method, "seconds": round(s, 3)} for name, (method, s) in one.handlers.items()},
    }


def _actor(one: "ActorStatus") -> dict[str, Any]:
    return {
        "node": one.node,
        "pid": one.pid,
        "mailbox": one.mailbox,
        "outbox": one.outbox,
        "dead_letters": one.dead_letters,
        "pinned_bytes": one.pinned_bytes,
        "handler": one.handler,
        "waits_for": list(one.waits_for or ()),
        "waits_s": None if one.waits_s is None else round(one.waits_s, 3),
        "waits_at": one.waits_at,
    }


# As a page -------------------------------------------------------------------------------------------------------


def _shown(seen: SystemLook, rows_max: int | None) -> Group:
    status = seen.status
    title = heading(status.name)
    title.append(f"  {status.state}", STYLES.get(status.state, "yellow"))
    title.append(f"  life {status.incarnation}  in the cluster at {seen.address}")
    return sections([title], [facts(list(_facts(seen)))], _actors(status, rows_max))


def _facts(seen: SystemLook) -> list[tuple[str, str]]:
    status, rows = seen.status, []
    if status.detail:
        rows.append(("why", status.detail))
    taken_at = status.last_taken_at
    last = "none in this life" if taken_at is None else f"{status.last_snapshot}, {age(_age_s(taken_at))} ago"
    rows += [("storage", seen.storage), ("last snapshot", last)]
    if status.proofs:
        rows.append(("proofs", words.proofs(status.proofs) + (f" ({status.unproved})" if status.unproved else "")))
    rows.append(("snapshots", rhythm(seen.config)))
    rows += [("in progress", _progress(one, len(status.actors))) for one in status.snapshots]
    if status.aborted:
        rows.append(("aborted", f"{status.aborted:,} in this life"))
    if status.recoveries:
        rows.append(("went back", _went_back(status.recoveries)))
    if status.changed_answers:
        changed = f"{status.changed_answers:,} on which programs had acted: rayshot help healing"
        rows.append(("changed answers", changed))
    rows += [("outside", _behind(name, one)) for name, one in [*status.outside.items()][:NAMES_MAX]]
    if status.spares:
        rows.append(("spare processes", f"{status.spares:,} ready"))
    rows += [
        (
            "waiting",
            f"{one.sender} -> {one.receiver}: {one.method}, {age(one.seconds)}, for an object that is not there",
        )
        for one in status.waiting[:NAMES_MAX]
    ]
    return rows


def _behind(name: str, one: "OutsideStatus") -> str:
    trouble = f": {one.trouble}" if one.trouble else ""
    return f"{name} is behind {one.snapshot} for {age(one.seconds)}{trouble}"


def _went_back(recoveries: "Sequence[RecoveryReport]") -> str:
    last = recoveries[-1]
    ago = age(_age_s(datetime.fromtimestamp(last.at, UTC)))
    took = f", in {age(last.seconds)}" if last.seconds else ""
    times = "once" if len(recoveries) == 1 else f"{len(recoveries):,} times, the last"
    return f"{times} {ago} ago{took}, to {last.snapshot}: {last.actor or 'the coordinator'} was lost ({last.detail})"


def _progress(one: "SnapshotStatus", actors: int) -> str:
    head = f"{one.id} for {age(one.seconds)}"
    if one.recorded:
        return f"{head}: recorded, being written"
    text = f"{head}: {actors - len(one.missing)} of {actors} recorded"
    if one.missing:
        return f"{text}, waits for {', '.join(map(_why(one), one.missing[:NAMES_MAX]))}{_more(one.missing)}"
    channels = [f"{sender} -> {receiver}" for sender, receiver in one.open_channels]
    return f"{text}, open: {', '.join(channels[:NAMES_MAX])}{_more(channels)}" if channels else text


def _why(one: "SnapshotStatus") -> Callable[[str], str]:
    def why(name: str) -> str:
        method, seconds = one.handlers.get(name, ("", 0.0))
        return f"{name} (in {method} for {age(seconds)} or more)" if method else name

    return why


def _more(names: Any) -> str:
    more = len(names) - NAMES_MAX
    return f" and {more} more" if more > 0 else ""


def _actors(status: "SystemStatus", rows_max: int | None) -> list[Any]:
    since = {name: seconds for one in status.snapshots for name, (_, seconds) in one.handlers.items()}
    columns = [
        Header("actor", style="bold"),
        Header("node"),
        Header("mailbox", number=True),
        Header("outbox", number=True),
        Header("dead letters", number=True),
        Header("handler"),
    ]
    rows: list[list[Any]] = []
    for name, one in sorted(status.actors.items())[:rows_max]:
        if one.pid is None:
            rows.append([name, Text("no answer", style="red"), "", "", "", ""])
            continue
        handler = f"{one.handler}, {age(since[name])} or more" if one.handler and name in since else one.handler or ""
        if one.waits_for:
            whom = f"{', '.join(one.waits_for[:NAMES_MAX])}{_more(one.waits_for)}"
            handler = f"{handler} at {one.waits_at}, has waited for {whom} for {age(one.waits_s or 0.0)}"
        rows.append([name, one.node or "", *(f"{n:,}" for n in (one.mailbox, one.outbox, one.dead_letters)), handler])
    if not status.actors and status.state == RUNNING:
        return [Text(NO_ACTOR, style="yellow")]
    if not rows:
        return []
    return [grid(columns, rows), *left_out(len(status.actors) - len(rows), "actor")]


def age(seconds: float) -> str:
    """A past time, for people."""
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"  # noqa: PLR2004 - two digits are enough


def _age_s(taken_at: datetime) -> float:
    """The age by this machine's clock; never below zero, as another machine's clock may be ahead."""
    return max(0.0, (datetime.now(UTC) - taken_at).total_seconds())
