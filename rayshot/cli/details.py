"""`rayshot show` as tables: facts, actors with their states and dead letters, channels with messages in flight."""

from collections.abc import Iterator
from itertools import islice

from rich.console import Group, RenderableType
from rich.text import Text

from rayshot.cli.grid import Cell, Header, facts, grid, heading, left_out, sections
from rayshot.cli.pictures import flows
from rayshot.documents import words
from rayshot.inert.redaction import shown
from rayshot.snapshots.channel_state import ChannelState
from rayshot.snapshots.snapshot import Snapshot
from rayshot.snapshots.state import RecordedLetter, read_dead_letters

STATE_READ_BYTES_MAX = 64 << 20
"""A larger state is not read only for one line of a table."""

MESSAGES_READ_BYTES_MAX = 1 << 20
MESSAGES_SHOWN_MAX = 3
LETTERS_SHOWN_MAX = 3
"""So many of an actor's dead letters are shown."""
_SAID = ("in_flight",)
"""Figures that are shown in a separate line."""


def details(snapshot: Snapshot, *, rows_max: int | None, picture_width: int | None = None) -> Group:
    """One snapshot; with pictures if `picture_width`, the width of the terminal, is given."""
    channels = list(snapshot.channels.values())
    return sections(
        [heading(snapshot.system, str(snapshot.id))],
        [_facts(snapshot)],
        *_actors(snapshot, rows_max),
        _outside(snapshot, rows_max),
        _channels(channels, rows_max),
        [] if picture_width is None else flows(channels, picture_width),
    )


def _facts(snapshot: Snapshot) -> RenderableType:
    manifest = snapshot.manifest
    rows = [
        ("position", f"{snapshot.position:,} in the commit log"),
        ("taken at", words.local_time(snapshot.taken_at)),
        ("mode", manifest.mode),
        ("label", snapshot.label or ""),
        ("size", f"{words.size(snapshot.size_bytes)} in {words.plural(len(manifest.chunks), 'chunk')}"),
        ("in flight", words.plural(snapshot.in_flight, "message")),
        ("proofs", words.proofs(manifest.proofs)),
        ("made by", f"rayshot {manifest.rayshot_version}, Python {manifest.python_version}"),
        ("stats", ", ".join(words.figure(*one) for one in snapshot.stats.items() if one[0] not in _SAID)),
    ]
    return facts([(Text(name, style="dim"), fact) for name, fact in rows if fact])


def _actors(snapshot: Snapshot, rows_max: int | None) -> tuple[list[RenderableType], list[RenderableType]]:
    """The table of actors, and that of their dead letters."""
    actors = list(snapshot.actors.values())
    first = actors[:rows_max]
    columns = [Header("actor", style="bold"), Header("class"), Header("state size", number=True), Header("state")]
    rows: list[list[Cell]] = []
    letters: list[list[Cell]] = []
    for actor in first:
        state: Cell = Text(f"({actor.status})", style="dim")
        if actor.state_bytes > STATE_READ_BYTES_MAX:
            state = "(too large for one line)"
        elif actor.status == "born":
            recorded = snapshot.recorded(actor.name)
            state = words.state(recorded.state)
            letters += _letters(actor.name, list(read_dead_letters(actor.name, recorded.dead_letters)))
        rows.append([actor.name, actor.class_name, words.size(actor.state_bytes), state])
    return [grid(columns, rows), *left_out(len(actors) - len(first), "actor")], _letter_grid(letters)


def _outside(snapshot: Snapshot, rows_max: int | None) -> list[RenderableType]:
    """The table of what actors fixed outside; nothing if there is none."""
    found = list(snapshot.outside.items())
    columns = [Header("actor", style="bold"), Header("outside", number=True), Header("size", number=True)]
    columns += [Header("payload"), Header("folder")]
    rows: list[list[Cell]] = [
        [
            name,
            words.plural(len(one.files), "file"),
            words.size(one.size_bytes),
            words.value(shown("payload", one.payload)),
            one.folder if one.files else "",
        ]
        for name, one in found[:rows_max]
    ]
    return [grid(columns, rows), *left_out(len(found) - len(rows), "actor")] if rows else []


def _letters(actor: str, letters: list[RecordedLetter]) -> Iterator[list[Cell]]:
    """The rows of an actor's dead letters, the newest first."""
    for place, letter in enumerate(reversed(letters[-LETTERS_SHOWN_MAX:])):
        first = [actor, f"{len(letters):,}"] if place == 0 else ["", ""]
        yield [*first, f"{letter.life:,}", letter.sender, letter.receiver, letter.method, letter.reason]


def _letter_grid(rows: list[list[Cell]]) -> list[RenderableType]:
    names = ("sender", "receiver", "method", "reason")
    columns = [Header("actor", style="bold"), Header("dead letters", number=True), Header("life", number=True)]
    return [grid([*columns, *map(Header, names)], rows)] if rows else []


def _channels(channels: list[ChannelState], rows_max: int | None) -> list[RenderableType]:
    if not channels:
        return [Text(" no message was ever sent", style="dim")]
    first = channels
    if rows_max is not None and len(channels) > rows_max:
        first = sorted(channels, key=lambda channel: channel.count, reverse=True)[:rows_max]
    columns = [
        Header("sender", style="bold"),
        Header("receiver", style="bold"),
        *(Header(name, number=True) for name in ("sent", "received", "in flight")),
        Header("messages in flight"),
    ]
    rows = [
        [*channel.channel, f"{channel.sent:,}", f"{channel.received:,}", f"{channel.count:,}", _messages(channel)]
        for channel in first
    ]
    return [grid(columns, rows), *left_out(len(channels) - len(first), "less busy channel")]


def _messages(channel: ChannelState) -> str:
    """The first messages in flight, if they are cheap to read; for an aligned channel a note that it is aligned."""
    if channel.aligned:
        return "(aligned)"
    if channel.size_bytes > MESSAGES_READ_BYTES_MAX:
        return f"({words.size(channel.size_bytes)})"
    first = [words.message(message) for message in islice(channel.iterate(), MESSAGES_SHOWN_MAX)]
    return ", ".join([*first, "..."] if channel.count > len(first) else first)
