"""What manifests say: snapshots, their actors, and the counters of their channels. No chunk is read."""

from collections.abc import Iterable

from rayshot.analysis.view import EVERY, Column, View, actors, channel_bytes, channels, itself
from rayshot.store.snapshot import Snapshot
from rayshot.store.state import captured_bytes


def _whole(snapshot: Snapshot, _: None) -> Iterable[Snapshot]:
    return (snapshot,)


_SNAPSHOT_COLUMNS = (
    Column("label", "string", "a person's word for a savepoint", lambda _, row: row.label, from_log=True),
    Column("mode", "string", "the protocol that took it", lambda _, row: row.mode),
    Column("actors", "bigint", "how many actors", lambda _, row: len(row.manifest.actors)),
    Column("channels", "bigint", "how many channels", lambda _, row: len(row.manifest.channels)),
    Column("in_flight", "bigint", "messages in flight on all channels", lambda _, row: row.in_flight),
    Column("bytes", "bigint", "size in the store, shared chunks included", lambda _, row: row.size_bytes),
    Column("chunks", "bigint", "how many chunks", lambda _, row: len(row.manifest.chunks)),
    Column("rayshot_version", "string", "what took it", lambda _, row: row.manifest.rayshot_version),
    Column("python_version", "string", "what it ran on", lambda _, row: row.manifest.python_version),
    Column(
        "stats",
        "map<string,double>",
        "durations, sizes and counts from when it was taken",
        lambda _, row: [(name, float(number)) for name, number in row.stats.items()],
    ),
)

_ACTOR_COLUMNS = (
    Column("actor", "string", "its name", lambda _, row: row.name),
    Column("class_name", "string", "module.Class", lambda _, row: f"{row.class_module}.{row.class_name}"),
    Column("status", "string", "born or unborn; only a born actor has a state", lambda _, row: row.status),
    Column("state_bytes", "bigint", "its state as it was pickled", lambda _, row: captured_bytes(row.state)),
    Column("methods", "array<string>", "what can be sent to it", lambda _, row: list(row.methods)),
)

_CHANNEL_COLUMNS = (
    Column("sender", "string", "an actor, or a driver as driver:ID", lambda _, row: row.sender),
    Column("receiver", "string", "an actor", lambda _, row: row.receiver),
    Column("sent", "bigint", "number of the last message sent before the cut", lambda _, row: row.sent),
    Column("arrived", "bigint", "of the last one that had come to the mailbox", lambda _, row: row.arrived),
    Column("received", "bigint", "of the last one processed before the cut", lambda _, row: row.received),
    Column("in_flight", "bigint", "sent - received", lambda _, row: row.sent - row.received),
    Column("bytes", "bigint", "of the messages in flight", lambda _, row: channel_bytes(row)),
)

CUT_VIEWS = (
    View("snapshots", "one row for each snapshot", (*EVERY, *_SNAPSHOT_COLUMNS), _whole),
    View(
        "actors",
        "one row for each actor of each snapshot",
        (*EVERY, *_ACTOR_COLUMNS),
        itself,
        actors,
        options=("actor",),
    ),
    View(
        "channels",
        "one row for each channel that was ever used",
        (*EVERY, *_CHANNEL_COLUMNS),
        itself,
        channels,
        options=("sender", "receiver"),
    ),
)
