"""`rayshot systems | snapshot | savepoint | stop | configure`: commands for a running system.

They attach by name, create nothing, and read no storage. None of them restores: a restore needs the user's classes, and
a program that stays.
"""

import json
import re
import time
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

import click

from rayshot.cli.child_process import ask_apart
from rayshot.cli.connection import Seconds, address_option, check_running, cluster, name_argument, system
from rayshot.cli.grid import Header, console, grid
from rayshot.cli.json_option import json_option
from rayshot.documents import words
from rayshot.errors import ConfigError, Interrupted
from rayshot.model.configuration import SnapshotConfig, check_label
from rayshot.protocol.identity import MODES, STOP_THE_WORLD, Mode

if TYPE_CHECKING:
    from rayshot.protocol.identity import SnapshotId
    from rayshot.runtime.opening.system import System

_one_line = json_option()
_timeout = click.option(
    "--timeout", "timeout_s", type=Seconds(), default=inf, metavar="S", help="The longest time to wait."
)
_mode = click.option(
    "--mode", type=click.Choice(MODES), help="The algorithm; if left out, the one in the system's configuration."
)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|)")
DIGITS_MAX = 18
_UNITS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@click.command()
@address_option
@_one_line
def systems(address: str | None, *, as_json: bool) -> None:
    """List the systems that run in the cluster."""
    with cluster(address) as where:
        from rayshot.runtime.door.naming import running_systems  # noqa: PLC0415
        from rayshot.runtime.opening.attach import list_systems  # noqa: PLC0415 - see `reaching`

        found = list_systems(running_systems())
    if as_json:
        rows = [{"system": one.name, "state": one.state, "life": one.life, "storage": one.storage} for one in found]
        click.echo(json.dumps({"address": where, "systems": rows}))
    elif found:
        columns = [Header("system", rigid=True, style="bold"), Header("state"), Header("life", number=True)]
        rows_ = [(one.name, one.state, str(one.life or ""), one.storage or "") for one in found]
        console().print(grid([*columns, Header("storage")], rows_))
    else:
        click.echo(f"no system runs in the Ray cluster at {where}", err=True)


@click.command()
@name_argument
@_mode
@_timeout
@address_option
@_one_line
def snapshot(name: str | None, mode: Mode | None, timeout_s: float, address: str | None, *, as_json: bool) -> None:
    """Take a snapshot of system NAME, or of the only one."""
    click.echo(_say(_take(name, address, None, mode, timeout_s), as_json=as_json))


@click.command()
@click.argument("words_", metavar="[NAME] LABEL", nargs=-1, required=True)
@_mode
@_timeout
@address_option
@_one_line
@click.pass_context
def savepoint(
    context: click.Context,
    words_: tuple[str, ...],
    mode: Mode | None,
    timeout_s: float,
    address: str | None,
    *,
    as_json: bool,
) -> None:
    """Take a snapshot that retention never deletes. LABEL is its label."""
    import os  # noqa: PLC0415

    if len(words_) > 2:  # noqa: PLR2004 - both
        raise click.UsageError("give a name and a label, in quotes if it has blanks", context)
    name, label = words_ if len(words_) > 1 else (os.environ.get("RAYSHOT_SYSTEM") or None, words_[0])
    check_label(label)  # a bad label is refused before the system is asked
    click.echo(_say(_take(name, address, label, mode, timeout_s), as_json=as_json))


@click.command()
@name_argument
@click.option(
    "--savepoint", "label", metavar="LABEL", help="Stop with a savepoint: no actor handles a message after its cut."
)
@click.option("--without-savepoint", is_flag=True, help="Stop now: everything after the last snapshot is lost.")
@_timeout
@address_option
@_one_line
@click.pass_context
def stop(
    context: click.Context,
    name: str | None,
    label: str | None,
    timeout_s: float,
    address: str | None,
    *,
    without_savepoint: bool,
    as_json: bool,
) -> None:
    """End system NAME, or the only one. Its snapshots stay."""
    if (label is None) != without_savepoint:
        raise click.UsageError("say --savepoint LABEL, or --without-savepoint", context)
    if label is not None:
        check_label(label)
    if label is None:
        document = _shut(name, address, timeout_s)
    else:
        document = _take(name, address, label, STOP_THE_WORLD, timeout_s, final=True)
    click.echo(_say(document, as_json=as_json))
    if not as_json:
        click.echo(_how_to_resume(document))


@click.command()
@name_argument
@click.option(
    "--interval", metavar="TIME", help="The time between snapshots: 30s, 5m, 1h; `off` for no automatic snapshots."
)
@click.option("--keep", metavar="N", help="How many snapshots to keep, besides savepoints; `all` for all.")
@address_option
@_one_line
@click.pass_context
def configure(
    context: click.Context,
    name: str | None,
    interval: str | None,
    keep: str | None,
    address: str | None,
    *,
    as_json: bool,
) -> None:
    """Change when snapshots of a system are taken, until it is restored or its coordinator is started anew."""
    if interval is None and keep is None:
        raise click.UsageError("say --interval, --keep or both", context)
    asked: dict[str, Any] = {}
    if interval is not None:
        asked["interval_s"] = None if interval == "off" else _seconds(interval)
    if keep is not None:
        asked["num_to_keep"] = None if keep == "all" else _count(keep)
    replace(SnapshotConfig(), **asked)  # an invalid setting is refused before the system is asked
    with system(name, address) as (reached, _):
        check_running(reached)
        old = reached.config()
        reached.configure(new := replace(old, **asked))
        about = {"system": reached.name, "life": reached.incarnation}
    if as_json:
        was = {"interval_s": old.interval_s, "keep": old.num_to_keep}
        click.echo(json.dumps({**about, "interval_s": new.interval_s, "keep": new.num_to_keep, "was": was}))
    else:
        click.echo(f"{about['system']}: {rhythm(old)} -> {rhythm(new)}")


def rhythm(config: SnapshotConfig) -> str:
    """In words: when snapshots are taken, and how many are kept."""
    often = "only when asked for" if config.interval_s is None else f"every {config.interval_s:g} s"
    rules = {
        "the last": config.num_to_keep,
        "hourly": config.keep_hourly,
        "daily": config.keep_daily,
        "weekly": config.keep_weekly,
    }
    kept = [f"{rule} {count}" for rule, count in rules.items() if count is not None]
    return f"{often}, {', '.join(kept) or 'all'} kept"


def _take(
    name: str | None,
    address: str | None,
    label: str | None,
    mode: Mode | None,
    timeout_s: float,
    *,
    final: bool = False,
) -> dict[str, Any]:
    """Take a snapshot and, if it is `final`, shut the system down after it. Returns the document about it."""

    def take() -> dict[str, Any]:
        with system(name, address, timeout_s) as (reached, _):
            from rayshot.runtime.coordinator.requests import SnapshotRequest  # noqa: PLC0415 - see `reaching`

            check_running(reached)
            began = time.monotonic()
            committed = reached.order(SnapshotRequest(mode, label, final=final), timeout_s)
            record, figures = committed.record, committed.figures
            document = {
                **_about(reached),
                "snapshot": str(record.snapshot),
                "position": record.position,
                "label": record.label,
                "seconds": round(time.monotonic() - began, 3),
                "bytes": figures["bytes"],
                "in_flight": figures["in_flight"],
                **({"unsettled": [*committed.unsettled]} if final else {}),
            }
            if final:
                reached.shutdown()
        return document

    try:
        return ask_apart(take)
    except KeyboardInterrupt:
        stops = ", and stops with it" if final else ""
        raise Interrupted(
            f"the command waits no longer. If it has reached the system, that goes on with the snapshot{stops}: "
            f"`rayshot status` shows how far it is, and `rayshot list STORAGE` lists it when it is committed"
        ) from None


def _shut(name: str | None, address: str | None, timeout_s: float) -> dict[str, Any]:
    def shut() -> dict[str, Any]:
        with system(name, address, timeout_s) as (reached, _):
            last: SnapshotId | None = reached.status().last_snapshot
            reached.shutdown()
            return {**_about(reached), "snapshot": None if last is None else str(last), "label": None}

    return ask_apart(shut)


def _about(reached: "System") -> dict[str, Any]:
    return {"system": reached.name, "life": reached.incarnation, "storage": reached.storage}


def _say(document: dict[str, Any], *, as_json: bool) -> str:
    if as_json:
        return json.dumps(document)
    if "bytes" not in document:
        return f"stopped {document['system']} without a savepoint"
    label = f"  {words.printable(document['label'])}" if document["label"] else ""
    behind = document.get("unsettled", ())
    late = f"\nnot done yet outside by {', '.join(behind)}: a restore does it" if behind else ""
    return (
        f"{document['snapshot']}{label}  position {document['position']:,}  {words.size(document['bytes'])}  "
        f"{document['in_flight']:,} in flight  {document['seconds']:.2f} s{late}"
    )


def _how_to_resume(document: dict[str, Any]) -> str:
    storage = document["storage"]
    program = f"rayshot.resume({document['system']!r}, storage={storage!r}, begin=...)"
    if document["snapshot"] is None:
        return f"this life took no snapshot: {program} goes back to the last one of an earlier life, or begins anew"
    return f"it goes on from {document['snapshot']} with {program}"


def _seconds(text: str) -> float:
    parts = _DURATION.fullmatch(text)
    if parts is None:
        raise ConfigError(f"--interval {text!r}: give a number and a unit, such as 30s, 5m or 1h, or `off`")
    return float(parts[1]) * _UNITS[parts[2]]


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > DIGITS_MAX:
        raise ConfigError(f"--keep {text!r}: give a whole number, or `all`")
    return int(text)
