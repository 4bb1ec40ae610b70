"""The options of `spark.read`: where the snapshots are, and which table to read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from rayshot.analysis.query import Query, parse_query, refuse, system_for
from rayshot.analysis.selection import LATEST, SELECTION_OPTIONS
from rayshot.errors import ConfigError
from rayshot.keys.encryption import EncryptionKey, parse_encryption_keys
from rayshot.keys.files import read_text
from rayshot.keys.finder import find_encryption_keys
from rayshot.protocol.identity import SnapshotId, check_name
from rayshot.snapshots.catalog import SystemView
from rayshot.snapshots.catalog import open as open_storage

PLACE_OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "path": "the storage, as `load` takes it",
        "system": "the system whose snapshots are read; needed only if the storage holds several systems",
        "encryptionKeyFile": "a file with the keys of encrypted snapshots, on the driver; else its environment",
        "logEnd": "how many records of the log are read, to give several DataFrames the same moment; all records that "
        "exist at `load` if left out",
    }
)
"""Options that say where the snapshots are -> their meaning."""

_DIGITS_MAX = 19

EARLIEST = "earliest"
STREAM_OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "startingSnapshot": f"where a new stream begins: `{EARLIEST}`, also if left out, `{LATEST}` for snapshots "
        "committed from now on, or the id of a snapshot",
        "maxSnapshotsPerTrigger": "the most snapshots in a micro-batch; no limit if left out",
        "failOnDataLoss": "`true`, also if left out: the stream fails if a snapshot was deleted before it was read; "
        "`false`: the stream goes on and logs it",
        "lease": "`true`: keep the bytes of a micro-batch's snapshots until it is done, even if they are deleted "
        "meanwhile; this writes into the storage. `false`, also if left out: such a batch fails",
    }
)
"""Options of `spark.readStream` only -> their meaning."""

_MOMENTS = (*SELECTION_OPTIONS, "logEnd")
"""Options that choose snapshots of a batch; a stream reads them as they come."""

_IN_SQL = "write CREATE TEMP VIEW name USING rayshot OPTIONS (path './shots', view 'messages')"


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How a stream reads: where it begins, how many snapshots a micro-batch has, what it does about a lost one.

    `lease` says whether it takes leases of the snapshots that a micro-batch reads.
    """

    start: SnapshotId | str = EARLIEST
    snapshots_max: int | None = None
    fail_on_data_loss: bool = True
    lease: bool = False


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """A read that can be planned."""

    storage: str
    system: str | None
    key_file: str | None
    query: Query
    log_end: int | None = None
    stream: StreamOptions = StreamOptions()
    given: frozenset[str] = frozenset()
    """The names of all given options, in small letters."""
    ends: Mapping[str, int] | None = None
    """The lengths of the logs of all systems, for a table of the whole storage."""

    def encryption_keys(self) -> tuple[EncryptionKey, ...]:
        """The keys of this process; call it on the driver. Raises ConfigError."""
        if self.key_file is None:
            return find_encryption_keys()
        return parse_encryption_keys(read_text(Path(self.key_file), "encryptionKeyFile is "), self.key_file)

    def open_system(self) -> SystemView:
        """The system whose snapshots are read. Raises what `rayshot.open` raises, and SystemNotFound."""
        return system_for(self.query, open_storage(self.storage), self.system).as_of(self.log_end)

    def refuse_for_batch(self) -> None:
        """Raise ConfigError for an option that only a stream has."""
        self._refuse(STREAM_OPTIONS, "belongs to spark.readStream, and this is spark.read")

    def refuse_for_stream(self) -> None:
        """Raise ConfigError for an option that only a batch has, and for a view that is not about snapshots."""
        if not self.query.view.of_snapshots:
            raise ConfigError(
                f"the view {self.query.view_name!r} is not about snapshots, and a stream reads snapshots as they come: "
                "read it with spark.read, in foreachBatch of a stream of snapshots",
                option="view",
                value=self.query.view_name,
            )
        self._refuse(_MOMENTS, "chooses snapshots, and a stream reads them as they come: see startingSnapshot")

    def _refuse(self, names: Iterable[str], why: str) -> None:
        for name in names:
            if name.lower() in self.given:
                raise ConfigError(f"the option {name!r} {why}", option=name)

    def pinned(self) -> "ReadOptions":
        """The same read, of the present system and of its log as it is now. Raises as `open_system`."""
        system = self.open_system()
        log_end = system.log_end() if self.log_end is None else self.log_end
        return replace(self, system=system.name, log_end=log_end, ends=self._ends(system))

    def _ends(self, system: SystemView) -> dict[str, int] | None:
        if self.query.view.subject != "storage":
            return None
        ends = system.ends_in_its_storage()
        if self.log_end is not None:
            ends[open_storage(self.storage).system(self.system).name] = self.log_end
        return ends


def parse_options(given: Mapping[str, str]) -> ReadOptions:
    """Check the options of `spark.read`. Raises ConfigError, which shows option, expectation and value."""
    options = {name.lower(): value for name, value in given.items()}
    if "provider" in options:  # Spark's own word, which only CREATE TABLE brings
        raise ConfigError(f"Spark forgets the options of CREATE TABLE: {_IN_SQL}")
    own = {name: options[name] for name in options if name in map(str.lower, STREAM_OPTIONS)}
    of_streams = [f"{name} (spark.readStream)" for name in STREAM_OPTIONS]
    query = parse_query(
        {name: value for name, value in options.items() if name not in own}, [*PLACE_OPTIONS, *of_streams]
    )
    return ReadOptions(
        storage=_storage(options.get("path", "")),
        system=None if "system" not in options else _system(options["system"]),
        key_file=options.get("encryptionkeyfile"),
        query=query,
        log_end=None if "logend" not in options else _number("logEnd", options["logend"]),
        stream=_stream(own),
        given=frozenset(options),
    )


def _storage(address: str) -> str:
    if not address:
        refuse("path", f"a storage, as in .load('./shots'); Spark forgets the one of CREATE TABLE: {_IN_SQL}", address)
    if address.startswith("memory:"):
        refuse("path", "a storage that Spark's worker processes can reach too", address)
    return address


def _stream(given: Mapping[str, str]) -> StreamOptions:
    most = given.get("maxsnapshotspertrigger")
    return StreamOptions(
        start=_start(given.get("startingsnapshot", EARLIEST)),
        snapshots_max=None if most is None else _number("maxSnapshotsPerTrigger", most, 1),
        fail_on_data_loss=_truth("failOnDataLoss", given.get("failondataloss", "true")),
        lease=_truth("lease", given.get("lease", "false")),
    )


def _truth(option: str, text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        refuse(option, "true or false", text)
    return text.lower() == "true"


def _start(text: str) -> SnapshotId | str:
    try:
        return text if text in {EARLIEST, LATEST} else SnapshotId.parse(text)
    except ConfigError:
        refuse("startingSnapshot", f"{EARLIEST!r}, {LATEST!r} or the id of a snapshot, like 1-coordinator-3", text)


def _number(option: str, text: str, smallest: int = 0) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < _DIGITS_MAX and int(text) >= smallest):
        refuse(option, f"a whole number from {smallest}", text)
    return int(text)


def _system(name: str) -> str:
    try:
        return check_name(name, "a system")
    except ConfigError:
        refuse("system", "the name of a system", name)
