"""`rayshot verify`: how much it reads, what it shows meanwhile, and how it ends."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from rayshot.audit import Findings, prove
from rayshot.cli.exits import FINE, INCOMPATIBLE, NOT_TRUSTED, UNSOUND
from rayshot.cli.grid import console
from rayshot.cli.json_option import dump, json_option
from rayshot.cli.proof import proof
from rayshot.errors import ConfigError, Damaged, Incompatible, RayshotError, Untrusted
from rayshot.keys.finder import find_trusted_keys
from rayshot.snapshots.catalog import SystemView
from rayshot.snapshots.catalog import open as open_storage
from rayshot.snapshots.fallback import find_offer
from rayshot.snapshots.snapshot import Snapshot
from rayshot.snapshots.verification import Portion, Progress, Trust, Verification

PART_LENGTH_MAX = 100


class _Subset(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions only
    """A part of the chunks, written n/t."""

    name = "n/t"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Portion:
        """Read the part from a text."""
        number, slash, count = str(value).partition("/")
        if not slash or not number.isdecimal() or not count.isdecimal() or len(value) > PART_LENGTH_MAX:
            self.fail(f"{value!r}: give n/t, such as 1/4", param, ctx)
        try:
            return Portion(int(number), int(count))
        except ConfigError as error:
            self.fail(error.message, param, ctx)


@click.command()
@click.argument("storage", envvar="RAYSHOT_STORAGE")
@click.option("--system", metavar="NAME", envvar="RAYSHOT_SYSTEM", help="The system, if there are several.")
@click.option("--snapshot", metavar="ID", help="The snapshot; the latest if left out.")
@click.option("--read-data", is_flag=True, help="Read and prove every byte, every message and every state.")
@click.option("--subset", type=_Subset(), help="Read the n-th of t parts of the bytes: t runs read them all.")
@click.option(
    "--replay",
    is_flag=True,
    help="Read all data, and run deterministic classes again on a full trace. Executes code of the snapshot, "
    "so it must be signed with your key.",
)
@click.option(
    "--min-position",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Refuse a snapshot before this position of the log. An older one shows that the storage "
    "was put back, if you know that position N was committed.",
)
@json_option()
def verify(
    storage: str,
    system: str | None,
    snapshot: str | None,
    subset: Portion | None,
    min_position: int,
    *,
    read_data: bool,
    replay: bool,
    as_json: bool,
) -> None:
    """Prove one snapshot from its bytes.

    Without an option it reads only the manifest: that it is what was committed, its signature, and the cut equation
    on its counters. A listing shows that every chunk exists with its size, and every file that an actor wrote for it
    outside; if nothing can be seen where those are, it says so, which is not an error.

    With --read-data it proves every byte, message and state, with code that shares nothing with the writer. Traces
    prove more: the vector clocks, and that the snapshot is a state on a possible course of events (Theorem 1).

    With --subset it compares only the bytes of one part with their digests, for storages too large for one night.

    If the snapshot is damaged, it looks for the newest one before it that is whole, and says how to go back there.
    """
    if subset is not None and (read_data or replay):
        raise click.UsageError("--subset reads a part of the data, --read-data and --replay read all of it")
    view = open_storage(storage, min_position=min_position).system(system)
    found = view.snapshot(snapshot)
    audited: Findings | None = None
    with _bar(found, subset, read_data=read_data or replay) as progress:
        if read_data or replay:
            verification = found.examine(progress=progress)
        else:
            verification = found.survey(part=subset, progress=progress)
    if (read_data or replay) and not _is_of_another(verification):
        audited = _audit(found, view, replay=replay)
    if as_json:
        read = "data" if read_data or replay else f"{subset.number}/{subset.count}" if subset else "manifest"
        click.echo(dump(_document(found, verification, audited, read)))
    else:
        console().print(proof(found, verification, audited))
        if any(isinstance(check.error, Damaged) for check in verification.checks):
            click.echo(find_offer(view.history(), view.open, found.id, storage, find_trusted_keys()))
    raise click.exceptions.Exit(_code(verification, audited))


def _audit(found: Snapshot, view: SystemView, *, replay: bool) -> Findings:
    return prove(found, view.snapshots(), replay=replay, keys=find_trusted_keys())


def _is_of_another(verification: Verification) -> bool:
    """Whether the manifest belongs to another snapshot, so that this one has nothing to audit."""
    return any(isinstance(check.error, Untrusted) for check in verification.checks)


def _code(verification: Verification, audited: Findings | None) -> int:
    if any(isinstance(check.error, Incompatible) for check in verification.checks):
        return INCOMPATIBLE  # a newer rayshot can tell whether it is sound
    if _is_of_another(verification):
        return NOT_TRUSTED
    sound = verification.sound and (audited is None or audited.sound)
    if verification.trust is Trust.BAD_SIGNATURE or (sound and not verification.trusted):
        return NOT_TRUSTED
    return FINE if sound else UNSOUND


@contextmanager
def _bar(found: Snapshot, subset: Portion | None, *, read_data: bool) -> Iterator[Progress]:
    """A progress bar on stderr while chunks are read; only on a terminal, and gone at the end."""
    terminal = Console(stderr=True)
    if not terminal.is_terminal or not (read_data or subset):
        yield lambda _size: None
        return
    try:
        chunks, files = found.manifest.chunks, [file for folder in found.outside_folders for file in folder.files]
    except RayshotError:  # the verification reports it
        yield lambda _size: None
        return
    total = sum(chunk.stored_size for chunk in (subset.of(chunks) if subset else chunks))
    total += sum(file.size for file in (subset.of(files) if subset else files))
    columns = TextColumn("reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Bar(*columns, console=terminal, transient=True) as bar:
        task = bar.add_task("reading", total=total)
        yield lambda size: bar.advance(task, size)


def _document(snapshot: Snapshot, verification: Verification, audited: Findings | None, read: str) -> dict[str, Any]:
    """The document of `verify`. `read` says how much was read; `audited` is given only if all data was read."""
    return {
        "system": snapshot.system,
        "snapshot": str(snapshot.id),
        "position": snapshot.position,
        "read": read,
        "sound": verification.sound and (audited is None or audited.sound),
        "trusted": verification.trusted,
        "trust": {"status": verification.trust.value, "detail": verification.trust_detail},
        "checks": [
            {
                "name": check.name,
                "ok": check.ok,
                "detail": check.detail,
                "unseen": check.unseen,
                "error": None if check.error is None else check.error.kind,
            }
            for check in verification.checks
        ],
        "audit": [
            {"name": finding.name, "holds": finding.holds, "detail": finding.detail}
            for finding in (() if audited is None else audited.findings)
        ],
    }
