"""`rayshot verify` as lines: one for each check, and at the end what all checks prove together."""

from rich.console import Group
from rich.text import Text

from rayshot.audit import Findings
from rayshot.cli.grid import Cell, facts, heading, sections, tick
from rayshot.documents import words
from rayshot.errors import Incompatible
from rayshot.snapshots.snapshot import Snapshot
from rayshot.snapshots.verification import Trust, Verification


def proof(snapshot: Snapshot, verification: Verification, audited: Findings | None) -> Group:
    """The findings about one snapshot; `audited` is None if its data was not read."""
    lines: list[tuple[Cell, ...]] = [
        (tick(ok=check.ok), Text(check.name, style="bold"), check.detail) for check in verification.checks
    ]
    lines += [(_mark_of(None), Text("not seen", style="bold"), one.unseen) for one in verification.checks if one.unseen]
    lines.append((_mark(verification.trust), Text("signature", style="bold"), verification.trust_detail))
    title = heading(snapshot.system, str(snapshot.id), f"position {snapshot.position:,}")
    if audited is None:
        return sections([title], [facts(lines)], [_verdict(snapshot, verification, None)])
    audit: list[tuple[Cell, ...]] = [
        (_mark_of(finding.holds), Text(finding.name, style="bold"), finding.detail) for finding in audited.findings
    ]
    by_itself = Text("Audited apart from the code that wrote it:", style="dim")
    return sections([title], [facts(lines)], [by_itself, facts(audit)], [_verdict(snapshot, verification, audited)])


def _mark_of(holds: bool | None) -> Text:  # noqa: FBT001 - None is a third answer
    """The mark for a property that holds, does not hold, or cannot be judged."""
    return Text("?", style="dim") if holds is None else tick(ok=holds)


def _mark(trust: Trust) -> Text:
    """The mark for a signature that is proved, is false, or cannot be judged here."""
    match trust:
        case Trust.TRUSTED:
            return tick(ok=True)
        case Trust.BAD_SIGNATURE | Trust.UNREADABLE:
            return tick(ok=False)
        case Trust.UNSIGNED | Trust.UNKNOWN_KEY:
            return Text("!", style="bold yellow")


def _verdict(snapshot: Snapshot, verification: Verification, audited: Findings | None) -> Text:
    wrong = [check.name for check in verification.checks if not check.ok]
    wrong += [finding.name for finding in (audited.findings if audited else ()) if finding.holds is False]
    if any(isinstance(check.error, Incompatible) for check in verification.checks):
        return Text("Not judged: this rayshot is too old to read it.", style="bold yellow")
    if wrong:
        failed = " and ".join(wrong)
        return Text(f"Not proved: {failed}. Do not use this snapshot.", style="bold red")
    actors = words.plural(len(snapshot.actors), "actor")
    channels = words.plural(len(snapshot.channels), "channel")
    messages = words.plural(snapshot.in_flight, "message")
    cut = f"{actors} and {channels} with {messages} in flight"
    unseen = " except what was not seen" if any(check.unseen for check in verification.checks) else ""
    proved = f"Proved: a consistent cut of {cut}, every byte intact{unseen}"
    if audited is None:
        cut += unseen
        proved = f"Found in place: {cut}; that all bytes are intact, --read-data proves"
    if verification.trusted:
        signed = "Signed by a trusted key." if audited is None else "signed by a trusted key."
        return Text(f"{proved}{'. ' if audited is None else ', '}{signed}", style="bold green")
    return Text(
        f"{proved}. It is not signed by a trusted key: reading it is safe, restoring it is not.", style="bold yellow"
    )
